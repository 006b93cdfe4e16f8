"""Canary bursts: which of them were detected, and the smallest burst that can be detected."""

"""Canary bursts: which of them were detected, and how small a burst can be seen."""

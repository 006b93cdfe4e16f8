"""Canary bursts: planned and sent."""

"""Bursts: detected in stored bins, followed while they go on, and compared with each other."""

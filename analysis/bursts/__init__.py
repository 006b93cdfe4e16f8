"""Bursts: detected in stored bins, followed while they go on, and held against each other."""

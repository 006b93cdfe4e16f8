"""Measurements from elsewhere than the capture, as Arrow: probes and switch queues. Knows no database."""

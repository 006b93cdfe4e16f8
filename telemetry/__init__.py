"""Measurements from sources other than the capture, as Arrow: probes and switch queues. This package knows no
database."""

"""Measurements, defined once for all answers: coverage, latency, queue windows, envelopes, distributions,
statistics."""

"""Latency probes: their sender, their reflector, and the stamps of both."""

"""Latency probes: sender, reflector, and the stamps of both."""

"""Canary bursts: planning and sending."""

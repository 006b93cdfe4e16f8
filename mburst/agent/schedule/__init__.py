"""Scheduled reports, and the timers that start them."""

"""Metrics of the data that a store receives, for Prometheus and OpenMetrics."""

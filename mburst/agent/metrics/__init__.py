"""What a store gains, for Prometheus and OpenMetrics."""

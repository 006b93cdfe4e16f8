"""What the stored numbers mean: bursts, who sent them, what they did to latency."""

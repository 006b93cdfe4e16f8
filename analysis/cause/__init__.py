"""Whether the bursts of a port cause the latency tail of a path: from what was recorded to a verdict."""

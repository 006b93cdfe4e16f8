"""Whether the bursts of a port cause the latency tail of a path: from the recorded data to a verdict."""

"""mburst: find microbursts, who sent them, and whether they are what hurts the latency tail."""

__version__ = "0.1.0"

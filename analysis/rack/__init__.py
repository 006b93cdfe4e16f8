"""The content of a rack's report: bursts, contention, queues and changes over a period."""

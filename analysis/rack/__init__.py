"""What a rack's report shows: bursts, contention, queues and changes over a period."""

"""The effect of a change: recorded bursts replayed through their port."""

"""What a change would do: recorded bursts replayed through their port."""

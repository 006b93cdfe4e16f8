"""One file for each piece of evidence. Each takes the scene of a path and returns a measurement of it."""

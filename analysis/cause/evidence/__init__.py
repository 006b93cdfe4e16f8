"""One file a piece of evidence. Each takes the scene of a path and gives what is measured of it."""

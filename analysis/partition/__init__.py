"""A part of a fleet, such as a day of a rack: what its bursts are, from copies of its files. Knows no network."""

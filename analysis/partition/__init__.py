"""A part of a fleet, such as a day of a rack: its bursts, from copies of its files. Does not use the network."""

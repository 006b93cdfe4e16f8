"""A fleet of stores: shipping them to one place, and what is asked there."""

# What may be shipped of a store: all rows, what is detected in them, day by day, or that and the rows near bursts.
LEVELS = ("all", "hot", "bursts")
DETECTED = ("hot", "bursts")  # levels of which the target is a place of results

"""A fleet of stores: shipping them to one place, and what is asked there."""

LEVELS = ("all", "bursts")  # what may be shipped of a store: all rows, or what is detected in them, day by day

"""A fleet of stores: shipping them to one place, and what is asked there."""

LEVELS = ("all",)  # what may be shipped of a store: all rows

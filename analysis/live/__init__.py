"""The newest rows of a store in memory, for the live view."""

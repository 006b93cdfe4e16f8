"""The newest of a store in memory, for the live view."""

"""The report of a rack, and the index of such reports."""

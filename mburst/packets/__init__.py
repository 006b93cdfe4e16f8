"""The packets themselves: rings of files that recorders keep, and what is taken out of these and of captures."""

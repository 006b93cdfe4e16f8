"""The report of a fleet: a page for all racks, and one for each."""

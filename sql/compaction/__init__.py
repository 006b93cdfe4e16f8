"""Makes a store smaller as it gets older: many files become few, and bins and senders are kept where bursts may be.

rules.py says what is kept for how long, clock.py whether the clock is believed, files.py which files may be replaced,
thinning.py and its SQL what is kept of a day, rewriting.py writes it, and compact.py does all of it day by day.
docs/operate.md explains it to users.
"""

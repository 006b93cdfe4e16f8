"""A fleet of stores: shipping them to one place, and what is asked there."""

# What may be shipped of a store: all rows, what is detected in them, day by day, or that and the rows near bursts.
LEVELS = ("all", "hot", "bursts")
DETECTED = ("hot", "bursts")  # levels of which the target is a place of results

# Of a number of recordings that are left out, and what helps.
UNFIT = "{} of switch ports left out: line rate not known, or bins that do not make up --bin"
UNFIT_HINT = "`link` in the file of `mburst collect` states the line rate, for all here --link"

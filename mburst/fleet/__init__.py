"""A fleet of stores: shipping them to one place, and querying the results there."""

# What is shipped of a store: all rows; the bursts of each day with the rows near them; or the bursts of each day alone.
LEVELS = ("all", "hot", "bursts")
DETECTED = ("hot", "bursts")  # levels that ship to a place of results
SPLITS = ("auto", "rack", "host")  # by what the detection of a day is divided; auto: by host for large racks

# For a number of recordings that are left out; the hint names the remedy.
UNFIT = "{} of switch ports left out: line rate not known, or bins that do not make up --bin"
UNFIT_HINT = "`link` in the file of `mburst collect` states the line rate, for all here --link"

"""A fleet over some days: the answers to the questions on its results, for a report."""

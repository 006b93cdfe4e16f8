"""A fleet over some days: what the questions to its results answer, for a report."""

"""The values that a host report, an investigation and a comparison show."""

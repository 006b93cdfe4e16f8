"""What a host report, an investigation and a comparison show, as values."""

"""The page of an investigation."""

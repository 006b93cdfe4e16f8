"""The answers from stored bins. Reads relations, draws nothing."""

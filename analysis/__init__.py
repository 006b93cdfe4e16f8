"""What the stored bins say. Reads relations, draws nothing."""

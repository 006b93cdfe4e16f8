"""Long-running work: recording, probing, collecting, the live view."""

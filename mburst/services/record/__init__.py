"""From a capture to the store: a recording, its rows, its gaps and its recovery."""

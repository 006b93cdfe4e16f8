"""A store as a trace for ui.perfetto.dev."""

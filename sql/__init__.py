"""The store: a folder that writers append Arrow batches to, and that DuckDB reads. Knows no network and no capture."""

from .named import names, text
from .store import Store, in_memory

__all__ = ["Store", "in_memory", "names", "text"]

"""The store: a folder that writers append Arrow batches to, and that DuckDB reads. Knows no network and no capture."""

from .named import names, text
from .store import Store

__all__ = ["Store", "names", "text"]

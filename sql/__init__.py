"""The store: a folder that writers append Arrow batches to, and that DuckDB reads. This package knows no network and no
capture."""

from .format.filenames import new_writer
from .named import names, text
from .store import StoreFolder
from .views import in_memory

__all__ = ["StoreFolder", "in_memory", "names", "new_writer", "text"]

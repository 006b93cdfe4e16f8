"""mburst: detect microbursts, attribute them to their senders, and test whether they cause the latency tail."""

# The Python interface is in mburst/api; docs/python.md explains it. It is loaded on first use (PEP 562), because every
# start of the command line imports this module.

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import MburstError, UsageError
from .quality import Quality

if TYPE_CHECKING:
    from .api import asked
    from .api.comparing import Compared
    from .api.damage import CompactedWarning, DamagedFileWarning
    from .api.importing import Imported
    from .api.investigating import Investigation, WhatIf
    from .api.recording import Demo, Recorded, demo, import_csv, record
    from .api.reporting import RackReport, Report
    from .api.sensing import Sensitivity
    from .api.store import Store, open

__version__ = "0.1.0"
__all__ = [
    "CompactedWarning", "Compared", "DamagedFileWarning", "Demo", "Imported", "Investigation", "MburstError", "Quality",
    "RackReport", "Recorded", "Report", "Sensitivity", "Store", "UsageError", "WhatIf", "asked", "demo",
    "import_csv", "open", "record",
]  # fmt: skip

_PLACES = {
    "asked": "api.asked", "Compared": "api.comparing", "CompactedWarning": "api.damage",
    "DamagedFileWarning": "api.damage", "Imported": "api.importing",
    "Investigation": "api.investigating", "WhatIf": "api.investigating", "Demo": "api.recording",
    "Recorded": "api.recording", "demo": "api.recording", "import_csv": "api.recording", "record": "api.recording",
    "RackReport": "api.reporting", "Report": "api.reporting", "Sensitivity": "api.sensing",
    "Store": "api.store", "open": "api.store",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_PLACES[name]}", __name__)
    found = module if name == "asked" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

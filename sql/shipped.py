"""The ledgers of shippers in a store: `shipped/TARGET.json`, one line with the SHA-256 of the rest, and JSON.

mburst/fleet/ledger.py writes them and defines their meaning; compaction leaves alone what they do not name, except
tables that are not shipped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from .. import files

SHIPPED_TABLES = "tables"  # in place of a receipt: the tables that are shipped
SHIPPED_TO = "target"  # likewise: the name of the target
_MOST_BYTES = 1 << 28


def read_ledger(path: Path) -> dict[str, set[str]]:
    """Returns the content of a ledger, by receipt; nothing if the file does not hold what was written."""
    try:
        check, _, text = files.read_text(path, _MOST_BYTES)[0].partition("\n")
        if check != _check(text.removesuffix("\n")):
            return {}
        return {name: set(keys) for name, keys in json.loads(text).items()}
    except (OSError, UnicodeDecodeError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def ledger_text(noted: dict[str, set[str]]) -> str:
    """The content of such a file."""
    text = json.dumps({name: sorted(keys) for name, keys in sorted(noted.items())}, indent=0)
    return f"{_check(text)}\n{text}\n"


def _check(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

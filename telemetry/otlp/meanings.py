"""What metrics mean: tables of names and attributes → columns, one TOML file a sender in tables/ (docs/add-a-metric.md
has the format)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import MburstError, UsageError
from ..tables import PORT_VALUES, QUEUE_VALUES, SEMANTICS

FOLDER = Path(__file__).parent / "tables"
HELP = "docs/add-a-metric.md has the format"
COLUMNS = {"queues": QUEUE_VALUES, "ports": PORT_VALUES}
KEYS = {"queues": ("port", "queue"), "ports": ("port",)}
KINDS = {"gauges": "gauge", "counters": "counter", "counts": "count"}
_WORDS = {"table", "from", "semantics", "note", "scale", *KINDS}
_TOP = {"about", "source", "device", "rows"}
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class MetricMeaning:
    """A metric as a column. `kind`: gauge (the value at its time, or the most since the last), counter (a running
    total), count (what was counted since the last)."""

    sender: str  # the table's name
    table: str
    column: str
    kind: str
    semantics: str
    scale: int
    sources: tuple[tuple[str, re.Pattern[str]], ...]  # attribute → what it says
    device: tuple[str, ...]  # attributes that name the device, the first that is there counts

    def places(self, attributes: Mapping[str, str]) -> tuple[str, ...] | None:
        """The port, and of a queue its name; None where the attributes do not say."""
        found: dict[str, str] = {}
        for name, expression in self.sources:
            match = expression.fullmatch(attributes.get(name, ""))
            if match is None:
                return None
            found.update(match.groupdict())
        return tuple(found[key] for key in KEYS[self.table])


Meanings = Mapping[str, tuple[MetricMeaning, ...]]  # by the metric's name, the first that fits counts


def load(path: Path) -> list[tuple[str, MetricMeaning]]:
    """The table in a file, as (metric, meaning). Raises MburstError, with what is wrong with which entry."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        _known(content, _TOP, path.stem)
        device = tuple(content.get("device", ()))
        return [found for entry in content.get("rows", ()) for found in _row(path.stem, entry, device)]
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: invalid TOML: {error}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.hint or HELP) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"an entry lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path}: {problem}", HELP) from None


def _known(entry: Mapping[str, Any], words: Iterable[str], where: str) -> None:
    if unknown := sorted(set(entry) - set(words)):
        raise UsageError(f"{where}: unknown word {unknown[0]!r}", f"there are {', '.join(sorted(words))}")


def _row(sender: str, entry: Mapping[str, Any], device: tuple[str, ...]) -> Iterable[tuple[str, MetricMeaning]]:
    table = entry["table"]
    if table not in COLUMNS:
        raise UsageError(f"unknown table {table!r}", f"there are {', '.join(COLUMNS)}")
    _known(entry, _WORDS, table)
    semantics = entry.get("semantics", "")
    if table == "queues" and semantics not in SEMANTICS:
        raise UsageError(f"{table}: semantics {semantics!r}", f"one of {', '.join(SEMANTICS)}")
    sources = tuple((name, _expression(text)) for name, text in entry["from"].items())
    lacking = set(KEYS[table]) - {place for _, expression in sources for place in expression.groupindex}
    if lacking:
        raise UsageError(f"{table}: no attribute has {{{min(lacking)}}}", f"{table} needs {', '.join(KEYS[table])}")
    for word, kind in KINDS.items():
        for metric, column in entry.get(word, {}).items():
            if column not in COLUMNS[table]:
                raise UsageError(f"{metric}: {table} has no column {column!r}", f"it has {', '.join(COLUMNS[table])}")
            scale = _scale(entry.get("scale", {}).get(metric, 1), metric)
            yield metric, MetricMeaning(sender, table, column, kind, semantics, scale, sources, device)


def _scale(scale: Any, metric: str) -> int:
    if type(scale) is not int or not 0 < scale <= 10**12:
        raise UsageError(f"{metric}: invalid scale {scale!r}", "a whole number: a cell of 192 bytes has the scale 192")
    return scale


def _expression(text: str) -> re.Pattern[str]:
    parts = _PLACE.split(text)  # text, name, text, name, …
    return re.compile(
        "".join(re.escape(part) if index % 2 == 0 else f"(?P<{part}>[^|]+)" for index, part in enumerate(parts))
    )


@cache
def built_in() -> tuple[Path, ...]:
    """The tables that come with mburst."""
    return tuple(sorted(FOLDER.glob("*.toml")))


def meanings(own: Iterable[Path] = ()) -> Meanings:
    """All tables, one's own before those that come with mburst. Raises MburstError."""
    found: dict[str, tuple[MetricMeaning, ...]] = {}
    for path in (*own, *built_in()):
        for metric, meaning in load(path):
            found[metric] = (*found.get(metric, ()), meaning)
    return found

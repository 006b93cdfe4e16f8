"""The meanings of metrics: tables of names and attributes → columns, one TOML file per sender in tables/
(docs/add-a-metric.md describes the format). Anything unknown is an error with the file, the place in it and the remedy;
nothing is ignored silently."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import MburstError, UsageError
from ..tables import SEMANTICS
from .meaning import COLUMNS, KEYS, Meanings, MetricMeaning

FOLDER = Path(__file__).parent / "tables"
HELP = "docs/add-a-metric.md has the format"
KINDS = {"gauges": "gauge", "counters": "counter", "counts": "count"}
LEVELS = ("max_bytes", "avg_bytes", "link_bps")  # columns for states, not for counts
MOST_SCALE = 10**12
BITS = range(8, 64)
_WORDS = {"table", "from", "semantics", "note", "scale", "bits", *KINDS}
_TOP = {"about", "source", "device", "rows"}
_PLACE = re.compile(r"\{([^{}]*)\}")


def load(path: Path) -> list[tuple[str, MetricMeaning]]:
    """The table in a file, as (metric, meaning). Raises MburstError."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}", "`tables` names TOML files") from None
    except (ValueError, RecursionError) as error:  # from TOML and UTF-8, and for a number of thousands of digits
        raise UsageError(f"{path}: invalid TOML: {error}", HELP) from None
    return list(_Part(str(path), "", content).meanings(path.stem))


class _Part:
    """A TOML table in a file, and its place."""

    def __init__(self, file: str, place: str, content: Mapping[str, Any]) -> None:
        self._file, self._place, self._content = file, place, content

    def fail(self, key: str, problem: str, remedy: str = HELP) -> UsageError:
        """Returns the error about a key."""
        place = ".".join(part for part in (self._place, key) if part)
        return UsageError(f"{self._file}: {place}: {problem}" if place else f"{self._file}: {problem}", remedy)

    def meanings(self, sender: str) -> Iterator[tuple[str, MetricMeaning]]:
        """The meanings of a whole file."""
        self._know(_TOP)
        for key in ("about", "source"):
            self._text(key)
        device = self._content.get("device", [])
        if not isinstance(device, list) or not all(isinstance(name, str) and name for name in device):
            raise self.fail("device", "invalid list of attributes", 'example: device = ["host.name"]')
        rows = self._content.get("rows", [])
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise self.fail("rows", "no [[rows]]", "each [[rows]] has table, from, and gauges, counters or counts")
        for number, row in enumerate(rows, 1):
            yield from _Part(self._file, f"rows {number}", row).row(sender, tuple(device))

    def row(self, sender: str, device: tuple[str, ...]) -> Iterator[tuple[str, MetricMeaning]]:
        """The meanings of one of `rows`."""
        self._know(_WORDS)
        self._text("note")
        table = self._text("table")
        if table not in COLUMNS:
            raise self.fail("table", f"unknown table {table!r}", f"there are {', '.join(COLUMNS)}")
        semantics, sources = self._semantics(table), self._sources(table)
        metrics = self._metrics(table)
        scales = self._numbers("scale", metrics, range(1, MOST_SCALE + 1), "a cell of 192 bytes has the scale 192")
        counters = [metric for metric, (kind, _) in metrics.items() if kind == "counter"]
        bits = self._numbers("bits", counters, BITS, "32 of a counter that goes on from 0 after 4294967295")
        for metric, (kind, column) in metrics.items():
            yield (
                metric,
                MetricMeaning(
                    sender, table, column, kind, semantics, scales.get(metric, 1), bits.get(metric, 0), sources, device
                ),
            )

    def _know(self, words: Iterable[str]) -> None:
        if unknown := sorted(set(self._content) - set(words)):
            raise self.fail("", f"unknown word {unknown[0]!r}", f"there are {', '.join(sorted(words))}")

    def _text(self, key: str) -> str:
        found = self._content.get(key, "")
        if not isinstance(found, str):
            raise self.fail(key, f"invalid text {found!r}", "text in quotation marks")
        return found

    def _table(self, key: str, example: str) -> dict[str, Any]:
        found = self._content.get(key, {})
        if not isinstance(found, dict):
            raise self.fail(key, f"invalid table {found!r}", f"example: {key} = {example}")
        return found

    def _semantics(self, table: str) -> str:
        found = self._text("semantics")
        if table != "queues" and found:
            raise self.fail("semantics", f"{table} has none", "leave it out")
        if table == "queues" and found not in SEMANTICS:
            raise self.fail("semantics", f"invalid semantics {found!r}", f"one of {', '.join(SEMANTICS)}")
        return found

    def _sources(self, table: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
        found, places = [], list[str]()
        for name, text in self._table("from", '{ "acme.port" = "{port}" }').items():
            if not isinstance(text, str):
                raise self.fail(f"from.{name}", f"invalid text {text!r}", 'example: "{port}"')
            if "}{" in text:
                raise self.fail(f"from.{name}", "nothing between two places", 'example: "{port}|{queue}"')
            places += _PLACE.findall(text)
            found.append((name, text))
        needed = f"{table} needs {' and '.join(f'{{{key}}}' for key in KEYS[table])}, each once"
        for place in places:
            if place not in KEYS[table]:
                raise self.fail("from", f"unknown place {{{place}}}", needed)
        for key in KEYS[table]:
            if places.count(key) != 1:
                raise self.fail("from", f"{places.count(key)} attributes have {{{key}}}", needed)
        return tuple((name, _expression(text)) for name, text in found)

    def _metrics(self, table: str) -> dict[str, tuple[str, str]]:
        """Metric → (kind, column)."""
        found: dict[str, tuple[str, str]] = {}
        for word, kind in KINDS.items():
            columns = [name for name in COLUMNS[table] if (name in LEVELS) == (kind == "gauge")]
            for metric, column in self._table(word, f'{{ "acme.metric" = "{columns[0]}" }}').items():
                if column not in columns:
                    raise self.fail(f"{word}.{metric}", f"unknown column {column!r}", f"there are {', '.join(columns)}")
                if metric in found:
                    raise self.fail(f"{word}.{metric}", "the metric is there twice", "a row has a metric once")
                found[metric] = kind, column
        if not found:
            raise self.fail("", "no metric", f"needs {', '.join(KINDS)}")
        return found

    def _numbers(self, key: str, metrics: Iterable[str], allowed: range, remedy: str) -> dict[str, int]:
        """Whole numbers of some of the METRICS."""
        found = self._table(key, '{ "acme.metric" = 192 }')
        for metric, number in found.items():
            if metric not in metrics:
                raise self.fail(f"{key}.{metric}", "the row has no such metric", f"there are {', '.join(metrics)}")
            if type(number) is not int or number not in allowed:
                raise self.fail(f"{key}.{metric}", f"invalid number {number!r}", remedy)
        return found


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
    """All tables: those of the files OWN before those that come with mburst. Raises MburstError."""
    found: dict[str, tuple[MetricMeaning, ...]] = {}
    for path in (*own, *built_in()):
        for metric, meaning in load(path):
            found[metric] = (*found.get(metric, ()), meaning)
    return found

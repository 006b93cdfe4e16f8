"""The meaning of paths: tables of paths → columns, one TOML file per vendor in vendors/ (docs/add-a-switch.md describes
the format).

A table is data. It defines which subtree is a row of which table of the store, which leaf is which column, whether a
leaf is a gauge or a counter, and over which window a maximum was taken.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import MburstError, UsageError
from ...units import SHOWN, parse_duration
from ..tables import SEMANTICS
from .path import Steps, covers, parse, without_module
from .vendor_words import (
    COLUMNS,
    FACTS,
    KEYS,
    KINDS,
    PLACE,
    TIME_UNITS,
    check_file,
    check_meanings,
    check_row,
    shown,
    shown_path,
)

FOLDER = Path(__file__).parent / "vendors"

_MODEL = re.compile(r"[A-Za-z][\w.-]*@\d{4}-\d{2}-\d{2}|unchecked: .+")


@dataclass(frozen=True)
class Meaning:
    """The meaning of a leaf: a column of the rule's table, and how its values are interpreted.

    kind: gauge (as it is), counter (the increase since the previous value), count (already an increase), speed (text
    such as SPEED_100GB, in bits per second), text, mask (its bits show which columns are not determined), plain (a row
    of `gnmi_values`), or ignore.
    """

    column: str
    kind: str
    masks: tuple[tuple[str, int], ...] = ()  # of a mask: column, and the bits that mark it as undetermined


@dataclass(frozen=True)
class Pattern:
    """A path with places for names: `/a[k={port}]/{queue}`."""

    text: str
    steps: Steps

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Raises UsageError."""
        made = cls(text, parse(text).steps)
        try:
            for name, keys in made.steps:
                for part in (name, *(pattern for _, pattern in keys)):
                    _expression(part)
        except re.error as error:
            raise UsageError(
                f"{shown_path(text)}: invalid place: {error.msg[:SHOWN]}", "a place is a word in braces, once: {port}"
            ) from None
        return made

    def match(self, steps: Steps) -> dict[str, str] | None:
        """Returns the names of the places if the first steps of a path match; None if they do not."""
        if len(steps) < len(self.steps):
            return None
        found: dict[str, str] = {}
        for (name, keys), (have, have_keys) in zip(self.steps, steps, strict=False):
            if not (_fit(name, have, found) or _fit(name, without_module(have), found)):
                return None
            values = {without_module(key): value for key, value in have_keys}
            if any(key not in values or not _fit(pattern, values[key], found) for key, pattern in keys):
                return None
        return found

    def shape(self) -> Steps:
        """The pattern as a path in which every place is `*`."""
        return tuple(
            (PLACE.sub("*", name) if "{" not in name else "*", tuple((key, "*") for key, _ in keys))
            for name, keys in self.steps
        )


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = PLACE.split(pattern)  # text, name, text, name, …
    expression = "".join(re.escape(part) if index % 2 == 0 else f"(?P<{part}>.+)" for index, part in enumerate(parts))
    return re.compile(expression)


def _fit(pattern: str, text: str, found: dict[str, str]) -> bool:
    if "{" not in pattern:
        return pattern == text
    match = _expression(pattern).fullmatch(text)
    if match is None:
        return False
    found.update(match.groupdict())
    return True


@dataclass(frozen=True)
class VendorRule:
    """A subtree that is a row of a table."""

    vendor: str
    table: str
    pattern: Pattern
    origin: str
    leaves: dict[str, Meaning]
    semantics: str = ""
    window_ns: int = 0  # the device's own window; 0: since the previous sample
    note: str = ""
    when_detected: bool = False
    names: dict[str, str] = field(default_factory=dict)  # key column → text with places
    key_leaves: dict[str, str] = field(default_factory=dict)  # key column → leaf that contains it
    time: tuple[str, int] | None = None  # the leaf with the time, and its unit in ns
    event: tuple[str, tuple[str, ...]] | None = None  # the leaf with the kind of event, and the kinds that begin one
    times: dict[str, str] = field(default_factory=dict)  # leaf → fact by which it is multiplied
    model: str = ""  # NAME@REVISION of the YANG model that it is based on, or why there is none ("unchecked: …")
    models: dict[str, str] = field(default_factory=dict)  # the same for leaves with another model

    def model_of(self, leaf: str) -> str:
        """The model of a leaf."""
        return self.models.get(leaf, self.model)

    @property
    def is_record(self) -> bool:
        """Whether the row itself contains the names of its subject."""
        return bool(self.key_leaves)


@dataclass(frozen=True)
class Fact:
    """A leaf that is not a row, but needed to read others."""

    vendor: str
    pattern: Pattern
    fact: str
    note: str
    model: str = ""


@dataclass(frozen=True)
class Vendor:
    """A table."""

    name: str
    about: str
    source: str
    detect: tuple[str, ...]
    rules: tuple[VendorRule, ...]
    facts: tuple[Fact, ...]
    answers: dict[str, tuple[str, ...]]  # the path of a sensor → the paths of its values

    def made(self, models: Iterable[tuple[str, str]]) -> bool:
        """Whether a device with these models (name, organization) is of this vendor."""
        return any(name.startswith(self.detect) for name, _ in models) if self.detect else False


# --- reading --------------------------------------------------------------------------------------------------------


def load(path: Path) -> Vendor:
    """Returns the table in a file. Raises MburstError, with the entry and what is wrong with it."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # from TOML and UTF-8, and for a number of thousands of digits
        raise UsageError(f"{path}: invalid TOML: {error}") from None
    name = path.stem
    try:
        check_file(content)
        vendor = Vendor(
            name=name,
            about=content.get("about", name),
            source=content.get("source", ""),
            detect=tuple(content.get("detect", ())),
            rules=tuple(_rule(name, entry) for entry in content.get("rows", ())),
            facts=tuple(_fact(name, entry) for entry in content.get("facts", ())),
            answers={entry["path"]: tuple(entry["answers"]) for entry in content.get("subscriptions", ())},
        )
        check_meanings(content.get("rows", ()), content.get("facts", ()))
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.hint or "docs/add-a-switch.md has the format") from None
    return vendor


def _rule(vendor: str, entry: dict[str, Any]) -> VendorRule:
    table, where = entry["table"], shown_path(entry["path"])
    if table not in COLUMNS:
        raise UsageError(f"{where}: unknown table {shown(table)}", f"there are {', '.join(COLUMNS)}")
    check_row(entry)
    leaves = {
        leaf: Meaning(column, kind) for word, kind in KINDS.items() for leaf, column in entry.get(word, {}).items()
    }
    leaves |= {leaf: _mask(masks, table, where) for leaf, masks in entry.get("undetermined", {}).items()}
    leaves |= {leaf: Meaning("", "ignore") for leaf in entry.get("ignore", ())}
    leaves |= {leaf: Meaning("", "plain") for leaf in entry.get("plain", ())}
    semantics = entry.get("semantics", "")
    if semantics not in SEMANTICS and ("semantics" in entry or table in ("queues", "buffers")):
        raise UsageError(f"{where}: semantics {shown(semantics)}", f"one of {', '.join(SEMANTICS)}")
    pattern = Pattern.of(entry["path"])
    key_leaves = dict(entry.get("keys", {}))
    names = {key: entry.get(key, f"{{{key}}}") for key in KEYS[table] if key not in key_leaves}
    places = set(PLACE.findall(entry["path"]))
    for key, text in names.items():
        if lacking := set(PLACE.findall(text)) - places:
            raise UsageError(f"{where}: the path has no {shown(sorted(lacking)[0])}", f"{table} needs {key}")
    time = entry.get("time")
    event = entry.get("event")
    return VendorRule(
        vendor=vendor, table=table, pattern=pattern, origin=entry.get("origin", ""), leaves=leaves,
        semantics=semantics, window_ns=parse_duration(entry["window"]) if "window" in entry else 0,
        note=entry.get("note", ""), when_detected=entry.get("when") == "detected", names=names, key_leaves=key_leaves,
        time=(time["leaf"], TIME_UNITS[time["unit"]]) if time else None,
        event=(event["leaf"], tuple(event["begin"])) if event else None, times=dict(entry.get("times", {})),
        model=_model(entry.get("model", ""), where),
        models={leaf: _model(text, where) for leaf, text in entry.get("models", {}).items()},
    )  # fmt: skip


def _mask(masks: dict[str, int], table: str, where: str) -> Meaning:
    if unknown := sorted(set(masks) - set(COLUMNS[table])):
        raise UsageError(f"{where}: {table} has no column {shown(unknown[0])}", f"it has {', '.join(COLUMNS[table])}")
    if any(type(bits) is not int or bits <= 0 for bits in masks.values()):
        raise UsageError(f"{where}: invalid bits of undetermined", "write { LEAF = { COLUMN = 1 } }")
    return Meaning("", "mask", tuple(masks.items()))


def _fact(vendor: str, entry: dict[str, Any]) -> Fact:
    where = shown_path(entry["path"])
    if entry["fact"] not in FACTS:
        raise UsageError(f"{where}: unknown fact {shown(entry['fact'])}", f"there are {', '.join(FACTS)}")
    return Fact(vendor, Pattern.of(entry["path"]), entry["fact"], entry.get("note", ""),
                _model(entry.get("model", ""), where))  # fmt: skip


def _model(text: str, where: str) -> str:
    if text and not _MODEL.fullmatch(text):
        raise UsageError(f"{where}: invalid model {shown(text)}", "write NAME@YYYY-MM-DD, or unchecked: and why")
    return text


@cache
def built_in() -> tuple[Vendor, ...]:
    """The tables that come with mburst; OpenConfig last, since other vendors may give its paths another meaning."""
    found = [load(path) for path in sorted(FOLDER.glob("*.toml"))]
    return tuple(sorted(found, key=lambda vendor: (vendor.name == "openconfig", vendor.name)))


# --- asking ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeafMatch:
    """The meaning of a leaf in the tables: its rule, its name below it, and the names in its path."""

    rule: VendorRule
    leaf: str
    places: dict[str, str]

    @property
    def meaning(self) -> Meaning | None:
        return self.rule.leaves.get(self.leaf)


class Tables:
    """The tables that apply to one device: those of its vendor first."""

    def __init__(self, vendors: Iterable[Vendor], detected: str = "") -> None:
        self.vendors = tuple(sorted(vendors, key=lambda vendor: vendor.name != detected))
        self.detected = detected
        self.rules = [
            rule
            for vendor in self.vendors
            for rule in vendor.rules
            if not rule.when_detected or vendor.name == detected
        ]
        self.facts = [fact for vendor in self.vendors for fact in vendor.facts]
        self.list_keys = _list_keys([rule.pattern for rule in self.rules] + [fact.pattern for fact in self.facts])

    def fact(self, steps: Steps) -> tuple[str, dict[str, str]] | None:
        """Returns the fact of a leaf, and the places of its path."""
        for fact in self.facts:
            if len(steps) == len(fact.pattern.steps) and (places := fact.pattern.match(steps)) is not None:
                return fact.fact, places
        return None

    def rule(self, steps: Steps) -> LeafMatch | None:
        """The first rule that has a meaning for a leaf."""
        for rule in self.rules:
            if len(steps) != len(rule.pattern.steps) + 1:
                continue
            leaf = without_module(steps[-1][0])
            wanted = leaf in rule.leaves or (rule.is_record and not steps[-1][1])
            if wanted and (places := rule.pattern.match(steps)) is not None:
                return LeafMatch(rule, leaf, places)
        return None

    def meanings(self, subscribed: Steps) -> Iterator[VendorRule | Fact]:
        """Yields the rules and facts of which a subscription to a path brings at least a part."""
        paths = [subscribed]
        for vendor in self.vendors:
            for sensor, answers in vendor.answers.items():
                if covers(parse(sensor).steps, subscribed):
                    paths += [parse(answer).steps for answer in answers]
        entries: list[VendorRule | Fact] = [*self.rules, *self.facts]
        for entry in entries:
            shape = entry.pattern.shape()
            if any(_overlap(shape, path) for path in paths):
                yield entry


def _overlap(shape: Steps, path: Steps) -> bool:
    """Whether the subtree of a pattern's shape and that of a subscribed path overlap."""
    for (name, keys), (other, others) in zip(shape, path, strict=False):
        plain = without_module(other)
        if other == "...":
            return True
        if "*" not in (name, other) and name not in (other, plain) and not _wild(other, name):
            return False
        have = dict(others)
        if any(value != "*" and have.get(key, "*") not in ("*", value) for key, value in keys):
            return False
    return True


def _wild(pattern: str, name: str) -> bool:
    """Whether NAME matches a pattern of SONiC, such as `Ethernet*`."""
    return pattern.endswith("*") and name.startswith(pattern[:-1])


def _list_keys(patterns: Iterable[Pattern]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """For the name of a list, the sets of names that are its keys anywhere in the tables."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for pattern in patterns:
        for name, keys in pattern.steps:
            if keys:
                found.setdefault(name, {})[tuple(key for key, _ in keys)] = None
    return {name: tuple(sets) for name, sets in found.items()}

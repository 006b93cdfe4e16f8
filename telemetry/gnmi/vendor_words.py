"""The words of a vendor's table, the form of the value of each, and which of them a row may have
(docs/add-a-switch.md). A word that is unknown, has a value of another form or has no effect is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ...errors import UsageError
from ...units import MOST, SHOWN, parse_duration
from ..tables import BUFFER_VALUES, PORT_VALUES, QUEUE_VALUES
from .path import SHOWN_PATH, Steps, parse, without_module

COLUMNS = {"queues": QUEUE_VALUES, "ports": PORT_VALUES, "buffers": BUFFER_VALUES, "links": ("host", "interface")}
KEYS = {
    "queues": ("port", "queue"),
    "ports": ("port",),
    "buffers": ("component", "resource"),
    "links": ("port", "neighbor"),
}
KINDS = {"gauges": "gauge", "counters": "counter", "counts": "count", "speeds": "speed", "texts": "text"}
FACTS = ("boot", "clear", "alias", "segmentSize")
FACTORS = ("segmentSize",)
FACTS_OF_PORTS = ("clear", "alias")
PLACE = re.compile(r"\{(\w+)\}")
TIME_UNITS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}

# The words that have an effect in a row, beside those that every row may have and the names of its subject.
_OF_EVERY_ROW = ("table", "path", "origin", "note", "when", "model", "models", "plain", "ignore")
_WITH_KEYS: tuple[str, ...] = ("keys", "time", "event", "times", "semantics", "gauges", "counts")
_MEASURED = ("semantics", "window", "gauges", "counters", "counts", "undetermined")
_WITHOUT_KEYS: dict[str, tuple[str, ...]] = {
    "queues": _MEASURED,
    "ports": (*_MEASURED, "speeds"),
    "buffers": _MEASURED,
    "links": ("texts",),
}
_ADDED_UP = ("counters", "counts")
_NOT_COUNTED = ("max_bytes", "avg_bytes", "used_bytes", "limit_bytes", "link_bps")
_COLUMNS_OF_WORD = {
    "counters": {column for columns in COLUMNS.values() for column in columns} - {*_NOT_COUNTED, *COLUMNS["links"]},
    "speeds": {"link_bps"},
}


def shown(value: Any, most: int = SHOWN) -> str:
    """VALUE as a file has it, no longer than identifies it, on one line."""
    return repr(value[:most]) if isinstance(value, str) else _written(value, 3)[:most]


def shown_path(text: Any) -> str:
    """A path at the begin of an error."""
    if not isinstance(text, str):
        return shown(text)
    cut = text if len(text) <= SHOWN_PATH else text[:SHOWN_PATH] + "…"
    return cut if cut.isprintable() else repr(cut)[1:-1]


def _written(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, list | dict) and not depth:
        return "…"
    if isinstance(value, list):
        return f"[{', '.join(_written(one, depth - 1) for one in value[:SHOWN])}]"
    if isinstance(value, dict):
        pairs = (
            f"{key if key.isprintable() else repr(key)} = {_written(one, depth - 1)}"
            for key, one in list(value.items())[:SHOWN]
        )
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, bool):
        return str(value).lower()
    return hex(value) if isinstance(value, int) and abs(value) > MOST else str(value)


class Form(NamedTuple):
    """The form of a value, and an example of it."""

    holds: Callable[[Any], bool]
    example: str


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one for one in value)


def _are_some_texts(value: Any) -> bool:
    return _are_texts(value) and bool(value)


def _maps_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) and one for one in value.values())


def _is_window(value: Any) -> bool:
    return isinstance(value, str) and parse_duration(value) > 0


def _is_name(value: Any) -> bool:
    """Whether VALUE is a text with places in braces."""
    return isinstance(value, str) and not set("{}") & set(PLACE.sub("", value))


def _has(value: Any, **forms: Callable[[Any], bool]) -> bool:
    """Whether VALUE is a table of exactly these words, with values of these forms."""
    return isinstance(value, dict) and value.keys() == forms.keys() and all(forms[key](value[key]) for key in forms)


TEXT = Form(_is_text, "text in quotation marks")
TEXTS = Form(_are_texts, 'a list of texts, such as ["id"]')
NAME = Form(_is_name, '"in:{queue}"')
_COLUMNS_OF = Form(_maps_texts, '{ leaf = "column" }')
_OF_ROW = {
    "table": TEXT,
    "path": TEXT,
    "origin": TEXT,
    "semantics": TEXT,
    "window": Form(_is_window, '"60s"'),
    "note": TEXT,
    "model": TEXT,
    "models": Form(_maps_texts, '{ leaf = "acme-ports@2026-02-01" }'),
    "when": Form(lambda value: value == "detected", '"detected"'),
    "keys": Form(_maps_texts, '{ port = "leaf" }'),
    "time": Form(
        lambda value: _has(value, leaf=_is_text, unit=lambda unit: _is_text(unit) and unit in TIME_UNITS),
        f'{{ leaf = "timestamp", unit = "us" }}, with a unit of {", ".join(TIME_UNITS)}',
    ),
    "event": Form(
        lambda value: _has(value, leaf=_is_text, begin=_are_some_texts), '{ leaf = "entryType", begin = ["START"] }'
    ),
    "times": Form(_maps_texts, '{ leaf = "segmentSize" }'),
    "undetermined": Form(
        lambda value: isinstance(value, dict) and all(isinstance(masks, dict) and masks for masks in value.values()),
        "{ leaf = { transmit_bytes = 1 } }",
    ),
    "plain": TEXTS,
    "ignore": TEXTS,
    **dict.fromkeys(KINDS, _COLUMNS_OF),
    **{key: NAME for keys in KEYS.values() for key in keys},
}
_OF_FACT = dict.fromkeys(("path", "fact", "note", "model"), TEXT)
_OF_SUBSCRIPTION = {"path": TEXT, "answers": Form(_are_some_texts, '["/acme/port"]')}
ENTRY_WORDS = ("rows", "facts", "subscriptions")


def _are_entries(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


_OF_FILE = {
    "about": TEXT,
    "source": TEXT,
    "detect": TEXTS,
    **{word: Form(_are_entries, f"a line [[{word}]] before each entry") for word in ENTRY_WORDS},
}


def check_file(content: Mapping[str, Any]) -> None:
    """Raise UsageError unless the CONTENT of a file has an entry, and only known words with values of their forms."""
    _check(content, _OF_FILE, "")
    if not any(content.get(word) for word in ENTRY_WORDS):
        raise UsageError("no [[rows]]", "each [[rows]] has table, path, and gauges, counters or others")
    for word, forms, needed in (
        ("rows", _OF_ROW, ("path", "table")),
        ("facts", _OF_FACT, ("path", "fact")),
        ("subscriptions", _OF_SUBSCRIPTION, ("path", "answers")),
    ):
        for entry in content.get(word, ()):
            _check(entry, forms, shown_path(entry.get("path", f"[[{word}]]")), needed)
    _check_subscriptions(content.get("subscriptions", ()))


def _check(entry: Mapping[str, Any], forms: Mapping[str, Form], where: str, needed: Iterable[str] = ()) -> None:
    place = f"{where}: " if where else ""
    if unknown := sorted(set(entry) - set(forms)):
        raise UsageError(f"{place}unknown word {shown(unknown[0])}", f"there are {', '.join(sorted(forms))}")
    if lacking := sorted(set(needed) - set(entry)):
        raise UsageError(f"{place}an entry lacks {lacking[0]!r}")
    for word, value in entry.items():
        try:
            holds = forms[word].holds(value)
        except UsageError as error:
            raise UsageError(f"{place}{error}", error.hint) from None
        if not holds:
            raise UsageError(f"{place}invalid {word} {shown(value)}", f"example: {forms[word].example}")


def checked_path(text: str) -> Steps:
    """Returns the steps of the path of an entry. Raises UsageError."""
    path = parse(text)
    if path.origin:
        raise UsageError(
            f"{shown_path(text)}: an origin in the path", f'leave it out, and write origin = "{path.origin}" in rows'
        )
    if not path.steps:
        raise UsageError(f"{shown_path(text) or '[path]'}: a path without steps", "example: /acme/port[name={port}]")
    for name, keys in path.steps:
        if any(set(key) & set("{}") for key, _ in keys) or not all(
            map(_is_name, (name, *(value for _, value in keys)))
        ):
            raise UsageError(f"{shown_path(text)}: invalid place", "examples: /port[name={port}], /{port}:{queue}")
    return path.steps


def _check_subscriptions(entries: Iterable[Mapping[str, Any]]) -> None:
    met = set[Steps]()
    for entry in entries:
        steps = checked_path(entry["path"])
        for text in (entry["path"], *entry["answers"]):
            checked_path(text)
            if PLACE.search(text):
                raise UsageError(f"{shown_path(text)}: a place in the path of a subscription", "leave the key out")
        if steps in met:
            raise UsageError(f"{shown_path(entry['path'])}: two [[subscriptions]] of this path", "join their answers")
        met.add(steps)


def check_row(entry: Mapping[str, Any]) -> None:
    """Raise UsageError if words of a row contradict each other or its table, which exists, or have no effect there."""
    table, where = entry["table"], shown_path(entry["path"])
    others = {key for keys in KEYS.values() for key in keys} - set(KEYS[table])
    if wrong := sorted({*others & set(entry), *set(entry.get("keys", ())) - set(KEYS[table])}):
        raise UsageError(f"{where}: {table} has no key {shown(wrong[0])}", f"it has {', '.join(KEYS[table])}")
    _check_leaves(entry, where)
    _check_effects(entry, where)
    _check_columns(entry, where)
    if "keys" in entry and (lacking := [key for key in KEYS[table] if key not in entry["keys"]]):
        raise UsageError(f"{where}: keys lacks {lacking[0]!r}", f"a record contains {' and '.join(KEYS[table])}")


def _leaves_of(entry: Mapping[str, Any]) -> list[str]:
    """The leaves of a row that have a meaning of their own."""
    return [leaf for word in (*KINDS, "undetermined", "plain", "ignore") for leaf in entry.get(word, ())]


def _leaves_of_record(entry: Mapping[str, Any]) -> set[str]:
    """The leaves of a record that name its subject, its time and its kind."""
    return {*entry.get("keys", {}).values(), *(entry[word]["leaf"] for word in ("time", "event") if word in entry)}


def _check_leaves(entry: Mapping[str, Any], where: str) -> None:
    leaves, of_record = _leaves_of(entry), _leaves_of_record(entry)
    for leaf in (*leaves, *of_record):
        if not leaf or set(leaf) & set("/[]{}\\") or leaf != leaf.strip() or without_module(leaf) != leaf:
            raise UsageError(f"{where}: invalid leaf {shown(leaf)}", "the name below the path, without its module")
    if twice := sorted({leaf for leaf in leaves if leaves.count(leaf) > 1}):
        raise UsageError(f"{where}: {shown(twice[0])} has two meanings", "name each leaf of a row once")
    numbers = {leaf for word in _WITH_KEYS if word in KINDS for leaf in entry.get(word, ())}
    for word, met in (("times", numbers), ("models", {*leaves, *of_record})):
        if lacking := sorted(set(entry.get(word, ())) - met):
            raise UsageError(f"{where}: the row has no leaf {shown(lacking[0])} for {word}", "name a leaf of the row")
    for fact in entry.get("times", {}).values():
        if fact not in FACTORS:
            problem = f"{shown(fact)} is no factor" if fact in FACTS else f"unknown fact {shown(fact)}"
            raise UsageError(f"{where}: {problem}", f"there is {', '.join(FACTORS)}")


def _check_effects(entry: Mapping[str, Any], where: str) -> None:
    """Raise UsageError if a word has no effect in this row."""
    table = entry["table"]
    if "keys" in entry and table != "links":
        kind, allowed = "with keys", _WITH_KEYS
    else:
        kind = "of links" if table == "links" else f"of {table} without keys"
        allowed = (*_WITHOUT_KEYS[table], *KEYS[table])
    if idle := sorted(set(entry) - set(_OF_EVERY_ROW) - set(allowed)):
        raise UsageError(
            f"{where}: {idle[0]!r} has no effect in a row {kind}",
            f"it may have {', '.join((*allowed, 'plain, ignore'))}",
        )


def _check_columns(entry: Mapping[str, Any], where: str) -> None:
    """Raise UsageError if a word fills a column that is not of its kind, or one that another leaf fills."""
    table, filled = entry["table"], dict[str, str]()
    for word in KINDS:
        for column in entry.get(word, {}).values():
            if column not in COLUMNS[table]:
                raise UsageError(
                    f"{where}: {table} has no column {shown(column)}", f"it has {', '.join(COLUMNS[table])}"
                )
            if column not in _COLUMNS_OF_WORD.get(word, COLUMNS[table]):
                raise UsageError(f"{where}: {column!r} is no column for {word}", "gauges are for numbers as they are")
            if column in filled and ("keys" in entry or word not in _ADDED_UP or filled[column] not in _ADDED_UP):
                raise UsageError(
                    f"{where}: two leaves for {column!r}", "only counters, and counts, add up, without keys"
                )
            filled[column] = word


def check_meanings(rows: Iterable[Mapping[str, Any]], facts: Iterable[Mapping[str, Any]]) -> None:
    """Raise UsageError if a row has no leaf, or a leaf has a meaning in two entries, of which only one would count."""
    met = _check_rows(rows)
    known = set[Steps]()
    for entry in facts:
        where, steps = shown_path(entry["path"]), _shape(checked_path(entry["path"]))
        if steps in known:
            raise UsageError(f"{where}: two facts of this path", "the first one would count")
        if (steps[:-1], steps[-1][0]) in met:
            raise UsageError(f"{where}: a row has this leaf", "the fact alone would count")
        if entry["fact"] in FACTS_OF_PORTS and "port" not in PLACE.findall(entry["path"]):
            raise UsageError(f"{where}: the path has no 'port'", f"{entry['fact']} needs {{port}}")
        known.add(steps)


def _check_rows(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Steps, str], bool]:
    """Returns the path and the name of each leaf, and whether it has a meaning only on devices of the vendor: another
    row may then have its meaning on others."""
    met, records = dict[tuple[Steps, str], bool](), dict[Steps, bool]()
    for entry in rows:
        where, shape, detected = shown_path(entry["path"]), _shape(checked_path(entry["path"])), "when" in entry
        is_record, leaves = "keys" in entry, _leaves_of(entry)
        if not leaves or (is_record and not set(_WITH_KEYS) & set(KINDS) & set(entry)):
            raise UsageError(f"{where}: a row without leaves", "name leaves in gauges, counters, counts or others")
        if shape in records and records[shape] <= detected:
            raise UsageError(f"{where}: an earlier row with keys has all leaves of this path", "join the rows")
        for leaf in {*leaves, *_leaves_of_record(entry)}:
            if (shape, leaf) in met and met[shape, leaf] <= detected:
                raise UsageError(f"{where}: {shown(leaf)} is in two rows of this path", "the first one would count")
            met[shape, leaf] = detected
        if is_record:
            records[shape] = detected
    return met


def _shape(steps: Steps) -> Steps:
    """Steps in which every place has the same name."""
    return tuple(
        (PLACE.sub("{}", name), tuple((key, PLACE.sub("{}", value)) for key, value in keys)) for name, keys in steps
    )

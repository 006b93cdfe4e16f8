"""mburst.toml: which parts `mburst run` starts, which reports are due when, and where they are delivered.

A part's table has the names of its verb's options, without dashes: what `mburst VERB --help` says holds here too. So
this module knows no option of any verb; it asks the verb's own parser.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MburstError, UsageError
from ..units import parse_duration, parse_fraction, parse_rate
from . import environment
from .environment import Environment
from .reports import EVERY, LENGTH_NS

if TYPE_CHECKING:
    from ..analysis.bursts import BurstDefinition

PARTS = ("record", "probe", "reflect", "collect", "live", "metrics")
SHARED = ("store", "host", "rack")  # keys at the top that every part takes which has such an option
READERS = {"live": {"store": "inputs"}}  # verbs whose --store is another: what the shared keys mean to them
LEFT_OUT = ("help", "json", "csv", "check", "once")  # options that have no place in a service
REPORT_KEYS = ("name", "store", "racks", "every", "delay", "output", "deliver", "bin", "threshold", "release", "join",
               "min-duration", "link")
DELIVERY_KEYS = {
    "folder": ("path",),
    "smtp": ("host", "port", "security", "user", "password", "from", "to", "attach"),
    "webhook": ("url",),
    "alertmanager": ("url", "min-share"),
}
DELIVERY_NEEDS = {"folder": ("path",), "smtp": ("host", "from", "to"), "webhook": ("url",), "alertmanager": ("url",)}
DELIVERY_COMMON = ("name", "kind", "attempts", "wait", "timeout", "site", "when")


@dataclass(frozen=True)
class Part:
    """Something to run: the command line of a verb."""

    name: str
    argv: list[str]


@dataclass(frozen=True)
class Report:
    """A report that is due regularly. `racks` None: all that the store knows. delay_ns: after the period's end."""

    name: str
    store: Path
    racks: list[str] | None
    every: str
    delay_ns: int
    output: Path
    deliver: list[str]
    definition: BurstDefinition


@dataclass(frozen=True)
class Delivery:
    """Where reports go. `settings` are the keys of its kind; `site` is where the output folder is published, or ''."""

    name: str
    kind: str
    attempts: int
    wait_ns: int
    timeout_ns: int
    site: str
    when: str
    settings: dict[str, Any] = field(repr=False)  # with secrets


@dataclass(frozen=True)
class Config:
    """The whole file."""

    path: Path
    parts: list[Part]
    reports: list[Report]
    deliveries: dict[str, Delivery]
    environment: Environment


def load(path: Path, fill: bool = True) -> Config:
    """Read and check, with the secrets of mburst.env beside it; without FILL, ${NAME} stays in what is delivered where,
    for who delivers nothing. Raises MburstError where a file cannot be read, UsageError for what is wrong in it."""
    secrets = environment.read(path, fill)
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}", "`mburst run --init` writes an example") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: no TOML: {error}") from error
    known = _runnable()
    _only(path, "the file", told, [*SHARED, *known, "report", "deliver"])
    shared = {key: _text(path, "the file", key, told[key]) for key in SHARED if key in told}
    deliveries = _named(path, "deliver", told, lambda where, table: _delivery(path, where, table, secrets))
    reports = _named(path, "report", told, lambda where, table: _report(path, where, table, shared, deliveries))
    parts = [part for verb in known for part in _parts(path, verb, told.get(verb, []), shared, known[verb])]
    names = [part.name for part in parts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{path}: two parts are called {twice!r}", "give each a name")
    return Config(path, parts, list(reports.values()), deliveries, secrets)


def _runnable() -> dict[str, argparse.ArgumentParser]:
    """The parsers of the verbs that this mburst has and that can be parts."""
    from ..cli import VERBS, build_parser

    [choices] = [action.choices for action in build_parser()._actions
                 if isinstance(action, argparse._SubParsersAction)]
    return {verb: choices[verb] for verb in PARTS if verb in VERBS}


def _only(path: Path, where: str, table: Mapping[str, Any], valid: Sequence[str]) -> None:
    for key in table:
        if key not in valid:
            raise UsageError(f"{path}: {where} has no key {key!r}", f"valid are {', '.join(sorted(valid))}")


def _tables(path: Path, name: str, value: Any) -> list[dict[str, Any]]:
    tables = [value] if isinstance(value, dict) else value
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{path}: {name} is no table", f"write [{name}], or [[{name}]] for each of several")
    return tables


def _text(path: Path, where: str, key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{path}: {key} of {where} is no text or number")
    return str(value)


def _texts(path: Path, where: str, key: str, value: Any) -> list[str]:
    return [_text(path, where, key, item) for item in (value if isinstance(value, list) else [value])]


# --- parts ------------------------------------------------------------------------------------------------------------


def _keys(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Key of a table → action of the parser: long options without dashes, positional arguments by their name."""
    keys: dict[str, argparse.Action] = {}
    for action in parser._actions:
        names = [option[2:] for option in action.option_strings if option.startswith("--")]
        name = names[-1] if names else "" if action.option_strings else action.dest
        if name and name not in LEFT_OUT:
            keys[name] = action
    return keys


def _parts(path: Path, verb: str, value: Any, shared: Mapping[str, str],
           parser: argparse.ArgumentParser) -> list[Part]:
    keys, tables = _keys(parser), _tables(path, verb, value)
    parts = []
    for number, table in enumerate(tables, 1):
        where = f"[{verb}]" if len(tables) == 1 else f"[[{verb}]] number {number}"
        _only(path, where, table, ["name", *keys])
        label = table.get("name", "" if len(tables) == 1 else str(number))
        own = {key: value for key, value in table.items() if key != "name"}
        meaning = {READERS.get(verb, {}).get(key, key): text for key, text in shared.items()}
        given = {**{key: text for key, text in meaning.items() if key in keys}, **own}
        argv = [verb, *_arguments(path, where, given, keys)]
        _try(path, where, argv)
        parts.append(Part(f"{verb} {label}".strip(), argv))
    return parts


def _arguments(path: Path, where: str, given: Mapping[str, Any], keys: Mapping[str, argparse.Action]) -> list[str]:
    options: list[str] = []
    positional: list[str] = []
    for key, action in keys.items():
        if key not in given:
            continue
        value = given[key]
        if not action.option_strings:
            positional += _texts(path, where, key, value)
        elif action.nargs == 0:
            if not isinstance(value, bool):
                raise UsageError(f"{path}: {key} of {where} is neither true nor false")
            options += [f"--{key}"] if value else []
        else:
            options += [f"--{key}={text}" for text in _texts(path, where, key, value)]
    return [*options, *(["--", *positional] if positional else [])]


def _try(path: Path, where: str, argv: Sequence[str]) -> None:
    """Let the verb's own parser say what is wrong. Raises UsageError."""
    from ..cli import build_parser

    try:
        build_parser().parse_args(list(argv))
    except UsageError as error:
        raise UsageError(f"{path}: {where}: {error}", error.hint) from None


# --- reports and deliveries -------------------------------------------------------------------------------------------


def _named(path: Path, kind: str, told: Mapping[str, Any], make: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, table in enumerate(_tables(path, kind, told.get(kind, [])), 1):
        name = table.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UsageError(f"{path}: [[{kind}]] number {number} needs a name of letters, digits, - and _")
        if name in made:
            raise UsageError(f"{path}: two of [[{kind}]] are called {name!r}")
        made[name] = make(f"[[{kind}]] {name}", table)
    return made


def _report(path: Path, where: str, table: Mapping[str, Any], shared: Mapping[str, str],
            deliveries: Mapping[str, Delivery]) -> Report:
    from ..analysis.bursts import BurstDefinition

    _only(path, where, table, REPORT_KEYS)
    store, every = table.get("store", shared.get("store")), table.get("every", "day")
    if store is None or "output" not in table:
        raise UsageError(f"{path}: {where} needs " + ("a store" if store is None else "an output, a folder"))
    if every not in EVERY:
        raise UsageError(f"{path}: {where}: every {every!r}", f"valid are {', '.join(EVERY)}")
    delay = parse_duration(_text(path, where, "delay", table.get("delay", "10m")))
    if delay >= LENGTH_NS[every]:
        raise UsageError(f"{path}: {where}: the delay is as long as the period", "make it shorter")
    to = _texts(path, where, "deliver", table.get("deliver", []))
    if missing := next((name for name in to if name not in deliveries), None):
        raise UsageError(f"{path}: {where}: no [[deliver]] is called {missing!r}",
                         f"there are {', '.join(deliveries) or 'none'}")

    def option(key: str, parse: Any) -> Any:
        return parse(_text(path, where, key, table[key])) if key in table else None

    definition = BurstDefinition(
        bin_ns=option("bin", parse_duration), threshold=option("threshold", parse_fraction) or 0.5,
        release=option("release", parse_fraction), join_ns=option("join", parse_duration),
        min_duration_ns=option("min-duration", parse_duration), link_bps=option("link", parse_rate))
    racks = table.get("racks", "all")
    return Report(table["name"], Path(_text(path, where, "store", store)),
                  None if racks == "all" else _texts(path, where, "racks", racks), every, delay,
                  Path(_text(path, where, "output", table["output"])), to, definition)


def _delivery(path: Path, where: str, table: Mapping[str, Any], secrets: Environment) -> Delivery:
    kind = table.get("kind")
    if kind not in DELIVERY_KEYS:
        raise UsageError(f"{path}: {where}: kind {kind!r}", f"valid are {', '.join(DELIVERY_KEYS)}")
    _only(path, where, table, [*DELIVERY_COMMON, *DELIVERY_KEYS[kind]])
    for key in DELIVERY_NEEDS[kind]:
        if key not in table:
            raise UsageError(f"{path}: {where} needs {key}")
    if table.get("when", "always") not in ("always", "bursts"):
        raise UsageError(f"{path}: {where}: when {table['when']!r}", "valid are always, bursts")
    if table.get("security", "starttls") not in ("starttls", "tls", "none"):
        raise UsageError(f"{path}: {where}: security {table['security']!r}", "valid are starttls, tls, none")
    for key in ("port", "attempts", "attach"):
        if key in table and (isinstance(table[key], bool) or not isinstance(table[key], int) or table[key] < 0):
            raise UsageError(f"{path}: {where}: {key} is no whole number")
    if kind == "smtp":
        from .delivery.mail import require

        require()  # now, rather than when the first report is due
    settings = {key: secrets.filled(table[key], path, where, key) for key in DELIVERY_KEYS[kind] if key in table}
    if "min-share" in settings and secrets.fill:
        settings["min-share"] = parse_fraction(str(settings["min-share"]))
    if kind in ("webhook", "alertmanager") and not re.match(r"https?://" + ("" if secrets.fill else r"|\$\{"),
                                                            str(settings["url"])):
        raise UsageError(f"{path}: {where}: {table['url']!r} is no http address")  # as it is written: it may be secret
    return Delivery(table["name"], kind, max(1, table.get("attempts", 3)),
                    parse_duration(str(table.get("wait", "5s"))), parse_duration(str(table.get("timeout", "20s"))),
                    str(table.get("site", "")).rstrip("/"), table.get("when", "always"), settings)

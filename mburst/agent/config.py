"""mburst.toml: which parts `mburst run` starts, which reports are due when, and where they are delivered.

A part's table has the names of its verb's options, without dashes: what `mburst VERB --help` says holds here too. So
this module knows no option of any verb; it asks the verb's own parser.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import files
from ..api.asked import DefinitionOptions
from ..api.options import definition_of, duration_ns
from ..errors import MburstError, UsageError
from ..units import WrittenFloat
from . import environment
from .checked import naming, only, tables, text, texts
from .delivery import Delivery, delivery_of
from .environment import Environment
from .schedule.reports import EVERY, LENGTH_NS
from .secrets import Secrets

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition

PARTS = ("record", "probe", "reflect", "collect", "live", "metrics", "ship", "compact", "names")
NAMED = {"compact": "keep"}  # parts whose table has another name than their verb
SHARED = ("store", "host", "rack")  # keys at the top that every part takes which has such an option
READERS = {"live": "inputs"}  # verbs that show the shared store, unless their table has this key
FROM_ENVIRONMENT = ("collect", "ship")  # verbs that take secrets from the environment
SCHEDULE = "report"  # the part that keeps the schedule of all [[report]]
LEFT_OUT = ("help", "json", "csv", "check", "once", "dry-run")  # options that have no place in a service
DEFINITION = {
    name.replace("_", "-"): name for name in DefinitionOptions.__optional_keys__
}  # key: option of definition_of
REPORT_KEYS = ("name", "store", "racks", "every", "delay", "output", "deliver", "results", "inventory", *DEFINITION)
OF_STORES = ("store", "racks", *DEFINITION)  # keys of a report of racks that one of a fleet's results does not take
DELAYS = {"store": "10m", "results": "4h"}  # what results are of is detected after the day


@dataclass(frozen=True)
class RunPart:
    """Something to run: the command line of a verb. `made_of`: a digest of what it reads when it begins."""

    name: str
    argv: list[str]
    made_of: str = ""


@dataclass(frozen=True)
class ReportSource:
    """What a report is of: a store, or the `results` of a fleet, a folder or the address of a bucket."""

    store: Path | None
    results: str = ""
    inventory: Path | None = None

    @property
    def folder(self) -> Path | None:
        """That of the store or of the results; None: a bucket."""
        return self.store or (None if files.is_address(self.results) else Path(self.results))


@dataclass(frozen=True)
class ScheduledReport:
    """A report that is due regularly, of the racks of a store or of the results of a fleet. `racks` None: all that the
    store knows. delay_ns: after the period's end. inventory: the file that lists the hosts of the fleet."""

    name: str
    source: ReportSource
    racks: list[str] | None
    every: str
    delay_ns: int
    output: Path
    deliver: list[str]
    definition: BurstDefinition

    @property
    def place(self) -> Path:
        """The folder whose owner writes the report: the store or the results, or where these are in a bucket, that of
        the report."""
        return self.source.folder or self.output


@dataclass(frozen=True)
class RunConfig:
    """The whole file."""

    path: Path
    parts: list[RunPart]
    reports: list[ScheduledReport]
    deliveries: dict[str, Delivery]
    environment: Environment

    @property
    def schedule(self) -> list[RunPart]:
        """The part that writes and delivers the reports, where there are any."""
        made_of = _digest(self.reports, self.deliveries, sorted(self.environment.values.items()))
        return [RunPart(SCHEDULE, ["schedule", "--loop", "--", str(self.path)], made_of)] if self.reports else []

    @property
    def stores(self) -> list[str]:
        """The stores that parts and reports name, each once."""
        from ..cli import build_parser

        asked = (build_parser(part.argv[0]).parse_args(part.argv) for part in self.parts)
        of_reports = (str(report.source.store or "") for report in self.reports)
        named = [*(getattr(one, "store", None) for one in asked), *of_reports]
        return [name for name in dict.fromkeys(named) if name]

    @property
    def store_sizes(self) -> dict[str, int]:
        """What each store may take, in bytes, where [keep] has a size."""
        from ..cli import build_parser
        from ..units import parse_size

        asked = (build_parser("compact").parse_args(part.argv) for part in self.parts if part.argv[0] == "compact")
        return {one.store: parse_size(one.size) for one in asked if one.size}

    @property
    def secrets(self) -> Secrets:
        """Those of all deliveries."""
        return Secrets(value for one in self.deliveries.values() for value in one.secrets.values)


def load(path: Path, fill: bool = True) -> RunConfig:
    """Read and check, with the secrets of mburst.env beside it; without FILL, ${NAME} stays in what is delivered where,
    for who delivers nothing. Raises MburstError where a file cannot be read, UsageError for what is wrong in it."""
    secrets = environment.read(path, fill)
    try:
        content = tomllib.loads(files.read_text(path)[0], parse_float=WrittenFloat)
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}", "`mburst run --init` writes an example") from error
    except (ValueError, RecursionError) as error:  # of TOML and UTF-8, and of a number of thousands of digits
        raise UsageError(f"{path}: invalid TOML: {error}") from error
    known = _runnable()
    only(path, "the file", content, [*SHARED, *(NAMED.get(verb, verb) for verb in known), "report", "deliver"])
    shared = {key: text(path, "the file", key, content[key]) for key in SHARED if key in content}
    deliveries = _named(path, "deliver", content, lambda where, table: delivery_of(path, where, table, secrets))
    reports = _named(path, "report", content, lambda where, table: _report(path, where, table, shared, deliveries))
    _check_outputs(path, list(reports.values()))
    parts = [
        replace(part, made_of=_digest(_files(part), sorted(secrets.values.items()) if verb in FROM_ENVIRONMENT else ""))
        for verb in known
        for part in _parts(path, verb, content.get(NAMED.get(verb, verb), []), shared, known[verb])
    ]
    names = [part.name for part in parts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{path}: duplicate part name {twice!r}", "give each a unique name")
    return RunConfig(path, parts, list(reports.values()), deliveries, secrets)


def _runnable() -> dict[str, argparse.ArgumentParser]:
    """The parsers of the verbs that this mburst has and that can be parts."""
    from ..cli import VERBS, build_parser

    [choices] = [action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return {verb: choices[verb] for verb in PARTS if verb in VERBS}


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


def _parts(
    path: Path, verb: str, value: Any, shared: Mapping[str, str], parser: argparse.ArgumentParser
) -> list[RunPart]:
    title = NAMED.get(verb, verb)
    keys, found = _keys(parser), tables(path, title, value)
    parts = []
    for number, table in enumerate(found, 1):
        where = f"[{title}]" if len(found) == 1 else f"[[{title}]] number {number}"
        only(path, where, table, ["name", *keys])
        label = table.get("name", "" if len(found) == 1 else str(number))
        own = {key: value for key, value in table.items() if key != "name"}
        taken = [key for key in shared if key in keys and not (key == "store" and READERS.get(verb) in own)]
        given = {**{key: shared[key] for key in taken}, **own}
        argv = [verb, *_arguments(path, where, given, keys)]
        _try(path, where, argv)
        parts.append(RunPart(f"{title} {label}".strip(), argv))
    return parts


def _arguments(path: Path, where: str, given: Mapping[str, Any], keys: Mapping[str, argparse.Action]) -> list[str]:
    options: list[str] = []
    positional: list[str] = []
    for key, action in keys.items():
        if key not in given:
            continue
        value = given[key]
        if not action.option_strings:
            positional += texts(path, where, key, value)
        elif action.nargs == 0:
            if not isinstance(value, bool):
                raise UsageError(f"{path}: {key} of {where} must be true or false")
            options += [f"--{key}"] if value else []
        else:
            options += [f"--{key}={one}" for one in texts(path, where, key, value)]
    return [*options, *(["--", *positional] if positional else [])]


def _files(part: RunPart) -> list[tuple[str, int, int, int]]:
    """The files that the part's command line names, and what shows that they were written to."""
    found = []
    for word in part.argv[1:]:
        name = word.partition("=")[2] if word.startswith("--") else word
        with suppress(OSError, ValueError):
            facts = os.stat(name)
            if stat.S_ISREG(facts.st_mode):
                found.append((name, facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return found


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _try(path: Path, where: str, argv: Sequence[str]) -> None:
    """Let the verb's own parser say what is wrong. Raises UsageError."""
    from ..cli import build_parser

    with naming(path, where):
        arguments = build_parser(*argv[:1]).parse_args(list(argv))
        if as_part := getattr(arguments, "as_part", None):
            as_part(arguments)


# --- reports and deliveries -------------------------------------------------------------------------------------------


def _named(path: Path, kind: str, content: Mapping[str, Any], make: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, table in enumerate(tables(path, kind, content.get(kind, [])), 1):
        name = table.get("name")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UsageError(f"{path}: [[{kind}]] number {number} needs a name of letters, digits, - and _")
        if name in made:
            raise UsageError(f"{path}: duplicate name {name!r} in [[{kind}]]")
        made[name] = make(f"[[{kind}]] {name}", table)
    return made


def _report(
    path: Path, where: str, table: Mapping[str, Any], shared: Mapping[str, str], deliveries: Mapping[str, Delivery]
) -> ScheduledReport:
    only(path, where, table, REPORT_KEYS)
    every = table.get("every", "day")
    source = _source(path, where, table, shared)
    if "output" not in table:
        raise UsageError(f"{path}: {where} needs an output, a folder")
    periods = EVERY if source.store else tuple(one for one in EVERY if LENGTH_NS[one] >= LENGTH_NS["day"])
    if every not in periods:
        raise UsageError(f"{path}: {where}: invalid every {every!r}", f"valid are {', '.join(periods)}")
    given = {key: text(path, where, key, table[key]) for key in DEFINITION if key in table}
    after = text(path, where, "delay", table.get("delay", DELAYS["store" if source.store else "results"]))
    with naming(path, where):
        delay = duration_ns(after)
        definition = definition_of(**{DEFINITION[key]: value for key, value in given.items()})
    if delay >= LENGTH_NS[every]:
        raise UsageError(f"{path}: {where}: the delay is not shorter than the period", "make it shorter")
    to = texts(path, where, "deliver", table.get("deliver", []))
    if missing := next((name for name in to if name not in deliveries), None):
        raise UsageError(
            f"{path}: {where}: unknown [[deliver]] {missing!r}", f"there are {', '.join(deliveries) or 'none'}"
        )
    racks = table.get("racks", "all")
    return ScheduledReport(
        table["name"],
        source,
        None if racks == "all" else texts(path, where, "racks", racks),
        every,
        delay,
        _local(path, where, "output", table["output"]),
        to,
        definition,
    )


def _local(path: Path, where: str, key: str, value: Any) -> Path:
    """A file or folder of this machine."""
    given = text(path, where, key, value)
    with naming(path, where):
        files.check_local(given)
    return Path(given)


def _check_outputs(path: Path, reports: Sequence[ScheduledReport]) -> None:
    """Raises UsageError where reports of a fleet share a folder with others: what is in it is delivered."""
    for one in reports:
        if one.source.results and any(one.output == other.output for other in reports if other is not one):
            raise UsageError(f"{path}: [[report]] {one.name}: a fleet's report needs an output of its own")


def _source(path: Path, where: str, table: Mapping[str, Any], shared: Mapping[str, str]) -> ReportSource:
    """Raises UsageError where a report is of no store and of no results, or of both."""
    if "results" not in table:
        if "inventory" in table:
            raise UsageError(f"{path}: {where}: inventory is of the results of a fleet", "add results")
        if (store := table.get("store", shared.get("store"))) is None:
            raise UsageError(f"{path}: {where} needs a store, or results of a fleet")
        return ReportSource(_local(path, where, "store", store))
    if other := next((key for key in OF_STORES if key in table), None):
        raise UsageError(f"{path}: {where}: {other} and results exclude each other", "results have a definition")
    inventory = _local(path, where, "inventory", table["inventory"]) if "inventory" in table else None
    return ReportSource(None, text(path, where, "results", table["results"]), inventory)

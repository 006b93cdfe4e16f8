"""mburst.toml: the parts that `mburst run` starts, the schedule of the reports, and where they are delivered.

The keys of a part's table are the options of its verb without dashes, so `mburst VERB --help` describes them, too. This
module therefore knows no option of any verb; it asks the verb's own parser.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import files
from ..api.asked import DefinitionOptions
from ..api.options import definition_of, duration_ns
from ..errors import MburstError, UsageError
from ..units import WrittenFloat, format_duration
from . import environment
from .checked import Checker, naming, only, place, tables, text, texts
from .delivery import Delivery, delivery_of
from .environment import Environment, refuse_references
from .schedule.reports import EVERY, LENGTH_NS
from .schedule.retention import LEAST_NS, KeptReports
from .secrets import Secrets

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition

PARTS = ("record", "probe", "reflect", "collect", "live", "metrics", "ship", "compact", "names")
NAMED = {"compact": "keep"}  # parts with a table that is not named like the verb
SHARED = ("store", "host", "rack")  # keys at the top of the file that apply to every part with such an option
READERS = {"live": "inputs"}  # verbs that show the shared store, unless their table has this key
FROM_ENVIRONMENT = ("collect", "ship")  # verbs that take secrets from the environment
SCHEDULE = "report"  # the part that runs the schedule of all [[report]]
LEFT_OUT = ("help", "json", "csv", "check", "once", "dry-run")  # options that are of no use in a service
DEFINITION = {
    name.replace("_", "-"): name for name in DefinitionOptions.__optional_keys__
}  # key: option of definition_of
REPORT_KEYS = (
    *("name", "store", "racks", "every", "delay", "output", "keep", "deliver", "results", "inventory"),
    *DEFINITION,
)
OF_STORES = ("store", "racks", *DEFINITION)  # keys of a store's report that a fleet's report does not have
DELAYS = {"store": "10m", "results": "4h"}  # results are complete only after the detection that follows the day


@dataclass(frozen=True)
class RunPart:
    """A part that can be run: the command line of a verb. `made_of` is a digest of the files and secrets that it reads
    when it begins."""

    name: str
    argv: list[str]
    made_of: str = ""


@dataclass(frozen=True)
class ReportSource:
    """The data of a report: a store, or the `results` of a fleet (a folder or the address of a bucket)."""

    store: Path | None
    results: str = ""
    inventory: Path | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the store or of the results, None for a bucket."""
        return self.store or (None if files.is_address(self.results) else Path(self.results))


@dataclass(frozen=True)
class ScheduledReport:
    """A report that is due regularly, of the racks of a store or of the results of a fleet. A `racks` of None selects
    all racks in the store. `delay_ns` counts from the end of the period. `kept` of None keeps all reports."""

    name: str
    source: ReportSource
    racks: list[str] | None
    every: str
    delay_ns: int
    output: Path
    kept: KeptReports | None
    deliver: list[str]
    definition: BurstDefinition

    @property
    def place(self) -> Path:
        """The folder whose owner writes the report: the store or the results, or, if the results are in a bucket, the
        report's own folder."""
        return self.source.folder or self.output


@dataclass(frozen=True)
class RunConfig:
    """The content of the configuration file."""

    path: Path
    parts: list[RunPart]
    reports: list[ScheduledReport]
    deliveries: dict[str, Delivery]
    environment: Environment

    @property
    def schedule(self) -> list[RunPart]:
        """The part that writes and delivers the reports, if there are any."""
        deliveries = [one.by_value() for one in self.deliveries.values()]
        made_of = _digest(self.reports, deliveries, sorted(self.environment.values.items()))
        return [RunPart(SCHEDULE, ["schedule", "--loop", "--", str(self.path)], made_of)] if self.reports else []

    @property
    def stores(self) -> list[str]:
        """The stores that parts and reports name, without repetition."""
        from ..cli import build_parser

        asked = (build_parser(part.argv[0]).parse_args(part.argv) for part in self.parts)
        of_reports = (str(report.source.store or "") for report in self.reports)
        named = [*(getattr(one, "store", None) for one in asked), *of_reports]
        return [name for name in dict.fromkeys(named) if name]

    @property
    def store_sizes(self) -> dict[str, int]:
        """The most bytes that each store may take, for stores with a size in [keep]."""
        from ..cli import build_parser
        from ..units import parse_size

        asked = (build_parser("compact").parse_args(part.argv) for part in self.parts if part.argv[0] == "compact")
        return {one.store: parse_size(one.size) for one in asked if one.size}

    @property
    def secrets(self) -> Secrets:
        """The secrets of all deliveries."""
        return Secrets(value for one in self.deliveries.values() for value in one.secrets.values)


def load(path: Path, fill: bool = True) -> RunConfig:
    """Read and check the file, with the secrets of mburst.env beside it. If FILL is false, ${NAME} is not replaced in
    deliveries, for callers that deliver nothing. Raises MburstError if a file cannot be read, UsageError for an invalid
    one."""
    config = load_to_remove(path, fill)
    _check_outputs(path, config.reports)
    return config


def load_to_remove(path: Path, fill: bool = False) -> RunConfig:
    """Do the same without comparing the reports: the timers of those that exclude each other can be removed."""
    if not path.name:  # `.` and `/` have no file with another ending beside them
        raise MburstError(f"{path}: cannot read: a folder", "name a file in it")
    secrets = environment.read(path, fill)
    try:
        content = tomllib.loads(files.read_text(path)[0], parse_float=WrittenFloat)
    except OSError as error:
        raise MburstError(f"{path}: cannot read: {error.strerror}", "`mburst run --init` writes an example") from error
    except (ValueError, RecursionError) as error:  # invalid TOML or UTF-8, or a number with thousands of digits
        raise UsageError(f"{path}: invalid TOML: {error}") from error
    known = _runnable()
    only(path, "the file", content, [*SHARED, *(NAMED.get(verb, verb) for verb in known), "report", "deliver"])
    refuse_references(path, "the file", {key: content[key] for key in SHARED if key in content})
    readers: dict[str, Checker] = {key: place if key == "store" else text for key in SHARED}
    shared = {key: read(path, "the file", key, content[key]) for key, read in readers.items() if key in content}
    deliveries = _named(path, "deliver", content, lambda where, table: delivery_of(path, where, table, secrets))
    reports = _named(path, "report", content, lambda where, table: _report(path, where, table, shared, deliveries))
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
    """Returns the parsers of the verbs that this installation has and that can be parts."""
    from ..cli import VERBS, build_parser

    [choices] = [action.choices for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return {verb: choices[verb] for verb in PARTS if verb in VERBS}


# --- parts ------------------------------------------------------------------------------------------------------------


def _keys(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """Maps the keys of a table to actions of the parser: long options without dashes, positional arguments by name."""
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
        refuse_references(path, where, table)
        if "name" not in table and table in found[: number - 1]:
            raise UsageError(f"{path}: {where} repeats another one", "remove it")
        label = table.get("name", "" if len(found) == 1 else str(number))
        own = {key: value for key, value in table.items() if key != "name"}
        taken = [key for key in shared if key in keys and not (key == "store" and READERS.get(verb) in own)]
        given = {**{key: shared[key] for key in taken}, **own}
        argv = [verb, *_arguments(path, where, given, keys)]
        _try(path, where, argv)
        parts.append(RunPart(f"{title} {label}".strip(), argv))
    return parts


def _arguments(path: Path, where: str, given: Mapping[str, Any], keys: Mapping[str, argparse.Action]) -> list[str]:
    from ..cli import PLACES

    options: list[str] = []
    positional: list[str] = []
    for key, action in keys.items():
        if key not in given:
            continue
        value = given[key]
        each = place if PLACES.match(str(action.metavar)) else text
        if not action.option_strings:
            positional += texts(path, where, key, value, each)
        elif action.nargs == 0:
            if not isinstance(value, bool):
                raise UsageError(f"{path}: {key} of {where} must be true or false")
            options += [f"--{key}"] if value else []
        else:
            options += [f"--{key}={one}" for one in texts(path, where, key, value, each)]
    return [*options, *(["--", *positional] if positional else [])]


def _files(part: RunPart) -> list[tuple[str, int, int, int]]:
    """Returns the files that the part's command line names, each with facts that change when the file is written."""
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


@contextmanager
def naming_part(part: RunPart) -> Iterator[None]:
    """Prefix each MburstError in the context with the name of the part."""
    try:
        yield
    except MburstError as error:
        raise type(error)(f"{part.name}: {error}", error.hint) from None


def _try(path: Path, where: str, argv: Sequence[str]) -> None:
    """Check ARGV with the verb's own parser and checks. Raises UsageError. What this machine lacks is not an error of
    the file: the part reports it, and is restarted until it is there."""
    from ..cli import build_parser

    with naming(path, where):
        arguments = build_parser(*argv[:1]).parse_args(list(argv))
        try:
            arguments.as_part(arguments)
        except UsageError:
            raise
        except (MburstError, OSError):
            pass


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
    refuse_references(path, where, table)
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
    racks = None if table.get("racks", "all") == "all" else texts(path, where, "racks", table["racks"])
    return ScheduledReport(
        table["name"],
        source,
        racks,
        every,
        delay,
        _local(path, where, "output", table["output"]),
        _kept(path, where, table, every, racks, bool(source.results)),
        to,
        definition,
    )


def _kept(
    path: Path, where: str, table: Mapping[str, Any], every: str, racks: list[str] | None, of_fleet: bool
) -> KeptReports | None:
    """Returns what a report keeps; None: everything. Raises UsageError."""
    if "keep" not in table:
        return None
    with naming(path, where):
        keep_ns = duration_ns(text(path, where, "keep", table["keep"]))
    if keep_ns < LEAST_NS:
        raise UsageError(
            f"{path}: {where}: a keep of less than {format_duration(LEAST_NS)}", "failed deliveries are retried as long"
        )
    return KeptReports(every, of_fleet, racks, keep_ns)


def _local(path: Path, where: str, key: str, value: Any) -> Path:
    """Returns a file or folder of this machine. Raises UsageError for an address."""
    given = place(path, where, key, value)
    with naming(path, where):
        files.check_local(given)
    return Path(given)


def _check_outputs(path: Path, reports: Sequence[ScheduledReport]) -> None:
    """Raise UsageError if a report of a fleet shares its folder with another report, or if two reports could write the
    same pages differently: what is in the folder is delivered."""
    for number, one in enumerate(reports):
        beside = [other for other in reports if other is not one and _is_same(one.output, other.output)]
        if one.source.results and beside:
            raise UsageError(f"{path}: [[report]] {one.name}: a fleet's report needs an output of its own")
        for other in reports[:number]:
            if other in beside and _is_contrary(one, other):
                raise UsageError(
                    f"{path}: [[report]] {one.name}: {other.name} could write the same pages, of another store or with "
                    "another definition",
                    "give each an output of its own, or different racks",
                )


def _is_contrary(one: ScheduledReport, other: ScheduledReport) -> bool:
    """Whether two reports of stores could have pages of the same rack and period with different content."""
    is_alike = _is_same(one.place, other.place) and one.definition.explicit == other.definition.explicit
    share = one.racks is None or other.racks is None or bool({*one.racks} & {*other.racks})
    return one.every == other.every and share and not is_alike


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _source(path: Path, where: str, table: Mapping[str, Any], shared: Mapping[str, str]) -> ReportSource:
    """Returns the source of a report. Raises UsageError unless it has either a store or results."""
    if "results" not in table:
        if "inventory" in table:
            raise UsageError(f"{path}: {where}: inventory is of the results of a fleet", "add results")
        if (store := table.get("store", shared.get("store"))) is None:
            raise UsageError(f"{path}: {where} needs a store, or results of a fleet")
        return ReportSource(_local(path, where, "store", store))
    if other := next((key for key in OF_STORES if key in table), None):
        raise UsageError(f"{path}: {where}: {other} and results exclude each other", "results have a definition")
    inventory = _local(path, where, "inventory", table["inventory"]) if "inventory" in table else None
    if not (results := place(path, where, "results", table["results"])):
        raise UsageError(f"{path}: {where}: an empty name of results")
    return ReportSource(None, results, inventory)

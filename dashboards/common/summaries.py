"""Summaries: what an index, a mail or an alert shows of a report, in the first line of its JSON.

The report of a rack is named rack-RACK-FROM-UNTIL, that of a fleet fleet-DATE or fleet-DATE-to-DATE."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ... import files
from ...errors import MburstError
from ...names import file_part
from .words import clock, date

FLEET = "fleet"  # in place of the rack, in the summary of a fleet's report
_NUMBER, _PERHAPS = (int, float), (int, float, type(None))
SUMMARY: dict[str, tuple[type, ...]] = {  # the fields of a summary and their types
    "rack": (str,),
    "since_ns": (int,),
    "until_ns": (int,),
    "recorded": (bool,),
    "verdict": (str,),
    "hosts": (int,),
    "bursting_hosts": (int,),
    "bursts": (int,),
    "burst_ns": (int,),
    "share": _NUMBER,
    "longest_ns": _NUMBER,
    "worst_host": (str,),
    "queue_drops": (int, type(None)),
    "dropped": (int, type(None)),
    "previous_per_hour": _PERHAPS,
    "per_hour": _PERHAPS,
    "new": _PERHAPS,
    "warnings": (list,),
    "recorded_part": (str,),
    "lacks": (str,),  # why it is not known whether a host received a burst, such as "no link speed known", or ''
    "missing": (str,),  # who should have recorded and did not, or ''
}
_LATER = {"recorded_part": "", "lacks": "", "missing": ""}  # fields that reports of earlier versions do not have


def rack_stem(rack: str, since_ns: int, until_ns: int) -> str:
    """Returns the name of the files of a rack's report."""
    return f"rack-{file_part(rack)}-{_stamp(since_ns)}-{_stamp(until_ns)}"


def fleet_stem(since_ns: int, until_ns: int) -> str:
    """Returns the name of the files of a fleet's report, and of the folder of its racks' pages: whole days."""
    first, last = date(since_ns), date(until_ns - 1)
    return f"fleet-{first}" + ("" if first == last else f"-to-{last}")


def is_fleet(name: str) -> bool:
    """Returns whether files of that name belong to a fleet's report."""
    return name.startswith("fleet-")


def _stamp(ts_ns: int) -> str:
    return f"{date(ts_ns)}T{clock(ts_ns, 0)}Z".replace("-", "").replace(":", "")


def with_summary(summary: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Returns the JSON of a report: its summary in the first line, for readers of many reports, and its facts."""
    first = json.dumps(summary, ensure_ascii=False, sort_keys=True, allow_nan=False)
    rest = json.dumps(facts, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False)
    return f'{{"summary": {first},{rest[1:]}\n'


def doubts(summary: Mapping[str, Any]) -> list[str]:
    """Returns what to state wherever the figures of a SUMMARY are stated: how much of the time was recorded, if not all
    of it was, and the warnings of the report."""
    part = summary["recorded_part"]
    return [*([f"Not all of the time was recorded: {part}"] if part else []), *summary["warnings"]]


def lacks(summary: Mapping[str, Any]) -> str:
    """Returns what to state in place of figures: why it is not known whether a host received a burst; '' if it is
    known."""
    if summary["recorded"] or summary["lacks"]:
        return str(summary["lacks"])
    return "no host recorded" if summary["rack"] == FLEET else "nothing recorded"  # ports of switches may have been


def summaries(
    folder: Path, period: tuple[int, int] | None = None, own: bool = False
) -> list[tuple[str, dict[str, Any]]]:
    """Returns (name, summary) of every report in a folder, or of those of one period: the newest first, then by rack.
    With OWN, only reports with page and facts that are this user's regular files, as required for sending and copying.
    A missing folder has none; raises MburstError if a folder cannot be read."""
    of_period = (f"rack-*-{_stamp(period[0])}-{_stamp(period[1])}", fleet_stem(*period)) if period else None
    wanted = of_period or ("rack-*", "fleet-*")
    found = []
    names = sorted(name for name in _listed(folder) if any(fnmatchcase(name, f"{one}.json") for one in wanted))
    for path in (folder / name for name in names):
        if own and not (files.is_own(path) and files.is_own(path.with_suffix(".html"))):
            continue
        if (summary := _read(path)) is not None:
            found.append((path.stem, summary))
    return sorted(found, key=lambda entry: (-entry[1]["until_ns"], -entry[1]["since_ns"], entry[1]["rack"]))


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise MburstError(
            f"{folder}: cannot read the reports: {error.strerror}", "check the folder and its rights"
        ) from error


def _read(path: Path) -> dict[str, Any] | None:
    """Returns the summary in the first line of a report's JSON; None for files of another origin."""
    try:
        first = files.first_line(path).strip()
        stored = json.loads(first.removeprefix('{"summary": ').removesuffix(","))
        summary = {name: _checked({**_LATER, **stored}[name], kind) for name, kind in SUMMARY.items()}
        return summary if 0 <= summary["since_ns"] < summary["until_ns"] < 2**62 else None
    except (MburstError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _checked(value: Any, kinds: tuple[type, ...]) -> Any:
    if type(value) not in kinds or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
        raise TypeError(type(value))
    return value

"""The options that say what a burst is and which time is meant, the same for every verb that asks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import MburstError, UsageError
from ..units import is_duration, parse_duration, parse_fraction, parse_rate, parse_time

if TYPE_CHECKING:
    import duckdb

    from ..analysis.bursts import BurstDefinition
    from ..sql import Store


def add_burst_options(parser: argparse.ArgumentParser) -> None:
    """--bin, --threshold, --release, --join, --min-duration and --link."""
    what = parser.add_argument_group("what a burst is")
    what.add_argument("--bin", metavar="TIME", help="width that is judged: the recorded one (default) or a multiple")
    add_threshold_options(what)
    what.add_argument("--link", metavar="RATE", help="line rate instead of the recorded one, such as 10G")


def add_threshold_options(what: Any) -> None:
    """--threshold, --release, --join and --min-duration."""
    what.add_argument("--threshold", metavar="SHARE", help="of line rate, in a bin (default 0.5)")
    what.add_argument("--release", metavar="SHARE", help="a burst goes on while at least this (default: the threshold)")
    what.add_argument("--join", metavar="TIME", help="join over gaps up to this (default 5 bins)")
    what.add_argument("--min-duration", metavar="TIME", help="leave out shorter ones (default 1 bin)")


def add_time_options(group: Any) -> None:
    """--since and --until."""
    group.add_argument("--since", metavar="TIME",
                       help="from then on: 24h (before the newest data) or 2026-11-20T14:03 (UTC)")
    group.add_argument("--until", metavar="TIME", help="the end, as for --since")


def definition_of(arguments: argparse.Namespace) -> BurstDefinition:
    """The definition that add_burst_options' options make. Raises UsageError."""
    from ..analysis.bursts import THRESHOLD, BurstDefinition

    return BurstDefinition(
        bin_ns=_optional(parse_duration, arguments.bin),
        threshold=_optional(parse_fraction, arguments.threshold) or THRESHOLD,
        release=_optional(parse_fraction, arguments.release), join_ns=_optional(parse_duration, arguments.join),
        min_duration_ns=_optional(parse_duration, arguments.min_duration),
        link_bps=_optional(parse_rate, arguments.link))


def span_of(store: Store, arguments: argparse.Namespace) -> tuple[int | None, int | None]:
    """--since and --until in Unix nanoseconds; durations count back from the newest data. Raises UsageError."""
    if arguments.since is None and arguments.until is None:
        return None, None
    with store.connect(arguments.rack) as con:
        since, until = (time_of(con, text) for text in (arguments.since, arguments.until))
    if since is not None and until is not None and since >= until:
        raise UsageError("--since is not before --until")
    return since, until


def time_of(con: duckdb.DuckDBPyConnection, text: str | None) -> int | None:
    """Unix nanoseconds of a time as parse_time has it; a duration counts back from the newest row of bins, probes or
    switch queues (the view `newest`). None where there is none to leave out. Raises UsageError."""
    if text is None or not is_duration(text):
        return None if text is None else parse_time(text)
    [(newest,)] = con.execute("SELECT max(ts_ns) FROM newest").fetchall()
    return None if newest is None else parse_time(text, newest)


def no_recording(arguments: argparse.Namespace, **filters: Any) -> MburstError:
    """The store holds nothing of what FILTERS (by what they choose; None where not given) ask for."""
    named = [f"{what} {value}" for what, value in filters.items() if value]
    return MburstError(
        f"{arguments.store}: no recording" + (f" of {' and '.join(named)}" if named else ""),
        "`mburst sql STORE recordings` lists what there is",
    )


def _optional(parse: Callable[[str], Any], text: str | None) -> Any:
    return None if text is None else parse(text)

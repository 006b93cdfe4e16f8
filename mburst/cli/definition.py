"""The options for the definition of a burst and for the time, common to all verbs with such options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..api import options
from . import values

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder


def add_burst_options(parser: argparse.ArgumentParser) -> None:
    """Add --bin, --threshold, --release, --join, --min-duration and --link."""
    what = parser.add_argument_group("definition of a burst")
    what.add_argument(
        "--bin", type=values.duration, metavar="TIME", help="bin width to use: the recorded one (default) or a multiple"
    )
    add_threshold_options(what)
    what.add_argument(
        "--link", type=values.rate, metavar="RATE", help="line rate instead of the recorded one, such as 10G"
    )


def add_threshold_options(what: Any) -> None:
    """Add --threshold, --release, --join and --min-duration."""
    what.add_argument(
        "--threshold",
        type=values.share,
        metavar="SHARE",
        help="a burst begins with a bin of at least this utilization, of line rate (default 0.5)",
    )
    what.add_argument(
        "--release",
        type=values.share,
        metavar="SHARE",
        help="a burst continues while utilization is at least this (default: the threshold)",
    )
    what.add_argument(
        "--join", type=values.duration, metavar="TIME", help="join busy periods over gaps up to this (default 5 bins)"
    )
    what.add_argument(
        "--min-duration", type=values.duration, metavar="TIME", help="leave out shorter bursts (default 1 bin)"
    )


def add_time_options(group: Any) -> None:
    """Add --since and --until."""
    group.add_argument(
        "--since",
        type=values.since,
        metavar="TIME",
        help="start of the time: 24h (before the newest data) or 2026-11-20T14:03 (UTC)",
    )
    group.add_argument("--until", type=values.since, metavar="TIME", help="end of the time, as for --since")


def definition_of(arguments: argparse.Namespace) -> BurstDefinition:
    """Returns the definition from the options of add_burst_options. Raises UsageError."""
    return options.definition_of(
        arguments.bin, arguments.threshold, arguments.release, arguments.join, arguments.min_duration, arguments.link
    )


def span_of(store: StoreFolder, arguments: argparse.Namespace) -> tuple[int | None, int | None]:
    """Returns --since and --until in Unix nanoseconds; durations count back from the newest data. Raises UsageError."""
    return options.span_of(store, arguments.since, arguments.until, arguments.rack)

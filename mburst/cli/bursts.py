"""`mburst bursts`: when a link was full, and who filled it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from ..units import format_bytes, format_duration, format_rate, format_share, format_time
from . import definition, output

if TYPE_CHECKING:
    import duckdb


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser("bursts", help="list bursts and who sent them",
                              description="List when a link was full, and who filled it.")
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    definition.add_burst_options(parser)
    where = parser.add_argument_group("where and when")
    where.add_argument("--host", action="append", help="only this host's; may be given several times")
    where.add_argument("--rack", help="only this rack's")
    where.add_argument("--interface", metavar="NAME", help="only this interface's")
    where.add_argument("--direction", choices=["in", "out", "mirror"], help="only those of this direction")
    where.add_argument(
        "--run", dest="recording", metavar="RUN", help="one recording, as `mburst sql STORE runs` names it"
    )
    definition.add_time_options(where)
    output.add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find and print."""
    from ..analysis.bursts import COLUMNS, find_bursts, overlapping_runs
    from ..sql import Store

    wanted = definition.definition_of(arguments)
    store = Store.open(arguments.store)
    since, until = definition.span_of(store, arguments)
    connection = store.connect(arguments.rack, since, until)
    bursts = find_bursts(
        connection,
        wanted,
        hosts=arguments.host,
        rack=arguments.rack,
        interface=arguments.interface,
        direction=arguments.direction,
        run=arguments.recording,
        since_ns=since,
        until_ns=until,
    )
    for first, second in overlapping_runs(connection):
        print(
            f"mburst: runs {first} and {second} recorded the same interface and time: bursts are listed for each"
            " (--run picks one)",
            file=sys.stderr,
        )
    if arguments.format == "table":
        _print(connection, bursts, wanted)
    else:
        output.write(arguments.format, COLUMNS, ([burst[key] for key in COLUMNS] for burst in bursts))
    return 0


def _print(connection: duckdb.DuckDBPyConnection, bursts: list[dict[str, Any]], definition: Any) -> None:
    """For each recording: what was judged, the table, the sum."""
    lanes = connection.execute(
        "SELECT lanes.*, runs.* EXCLUDE (run, host, rack, interface, direction, bin_ns, source_bin_ns, link_bps)"
        " FROM lanes JOIN runs USING (run) ORDER BY host, interface, direction, start_ns, run"
    )
    columns = [column[0] for column in lanes.description]
    judged = [dict(zip(columns, row, strict=True)) for row in lanes.fetchall()]
    if not judged:
        print("no recording matches: `mburst sql STORE runs` lists what there is")
    for index, lane in enumerate(judged):
        if index:
            print()
        _print_lane(lane, [burst for burst in bursts if burst["run"] == lane["run"]], definition)


def _print_lane(lane: dict[str, Any], bursts: list[dict[str, Any]], definition: Any) -> None:
    release = "" if definition.release is None else f", goes on at {format_share(definition.release)} or more"
    print(
        f"{lane['host']} {lane['interface']} {lane['direction']}: {format_rate(lane['link_bps'])}, "
        f"bins of {format_duration(lane['bin_ns'])}, stamps: {lane['clock'] or 'not known'}; a burst is "
        f"{format_share(definition.threshold)} of line rate or more{release}, joined over gaps up to "
        f"{format_duration(lane['join_ns'])}, {format_duration(lane['min_duration_ns'])} or longer"
    )
    if bursts:
        output.write(
            "table",
            ["start (UTC)", "duration", "mean", "peak", "bytes", "fan-in", "pattern", "top senders", "quality"],
            [
                [
                    format_time(burst["start_ns"]),
                    format_duration(burst["duration_ns"]),
                    format_share(burst["mean_utilization"]),
                    format_share(burst["peak_utilization"]),
                    format_bytes(burst["bytes"]),
                    burst["fan_in"],
                    burst["pattern"],
                    _top(burst),
                    ", ".join(burst["quality"]),
                ]
                for burst in bursts
            ],
        )
    print(_summary(lane, bursts))


def _top(burst: dict[str, Any], shown: int = 3) -> str:
    named = [f"{sender['source']} {format_share(round(sender['share'], 3))}" for sender in burst["top_sources"][:shown]]
    more = burst["sources"] - len(named)
    return ", ".join(named) + (f" and {more} more" if named and more > 0 else "")


def _summary(lane: dict[str, Any], bursts: list[dict[str, Any]]) -> str:
    """ "78 bursts in 20 s, 13 % of the time; no packets were lost" """
    span = (lane["end_ns"] or 0) - (lane["start_ns"] or 0)
    count = "no burst" if not bursts else "1 burst" if len(bursts) == 1 else f"{len(bursts)} bursts"
    parts = [count]
    if span > 0:
        parts[0] += f" in {format_duration(span)}"
        parts.append(f"{format_share(sum(burst['duration_ns'] for burst in bursts) / span)} of the time")
    lost = [
        f"{lane[key]} {words}"
        for key, words in (
            ("dropped", "packets were dropped before they were seen: counts are lower bounds"),
            ("late", "packets came too late for their bin and are in none"),
        )
        if lane[key]
    ]
    if not lane["complete"]:
        lost.append("the recording did not end: how much was lost is not known")
    return ", ".join(parts) + "; " + ("; ".join(lost) or "no packet was lost")

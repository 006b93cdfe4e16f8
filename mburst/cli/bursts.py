"""`mburst bursts`: when a link was full, and which senders filled it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from ..analysis.model.endings import ending, gaps_behind, late_text
from ..analysis.model.ports import of_port
from ..api import asked
from ..api.options import Scope
from ..messages import print_lines, print_message
from ..senders import senders_text
from ..units import format_bytes, format_count, format_duration, format_rate, format_share, format_time
from . import definition, output

if TYPE_CHECKING:
    import duckdb

    from ..analysis.bursts.find import BurstDefinition
    from ..analysis.model.envelope import Interval
    from ..sql import StoreFolder


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the verb."""
    parser = verbs.add_parser(
        "bursts",
        help="list bursts and their senders",
        description="List the bursts of each recorded link, with their senders.",
    )
    parser.add_argument("store", metavar="STORE", help="folder that `mburst record` wrote")
    definition.add_burst_options(parser)
    add_scope_options(parser)
    output.add_format(parser)
    parser.set_defaults(run=run)


def add_scope_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select bursts: --force, --host, --rack, --interface, --direction, --recording, --since and
    --until."""
    parser.add_argument(
        "--force", action="store_true", help="use fine bins even if the timestamps are too coarse for them"
    )
    where = parser.add_argument_group("where and when")
    where.add_argument("--host", action="append", help="only bursts of this host; may be repeated")
    where.add_argument("--rack", help="only bursts of this rack")
    where.add_argument("--interface", metavar="NAME", help="only bursts of this interface")
    where.add_argument("--direction", choices=get_args(asked.LaneDirection), help="only bursts of this direction")
    where.add_argument(
        "--recording", metavar="ID", help="only this recording, by its id in `mburst sql STORE recordings`"
    )
    definition.add_time_options(where)


def scope_of(store: StoreFolder, arguments: argparse.Namespace) -> Scope:
    """Returns the selection that these options make. Raises UsageError."""
    return Scope(
        arguments.host,
        arguments.rack,
        arguments.interface,
        arguments.direction,
        arguments.recording,
        *definition.span_of(store, arguments),
    )


def run(arguments: argparse.Namespace) -> int:
    """Detect bursts and print them."""
    from ..analysis.bursts.find import COLUMNS, listed, listed_json, overlapping_recordings
    from ..analysis.model.carried import beyond_links
    from ..analysis.model.kept import unkept_senders
    from ..api.bursts import detected
    from ..sql import StoreFolder

    wanted = definition.definition_of(arguments)
    store = StoreFolder.open(arguments.store)
    scope = scope_of(store, arguments)
    connection = detected(store, wanted, scope, force=arguments.force)
    if arguments.format == "json":
        output.write_json_objects(listed_json(connection), sys.stdout)
    elif arguments.format == "table":
        _print(
            _recordings(connection, scope.since_ns, scope.until_ns),
            list(listed(connection)),
            wanted,
            gaps_behind(connection),
        )
    else:
        output.write("csv", COLUMNS, (list(burst.values()) for burst in listed(connection)))
    for sentence in [*unkept_senders(connection), *beyond_links(connection)]:
        print_message(sentence)
    for first, second in overlapping_recordings(connection):
        print_message(
            f"recordings {first} and {second} recorded the same interface and time: bursts are listed for each "
            "(--recording selects one)"
        )
    return 0


def _recordings(connection: duckdb.DuckDBPyConnection, since: int | None, until: int | None) -> list[dict[str, Any]]:
    """Returns the examined recordings, with their settings (columns of the table `lanes`) and when they counted:
    `spans`, as in coverage.by_epoch, together `span_ns` long."""
    from ..analysis.model import coverage, losses
    from ..analysis.model.context import dicts
    from ..sql.limits import answered_since

    known = coverage.by_epoch(connection, answered_since(connection, since), until)
    rows = dicts(
        connection,
        """
        SELECT lanes.*, capture_id, clock, packets, late, unparsed, unattributed_packets, complete, ended, gaps,
               gap_bytes, unknown_gaps,
               count(DISTINCT rack) OVER (PARTITION BY host) > 1 AS is_in_racks,
               coalesce(start_ns >= $until OR end_ns <= $since, false) AS is_elsewhere,
               start_ns IS NOT NULL AND end_ns IS NOT NULL AS is_placed
        FROM lanes JOIN (
            SELECT recording_id, capture_id, clock, packets, late, unparsed, unattributed_packets, complete, ended,
                   start_ns, end_ns
            FROM recordings) USING (recording_id)
        LEFT JOIN (
            SELECT recording_id, count(*) AS gaps, CAST(coalesce(sum(bytes), 0) AS BIGINT) AS gap_bytes,
                   count(*) FILTER (bytes IS NULL) AS unknown_gaps
            FROM gaps WHERE NOT is_behind_recording(reason) AND coalesce(start_ns < $until, true)
                AND coalesce(end_ns > $since, true)
            GROUP BY recording_id) USING (recording_id)
        ORDER BY host, interface, direction, start_ns, recording_id""",
        {"since": since, "until": until},
    )
    spans: dict[str, dict[tuple[str, int], list[Interval]]] = {}
    for of, found in known.items():
        spans.setdefault(of[0], {})[of] = found
    lost = losses.by_capture(connection)
    counted = (
        {**row, "spans": spans.get(row["recording_id"], {}), "loss": losses.summed(lost, [row["capture_id"]])}
        for row in rows
    )
    return [{**row, "span_ns": _length(row["spans"])} for row in counted]


def _print(
    recordings: list[dict[str, Any]],
    bursts: Sequence[Mapping[str, Any]],
    wanted: BurstDefinition,
    gaps: dict[str, dict[str, Any]],
) -> None:
    """Print the definition, the table and the sum for each recording. GAPS are those behind interrupted recordings."""
    for index, lane in enumerate(recordings):
        if index:
            print()
        mine = {
            number: burst for number, burst in enumerate(bursts, 1) if burst["recording_id"] == lane["recording_id"]
        }
        print_lines(_heading(lane, wanted))
        if mine:
            cells = ([number, *(cell(burst) for cell in CELLS.values())] for number, burst in mine.items())
            output.write("table", ["burst", *CELLS], cells)
        print_lines(_summary(lane, list(mine.values()), gaps.get(lane["recording_id"])))


def _heading(lane: dict[str, Any], wanted: BurstDefinition) -> str:
    """Returns line rate, bins, clock and definition, without which a count of bursts means nothing."""
    from ..analysis.bursts.find import definition_text

    rack = f"(rack {lane['rack']}) " if lane["is_in_racks"] else ""
    return (
        f"{lane['host']} {rack}{lane['interface']} {lane['direction']}: {format_rate(lane['link_bps'])}, "
        f"bins of {format_duration(lane['bin_ns'])}, stamps: {lane['clock'] or 'not known'}; "
        + definition_text(wanted.threshold, wanted.release, lane["join_ns"], lane["min_duration_ns"])
    )


CELLS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "start (UTC)": lambda burst: format_time(burst["start_ns"]),
    "duration": lambda burst: format_duration(burst["duration_ns"]),
    "mean": lambda burst: format_share(burst["mean_utilization"]),
    "peak": lambda burst: format_share(burst["peak_utilization"]),
    "bytes": lambda burst: format_bytes(burst["bytes"]),
    "fan-in": lambda burst: burst["fan_in"] or None,
    "pattern": lambda burst: burst["pattern"],
    "top senders": lambda burst: senders_text(burst, 3),
    "quality": lambda burst: ", ".join(burst["quality"]),
}


def _summary(lane: dict[str, Any], bursts: Sequence[Mapping[str, Any]], gap: dict[str, Any] | None) -> str:
    """Returns a summary such as "78 bursts in 20 s, 13 % of the time; no packet was lost"."""
    from ..analysis.model import coverage

    broken = ending(lane, gap)
    if lane["is_elsewhere"] and not lane["span_ns"] and not bursts:
        return "; ".join(filter(None, ["not recorded in this time", broken]))
    if lane["packets"] and lane["is_placed"] and not lane["span_ns"] and not bursts:
        return "; ".join(filter(None, ["its bins are missing", broken]))
    found = _count(len(bursts), "burst", "bursts")
    if lane["span_ns"]:
        share = _length(coverage.in_bursts(bursts, lane["spans"])) / lane["span_ns"]
        found += f" in {format_duration(lane['span_ns'])}, {format_share(share)} of the time"
    elif bursts:
        found += " in bins that begin in this time, of which nothing was recorded in it"
    lost = []
    if lane["loss"].dropped:
        lost.append(f"{lane['loss'].sentence}: counts are lower bounds")
    if lane["late"]:
        lost.append(late_text(lane["late"]))
    if of_port([lane]) and lane["gaps"]:
        lost.append(_missing(lane))
    if broken:
        lost.append(broken)
    lost = lost or ["no sample is missing" if of_port([lane]) else "no packet was lost"]
    if lane["unparsed"]:
        lost.append(f"{format_count(lane['unparsed'], 'packet')} could not be parsed")
    if lane["unattributed_packets"]:
        lost.append(f"{format_count(lane['unattributed_packets'], 'packet')} without a sender")
    return "; ".join([found, *lost])


def _length(spans: Mapping[tuple[str, int], Sequence[Interval]]) -> int:
    """Returns the length of times by recording_id and clock epoch; the same time in two epochs counts twice."""
    from ..analysis.model import coverage

    return sum(map(coverage.length, spans.values()))


def _missing(lane: dict[str, Any]) -> str:
    """Returns what the samples of a switch port do not show, such as "13 gaps, 26 kB in no bin"."""
    unknown = f" and what {format_count(lane['unknown_gaps'], 'gap')} had" if lane["unknown_gaps"] else ""
    return f"{format_count(lane['gaps'], 'gap')}, {format_bytes(lane['gap_bytes'])}{unknown} in no bin"


def _count(number: int, one: str, many: str) -> str:
    return f"{number or 'no'} {one if number < 2 else many}"

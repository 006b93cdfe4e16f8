"""The answers to the questions (sql/questions.py) that a report shows, for a whole fleet or for the rack that a
database has been narrowed to (sql/resulting.py). Their size is bounded, however many bursts there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...sql import questions
from ..read.names import NAMELESS, named

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]  # by column
CLASS = ("service", "direction", "link_bps", "bin_ns")  # by which durations and gaps are counted
HOSTS, CLASSES, CURVES, SENDERS, CELLS, HOURS, QUEUES, PORTS = 20, 20, 5, 20, 10, 24, 20, 20  # most rows of each
POINTS = 120  # of a curve in each decade of durations
KEPT = ("worst_hosts", "durations", "aggressors", "switch_drops", "switch_ports")  # answers read more than once
_CLASS = ", ".join(CLASS)
_PORT_HOSTS = """(SELECT DISTINCT rack, attached_host AS host FROM answer_switch_ports
    WHERE direction = 'out' AND NOT host_recorded)"""


@dataclass(frozen=True)
class WorstRows:
    """The first rows of an answer, and the number of all its rows."""

    rows: list[Row]
    count: int


@dataclass(frozen=True)
class ClassCurve:
    """The distribution of the durations of one class of bursts: `shares` of them last at most `durations_ns`."""

    of_class: Row
    bursts: int
    durations_ns: list[int]
    shares: list[float]


@dataclass(frozen=True)
class BurstAnswers:
    """The recipients of bursts, their durations, contention, and losses.

    hosts: the worst (question 2), `bursting_hosts` of which received a burst. bursts, longest_ns: of the bursts that
    hosts received (3). classes: of questions 3 to 6, those with most bursts first; curves: of the classes that hosts
    receive, most bursts first, out of `received_classes`. losses: for time, retransmissions, CE marks and drops of
    switch queues, how many are in bursts, after them and elsewhere (queries/fleet_report/losses.sql); switch_drops:
    question 12. at_once: the time (ns) for each number of hosts of a rack in a burst at once (8). fan_ins: received
    bursts by fan-in (each row begins at a power of two or 0) and pattern (7). loss: question 9. senders: question 11.
    ports: question 13, the worst switch ports; port_hosts: of its answer, the hosts that did not record what they
    receive through these ports, by rack and name."""

    hosts: WorstRows
    bursting_hosts: int
    bursts: int
    longest_ns: int | None
    classes: WorstRows
    curves: list[ClassCurve]
    received_classes: int
    at_once: list[Row]
    fan_ins: list[Row]
    loss: list[Row]
    senders: WorstRows
    losses: list[Row]
    switch_drops: WorstRows
    ports: WorstRows
    port_hosts: WorstRows


def answers(con: duckdb.DuckDBPyConnection) -> BurstAnswers:
    """Returns all answers."""
    for question in KEPT:
        _keep(con, question)
    [bursting] = asked(con, "SELECT count(*) AS n FROM answer_worst_hosts WHERE bursts_per_h > 0")
    [total] = asked(
        con,
        """SELECT CAST(coalesce(sum(bursts), 0) AS BIGINT) AS bursts, max(longest_ns) AS longest_ns FROM (
            SELECT max(bursts_at_most) AS bursts, max(duration_ns) AS longest_ns FROM answer_durations
            WHERE direction <> 'out' GROUP BY service, direction, link_bps, bin_ns)""",
    )
    curves, received = _curves(con)
    found = BurstAnswers(
        worst(con, "answer_worst_hosts", "rank, rack, host", HOSTS),
        bursting["n"],
        total["bursts"],
        total["longest_ns"],
        _classes(con),
        curves,
        received,
        asked(
            con,
            "SELECT hosts_at_once, CAST(sum(ns) AS BIGINT) AS ns, any_value(buffer_share) AS buffer_share "
            f"FROM ({questions.text('contention')}) GROUP BY hosts_at_once ORDER BY hosts_at_once",
        ),
        asked(
            con,
            "SELECT CASE WHEN fan_in > 0 THEN CAST(1 AS BIGINT) << CAST(floor(log2(fan_in)) AS INTEGER) ELSE 0 END "
            "AS least, "
            f"pattern, CAST(sum(bursts) AS BIGINT) AS bursts FROM ({questions.text('fan_in')}) "
            "WHERE direction <> 'out' GROUP BY ALL ORDER BY ALL",
        ),
        asked(con, questions.text("loss")),
        worst(con, "answer_aggressors", "racks DESC, hosts DESC, bursts DESC, source", SENDERS),
        asked(con, questions.for_report("losses")),
        worst(con, "answer_switch_drops", "drops DESC, device, port, queue, rack, host, interface", QUEUES),
        worst(
            con, "answer_switch_ports", "rank, rack, device, port, direction, attached_host, attached_interface", PORTS
        ),
        worst(con, _PORT_HOSTS, "rack, host", PORTS),
    )
    for question in KEPT:
        con.execute(f"DROP TABLE answer_{question}")
    return found


def name_senders(found: BurstAnswers, names: duckdb.DuckDBPyConnection, at_ns: int) -> None:
    """Add to the rows of senders their names at a time from NAMES, a database with names, and their service if the
    inventory has none."""
    rows = found.senders.rows
    called = named(names, [row["source"] for row in rows], at_ns)
    for row in rows:
        of = called.get(row["source"], NAMELESS)
        row |= {"name": of.name, "service": row["service"] or of.service}


def asked(con: duckdb.DuckDBPyConnection, query: str, *values: Any) -> list[Row]:
    """Returns the rows of an answer."""
    answer = con.execute(query, list(values)) if values else con.execute(query)
    columns = [column[0] for column in answer.description]
    return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


def worst(con: duckdb.DuckDBPyConnection, answer: str, order: str, most: int) -> WorstRows:
    """Returns the first MOST rows of ANSWER, a table or a SELECT in parentheses."""
    [total] = asked(con, f"SELECT count(*) AS n FROM {answer}")
    return WorstRows(asked(con, f"FROM {answer} ORDER BY {order} LIMIT {most}"), total["n"])


def _keep(con: duckdb.DuckDBPyConnection, question: str) -> None:
    """Store the answer to a question that is read more than once as a table."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE answer_{question} AS {questions.text(question)}")


def _curves(con: duckdb.DuckDBPyConnection) -> tuple[list[ClassCurve], int]:
    """Returns the curves of the classes with most bursts that hosts receive, and the number of such classes. Of
    durations within one pixel, only the longest is kept, with its share."""
    received = asked(
        con,
        f"SELECT {_CLASS}, max(bursts_at_most) AS bursts FROM answer_durations WHERE direction <> 'out' "
        f"GROUP BY ALL ORDER BY bursts DESC, {_CLASS}",
    )
    found = []
    for of_class in received[:CURVES]:
        bursts = of_class.pop("bursts")
        points = con.execute(
            "SELECT max(duration_ns), max(share) FROM answer_durations WHERE "
            + " AND ".join(f"{name} = ?" for name in CLASS)
            + f" GROUP BY floor({POINTS} * log10(duration_ns)) ORDER BY ALL",
            list(of_class.values()),
        ).fetchall()
        found.append(ClassCurve(of_class, bursts, [point[0] for point in points], [point[1] for point in points]))
    return found, len(received)


def _classes(con: duckdb.DuckDBPyConnection) -> WorstRows:
    """Returns each class of bursts with its quantiles (nearest rank; NULL if there are too few bursts for one), the
    gaps between them, the transitions between bins, and the share of bytes in them."""
    durations = asked(
        con,
        f"""SELECT {_CLASS}, max(bursts_at_most) AS bursts, min(duration_ns) FILTER (share >= 0.5e0) AS p50_ns,
                CASE WHEN bursts >= 10 THEN min(duration_ns) FILTER (share >= 0.9e0) END AS p90_ns,
                CASE WHEN bursts >= 100 THEN min(duration_ns) FILTER (share >= 0.99e0) END AS p99_ns,
                max(duration_ns) AS longest_ns FROM answer_durations GROUP BY {_CLASS}""",
    )
    gaps = asked(
        con,
        f"""SELECT {_CLASS}, min(gap_ns) FILTER (share >= 0.5e0) AS p50_gap_ns, any_value(ks_d) AS ks_d,
                any_value(p_value) AS p_value FROM ({questions.text("gaps")}) GROUP BY {_CLASS}""",
    )
    utilization = asked(
        con,
        f"""SELECT {_CLASS}, any_value(share_of_bytes) AS share_of_bytes, any_value(mean_in) AS mean_in,
                any_value(mean_out) AS mean_out FROM ({questions.text("utilization")}) GROUP BY {_CLASS}""",
    )
    found: dict[tuple[Any, ...], Row] = {}
    for row in [*asked(con, questions.text("markov")), *durations, *gaps, *utilization]:
        found.setdefault(tuple(row[name] for name in CLASS), {"bursts": 0}).update(row)
    ordered = sorted(found, key=lambda key: (-found[key]["bursts"], *key))
    return WorstRows([found[key] for key in ordered[:CLASSES]], len(found))

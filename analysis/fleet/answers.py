"""The answers to the questions (sql/questions.py) as far as a report shows them: of a whole fleet, or of the rack that
a database has been narrowed to (sql/resulting.py). However many bursts there are, what comes out is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...sql import questions
from ..read.names import NAMELESS, named

if TYPE_CHECKING:
    import duckdb

Row = dict[str, Any]  # by column
CLASS = ("service", "direction", "link_bps", "bin_ns")  # what durations and gaps are counted by
HOSTS, CLASSES, CURVES, SENDERS, CELLS, HOURS, QUEUES, PORTS = 20, 20, 5, 20, 10, 24, 20, 20  # most rows of each
POINTS = 120  # of a curve in each decade of durations
KEPT = ("worst_hosts", "durations", "aggressors", "switch_drops", "switch_ports")  # answers asked for more than once
_CLASS = ", ".join(CLASS)
_PORT_HOSTS = """(SELECT DISTINCT rack, attached_host AS host FROM answer_switch_ports
    WHERE direction = 'out' AND NOT host_recorded)"""


@dataclass(frozen=True)
class WorstRows:
    """The first rows of an answer, and how many it has in all."""

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
    """Who receives bursts, how long, with whom at once, and what is lost.

    hosts: the worst (question 2), `bursting_hosts` of which received a burst. bursts, longest_ns: of those that hosts
    received (3). classes: of questions 3 to 6, those of most bursts first; curves: of classes that hosts receive,
    likewise, of `received_classes`. losses: of time, retransmissions, CE marks and drops of switch queues, how many are
    in bursts, after them and elsewhere (queries/fleet_report/losses.sql); switch_drops: question 12. at_once: for how
    long (ns) how many hosts of a rack were in a burst at once (8). fan_ins: received bursts by fan-in (a power of two
    or 0 is the least of a row) and pattern (7). loss: question 9.
    senders: question 11. ports: question 13, the worst switch ports; port_hosts: of its answer, the hosts that did not
    record what they receive by these ports, by rack and name."""

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
    """All of them."""
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
    """Give the rows of senders the name that NAMES, a database with names, has for them at a time, and the service
    where the inventory has none."""
    rows = found.senders.rows
    called = named(names, [row["source"] for row in rows], at_ns)
    for row in rows:
        of = called.get(row["source"], NAMELESS)
        row |= {"name": of.name, "service": row["service"] or of.service}


def asked(con: duckdb.DuckDBPyConnection, query: str, *values: Any) -> list[Row]:
    """The rows of an answer."""
    answer = con.execute(query, list(values)) if values else con.execute(query)
    columns = [column[0] for column in answer.description]
    return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


def worst(con: duckdb.DuckDBPyConnection, answer: str, order: str, most: int) -> WorstRows:
    """The first MOST rows of ANSWER, a table or a SELECT in brackets."""
    [total] = asked(con, f"SELECT count(*) AS n FROM {answer}")
    return WorstRows(asked(con, f"FROM {answer} ORDER BY {order} LIMIT {most}"), total["n"])


def _keep(con: duckdb.DuckDBPyConnection, question: str) -> None:
    """Have the answer to a question that is asked for more than once as a table."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE answer_{question} AS {questions.text(question)}")


def _curves(con: duckdb.DuckDBPyConnection) -> tuple[list[ClassCurve], int]:
    """The curves of the classes of most bursts that hosts receive, and how many such classes there are. Of durations
    that are one pixel the longest stays, with its share."""
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
    """Each class of bursts with its quantiles (nearest rank; NULL where there are too few bursts for one), the gaps
    between them, how bins follow each other, and what share of bytes is in them."""
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

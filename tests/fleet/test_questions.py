"""The answers to the questions to a fleet's results equal answers that are worked out row by row."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from fleet_oracle import Fleet, lateness
from fleettables import DATES, DAY, INVENTORY, SENDERS, START, arrow, tables
from hypothesis import given, settings
from hypothesis import strategies as st
from questioned import HOSTS, SPANS, same

from mburst.fleet.inventory import STOPPING_NS
from mburst.sql import questions


def asked(found, span, inventory):
    """Opens a database with the tables that the questions need."""
    con = duckdb.connect()
    for table, rows in found.items():
        con.register(table, arrow(table, rows, located=True))
    con.register("inventory", pa.Table.from_pylist(inventory, INVENTORY))
    con.execute(
        f"CREATE VIEW asked AS SELECT CAST({span[0]} AS BIGINT) AS since_ns, CAST({span[1]} AS BIGINT) AS until_ns"
    )
    return con


def test_files_of_questions_are_complete_sql():
    """Spark and Trino get the files as they are: nothing is inserted into them before."""
    for name in questions.names():
        assert questions.text(name) == (questions.FOLDER / f"{name}.sql").read_text("utf-8")


def test_a_removed_host_stops_within_one_time():
    """The text of a question has it as a number, since other engines run it unchanged."""
    assert questions.text("01_coverage").count(f" {STOPPING_NS}") == 2


@settings(max_examples=12)
@given(st.integers(0, 2**32))
def test_verdicts_are_ordered_by_lateness(seed):
    """Wherever they are: it is one text."""
    found = tables(seed, racks=3)
    columns = ("has_tail", "excess_ns", "host", "start_ns", "rack")
    verdicts = questions.part("switch_drops", "by_lateness")
    asking = f"SELECT {', '.join(columns)} FROM ({verdicts}) ORDER BY lateness_place"
    with asked(found, SPANS[0], []) as con:
        answer = con.execute(asking).fetchall()
    ordered = sorted(found["verdicts"], key=lateness)
    assert answer == [tuple(row[name] for name in columns) for row in ordered]


@pytest.mark.costly
@pytest.mark.parametrize("name", questions.names())
@settings(max_examples=12)
@given(st.integers(0, 2**32), st.sampled_from(SPANS), st.booleans(), st.integers(1, 3), st.sampled_from([3, 12, 60]))
def test_an_answer_is_what_the_rows_add_up_to(name, seed, span, listed, racks, bursts):
    found, inventory = tables(seed, racks=racks, bursts=bursts), HOSTS if listed else []
    with asked(found, span, inventory) as con:
        answer = con.execute(questions.text(name)).fetchall()
    same(answer, getattr(Fleet(found, span, inventory), name.partition("_")[2])())


@pytest.mark.parametrize(("bursts", "p99_ns"), [(40, None), (99, None), (100, 99), (101, 100)])
@pytest.mark.parametrize(("name", "table"), [("worst_hosts", "bursts"), ("switch_ports", "port_bursts")])
def test_p99_is_left_out_if_it_would_be_the_largest_value(name, table, bursts, p99_ns):
    """The rule is that of known_quantile."""
    found = tables(1, racks=1, hosts=1)
    span = SPANS[0]
    row = next(row for row in found[table] if row["direction"] == "in" and span[0] <= row["start_ns"] < span[1])
    found[table] = [{**row, "start_ns": row["start_ns"] + i, "duration_ns": i + 1} for i in range(bursts)]
    with asked(found, span, []) as con:
        answers = con.execute(f"SELECT DISTINCT p99_ns FROM ({questions.text(name)})").fetchall()
    assert (p99_ns,) in answers and {*answers} <= {(p99_ns,), (None,)}


def test_a_burst_with_several_equal_leaders_has_no_leader():
    """The sender with the first address is not chosen."""
    found = tables(1, racks=1, hosts=1)
    span = SPANS[0]
    row = next(
        row for row in found["senders"] if span[0] <= row["start_ns"] < span[1] and row["recording_id"] == "h0-in"
    )
    sent = {"10.0.0.1": 900, "10.0.0.2": 900, "10.0.0.3": 90}
    found["senders"] = [
        {**row, "place": place, "source": source, "members": 1, "bytes": bytes_, "in_fan_in": True}
        for place, (source, bytes_) in enumerate(sent.items(), 1)
    ]

    def led() -> dict[str, int]:
        with asked(found, span, []) as con:
            return dict(con.execute(f"SELECT source, led FROM ({questions.text('aggressors')})").fetchall())

    assert led() == dict.fromkeys(sent, 0)
    found["senders"][0]["bytes"] += 1
    assert led() == {"10.0.0.1": 1, "10.0.0.2": 0, "10.0.0.3": 0}


@pytest.mark.parametrize(
    ("removed_ns", "recorded_ns", "share"),
    [
        (START - 60 * 10**9, 600 * 10**9, 1),
        (START, 1200 * 10**9, 1),
        (START, 1201 * 10**9, 1201 / 86400),
        (START - 1200 * 10**9, 1, 1e-9 / 86400),
        (-(2**63), 600 * 10**9, 600 / 86400),
        (2**63 - 1, 600 * 10**9, 600 / 86400),
    ],
)
def test_a_host_that_stops_just_after_midnight_is_not_expected_all_day(removed_ns, recorded_ns, share):
    found = {name: [] for name in tables(1)}
    row = next(row for row in tables(1)["hours"] if row["date"] == DATES[START])
    found["hours"] = [{**row, "hour_ns": START, "recorded_ns": recorded_ns}]
    listed = {"rack": row["rack"], "host": row["host"], "added_ns": None, "removed_ns": removed_ns}
    with asked(found, SPANS[0], [listed]) as con:
        [(hosts, recorded_share)] = con.execute(
            f"SELECT hosts_expected, recorded_share FROM ({questions.text('coverage')})"
        ).fetchall()
    assert (hosts, recorded_share) == (1, pytest.approx(share))


def test_the_service_of_a_sender_is_that_of_the_time_of_its_bursts():
    """An address goes from one host to another."""
    found = tables(2, bursts=60)
    first = min(row["start_ns"] for row in found["senders"] if row["start_ns"] >= START)
    for moved_ns, service in ((first, "web"), (START + DAY, "cache")):
        listed = [
            {"rack": "r1", "host": "a", "service": "cache", "address": address, "removed_ns": moved_ns}
            for address in SENDERS
        ] + [
            {"rack": "r1", "host": "b", "service": "web", "address": address, "added_ns": moved_ns}
            for address in SENDERS
        ]
        with asked(found, SPANS[0], listed) as con:
            answer = con.execute(f"SELECT DISTINCT service FROM ({questions.text('aggressors')})").fetchall()
        assert answer == [(service,)]

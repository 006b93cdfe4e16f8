"""The links at a time, and the times in which each holds, compared with a slow definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked import links_at
from storelib import write

from mburst.sql import StoreFolder, in_memory

COLUMNS = ("ts_ns", "host", "interface", "port", "origin", "present")

links = st.lists(
    st.fixed_dictionaries(
        {
            "ts_ns": st.integers(0, 6),
            "host": st.sampled_from("ab"),
            "interface": st.sampled_from(["", "eth0"]),
            "port": st.sampled_from(["p1", "p2"]),
            "origin": st.sampled_from(["configuration", "lldp"]),
            "present": st.sampled_from([True, True, False]),
        }
    ),
    max_size=12,
    unique_by=lambda of: tuple(of[name] for name in COLUMNS),
)


@pytest.fixture(scope="module")
def con() -> Any:
    with in_memory() as con:
        con.execute(
            "CREATE TABLE given_links (batch VARCHAR, ts_ns BIGINT, host VARCHAR, interface VARCHAR, device VARCHAR, "
            "port VARCHAR, origin VARCHAR, present BOOLEAN)"
        )
        yield con


@settings(max_examples=25, deadline=None)
@given(links)
def test_links_of_a_time_are_those_of_the_slow_definition(con: Any, rows: list[dict[str, Any]]) -> None:
    con.execute("DELETE FROM given_links")
    for number, row in enumerate(rows):
        con.execute(
            "INSERT INTO given_links VALUES (?, ?, ?, ?, 'd', ?, ?, ?)", [str(number), *(row[name] for name in COLUMNS)]
        )
    periods = con.execute("SELECT batch, since_ns, until_ns FROM link_periods('given_links')").fetchall()
    assert all(until is None or since < until for _, since, until in periods)
    for at in (-(2**63) + 1, *range(-1, 8), 2**63 - 1):
        expected = sorted(str(rows.index(dict(row))) for row in links_at(rows, at))
        found = con.execute("SELECT batch FROM links_at('given_links', ?) ORDER BY batch", [at]).fetchall()
        assert [batch for (batch,) in found] == expected
        assert sorted(b for b, since, until in periods if since <= at and (until is None or at < until)) == expected


def test_each_report_of_a_link_has_one_period(tmp_path: Any) -> None:
    """A link that two origins report at the same time has one row."""
    store = StoreFolder.create(tmp_path / "store")
    write(
        store,
        "links",
        *(
            {"ts_ns": at, "host": f"h{n}", "device": "d", "port": f"p{n}", "origin": origin, "present": True}
            for n in range(50)
            for at in range(24)
            for origin in (["lldp"] if n % 2 else ["lldp", "configuration"])
        ),
    )
    with store.connect() as con:
        [(rows, hosts)] = con.execute("SELECT count(*), count(DISTINCT host) FROM links_at('links', 12)").fetchall()
        [(periods,)] = con.execute("SELECT count(*) FROM link_periods('links')").fetchall()
    assert (rows, hosts, periods) == (50, 50, 50 * 24)

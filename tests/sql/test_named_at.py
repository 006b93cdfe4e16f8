"""The name of an address at a time: the macro named_at compared with Python's ipaddress, and the view `names`."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from storelib import rows

from mburst.sql import StoreFolder, in_memory

EVER = (-(2**63), 2**63 - 1)
V4 = st.integers(0, 7).map(lambda low: f"10.1.7.{low << 2}")
V6 = st.sampled_from(
    ["::", "::1", "2001:db8::1", "2001:db8::8000:0:0:1", "2001:db8:0:1::", "1:2:3:4:5:6:7:8", "::ffff:0:1"]
)
NETWORKS = st.tuples(st.one_of(V4, V6), st.integers(0, 128)).map(
    lambda of: ipaddress.ip_network((of[0], min(of[1], ipaddress.ip_address(of[0]).max_prefixlen)), strict=False)
)
TIME = st.one_of(st.none(), st.integers(0, 4))
NAMED = st.fixed_dictionaries(
    {
        "network": st.one_of(NETWORKS, st.sampled_from(["02:00:00:00:00:01", "02:00:00:00:00:02"])),
        "kind": st.sampled_from(["csv", "hosts"]),
        "imported_ns": st.integers(0, 2),
        "origin": st.sampled_from(["x", "y"]),
        "name": st.sampled_from(["", "a", "b"]),
        "service": st.sampled_from(["", "s", "t"]),
        "located": st.sampled_from(["", "r7"]),
        "owner": st.sampled_from(["", "o"]),
        "from_ns": TIME,
        "until_ns": TIME,
    }
)
NEITHER = st.sampled_from(["02:00:00:00:00:01", "other", "", "1::2::3", "1.2.3"])
ASKED = st.tuples(st.one_of(V4, V6, NEITHER), st.integers(-1, 5))


PLAIN = {"kind": "csv", "imported_ns": 0, "origin": "x", "name": "", "service": "", "located": "", "owner": "",
         "from_ns": None, "until_ns": None}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with in_memory(threads=1) as connection:
        yield connection


def text_of(network: Any) -> str:
    """Returns the text of a network as in the store."""
    single = isinstance(network, str) or network.prefixlen == network.max_prefixlen
    return str(network).partition("/")[0] if single else str(network)


def holds(one: dict[str, Any], address: str, at_ns: int) -> bool:
    if not (EVER[0] if one["from_ns"] is None else one["from_ns"]) <= at_ns:
        return False
    if one["until_ns"] is not None and one["until_ns"] <= at_ns:
        return False
    if isinstance(one["network"], str):
        return bool(one["network"] == address)
    try:
        asked = ipaddress.ip_address(address)
    except ValueError:
        return False
    return asked.version == one["network"].version and asked in one["network"]


def place(one: dict[str, Any], value: str) -> tuple[Any, ...]:
    """Returns the sort key of a name: the smallest counts."""
    length = 17 if isinstance(one["network"], str) else one["network"].prefixlen
    begins = EVER[0] if one["from_ns"] is None else one["from_ns"]
    return -length, one["kind"] != "csv", -one["imported_ns"], -begins, one["origin"], value


def called(names: list[dict[str, Any]], address: str, at_ns: int) -> tuple[str | None, ...] | None:
    """Returns name, service, rack and owner, the slow way."""
    mine = [one for one in names if holds(one, address, at_ns)]

    def best(column: str, single: bool = False) -> str | None:
        found = [(place(one, one[column]), one[column]) for one in mine
                 if one[column] and not (single and "/" in text_of(one["network"]))]  # fmt: skip
        return min(found)[1] if found else None

    rest = best("service"), best("located"), best("owner")
    name = best("name", single=True)
    if name is None and (of := best("name") or best("service")):
        name = f"{of} {address}"
    return None if not any((name, *rest)) else (name, *rest)


@pytest.mark.costly
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(NAMED, max_size=8), st.lists(ASKED, min_size=1, max_size=8, unique=True))
@example(  # a longer prefix that has only a rack leaves the name of a shorter one
    [
        {**PLAIN, "network": ipaddress.ip_network("10.1.0.0/16"), "service": "s", "located": "r7", "until_ns": 3},
        {**PLAIN, "network": ipaddress.ip_network("10.1.7.4"), "name": "a", "from_ns": 2},
    ],
    [("10.1.7.4", 1), ("10.1.7.4", 2), ("10.1.7.4", 3), ("10.1.7.8", 3)],
)  # fmt: skip
def test_longest_prefixes_at_a_time_are_those_of_ipaddress(
    con: duckdb.DuckDBPyConnection, names: list[dict[str, Any]], asked: list[tuple[str, int]]
) -> None:
    given_names = [{**one, "prefix": text_of(one["network"])} for one in names]
    con.register("names", rows("names", *given_names))
    addresses, times = zip(*asked, strict=True)
    con.register("asked", pa.table({"address": addresses, "at_ns": pa.array(times, pa.int64())}))
    found = con.execute("SELECT address, at_ns, name, service, rack, owner FROM named_at('asked')").fetchall()
    expected = {of: called(names, *of) for of in asked}
    assert len(found) == len({row[:2] for row in found})
    assert {row[:2]: row[2:] for row in found} == {of: what for of, what in expected.items() if what}


def test_named_at_reads_a_common_table_expression(con: duckdb.DuckDBPyConnection) -> None:
    con.register("names", rows("names", {**PLAIN, "prefix": "10.1.7.0/24", "service": "db"}))
    asked = "WITH asked AS (SELECT '10.1.7.4' AS address, 1790000000000000000 AS at_ns)"
    assert con.execute(f"{asked} SELECT address, service FROM named_at('asked')").fetchall() == [("10.1.7.4", "db")]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.one_of(st.ip_addresses(), st.ip_addresses(v=6).map(lambda a: type(a)(int(a) & ~(0xFFFF << 48)))))
def test_bits_of_addresses(con: duckdb.DuckDBPyConnection, address: Any) -> None:
    bits = f"{address.version}{int(address):0{address.max_prefixlen}b}"
    found = con.execute("SELECT address_bits($1), prefix_bits($1 || '/9')", [str(address)]).fetchall()
    assert found == [(bits, bits[:10])]


@pytest.mark.parametrize(
    "text", ["other", "", ":", ":::", "1.2.3.400", "1.2.3", "1:2", "12345::", "1::2::3", "1:2:3:4:5:6:7:8:9"]
)
def test_an_invalid_address_has_no_bits(con: duckdb.DuckDBPyConnection, text: str) -> None:
    assert con.execute("SELECT address_bits($1)", [text]).fetchall() == [(None,)]


def imported(store: StoreFolder, number: int, kind: str, **names: str) -> None:
    """Writes one import of an origin. NAMES gives prefixes by name; without names the import names nothing."""
    same = {**PLAIN, "batch": f"b{number}", "origin": kind, "kind": kind, "imported_ns": number * 100}
    given_names = [{**same, "prefix": prefix, "name": name} for name, prefix in names.items()]
    with store.writer("names") as writer:
        writer.append(rows("names", *(given_names or [{**same, "prefix": ""}])))


def names_in(store: StoreFolder) -> list[tuple[Any, ...]]:
    with store.connect(rack="another", since_ns=0, until_ns=1) as con:  # names are never narrowed
        return con.execute("SELECT prefix, name, from_ns, until_ns FROM names ORDER BY ALL").fetchall()


def test_imports_hold_until_the_next_and_the_first_from_the_beginning(tmp_path: Path) -> None:
    """Addresses are reassigned: earlier recordings keep the earlier name."""
    store = StoreFolder.create(tmp_path / "store")
    imported(store, 1, "kubernetes", old="10.0.0.1")
    imported(store, 2, "kubernetes", new="10.0.0.1", other="10.0.0.2")
    imported(store, 3, "kubernetes")
    assert names_in(store) == [
        ("10.0.0.1", "new", 200, 300), ("10.0.0.1", "old", None, 200), ("10.0.0.2", "other", 200, 300),
    ]  # fmt: skip


def test_a_csv_file_replaces_its_earlier_names(tmp_path: Path) -> None:
    """The rows of a CSV file have their own times."""
    store = StoreFolder.create(tmp_path / "store")
    imported(store, 1, "csv", old="10.0.0.1")
    imported(store, 2, "csv", new="10.0.0.1")
    imported(store, 1, "hosts", local="127.0.0.1")
    assert names_in(store) == [("10.0.0.1", "new", None, None), ("127.0.0.1", "local", None, None)]
    imported(store, 3, "csv")
    assert names_in(store) == [("127.0.0.1", "local", None, None)]

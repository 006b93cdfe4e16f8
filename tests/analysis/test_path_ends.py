"""The host of an end of a probed path, by Python and by the store's SQL, and the name of a path."""

from __future__ import annotations

import contextlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mburst.analysis.answers.investigate import is_at
from mburst.analysis.read.path_ends import host_of, path_name
from mburst.sql.views import in_memory


@pytest.mark.parametrize(
    ("end", "host"),
    [
        ("api", "api"),
        ("api:40001", "api"),
        ("api.example.net:1", "api.example.net"),
        ("10.0.0.1:40001", "10.0.0.1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("2001:db8::1:40", "2001:db8::1:40"),  # this one is an address
        ("[2001:DB8::1]:40001", "2001:db8::1"),
        ("rack:r1:40001", "rack:r1:40001"),  # no prober writes this
        ("[]:1", "[]:1"),
        ("api:٤", "api:٤"),
        (":7", ":7"),
        ("api:", "api:"),
        ("", ""),
    ],
)
def test_the_host_of_an_end(end: str, host: str) -> None:
    assert host_of(end) == host and host_of(host) == host


@given(st.text("ab.:[]19", max_size=9))
def test_sql_has_the_same_hosts(end: str) -> None:
    with in_memory(1) as con:
        [(found,)] = con.execute("SELECT probe_host($1)", [end]).fetchall()
    with contextlib.suppress(ValueError):
        found = str(ipaddress.ip_address(found))
    assert found == host_of(end)


def test_spellings_of_an_address_are_the_same_address() -> None:
    known = {"2001:db8::c612:1": "cache"}
    for end in ("2001:db8::c612:1", "2001:DB8::C612:1", "2001:0db8:0:0:0:0:c612:0001", "[2001:db8::C612:1]:40001"):
        assert is_at(end, "cache", "eth0", known) and not is_at(end, "cache-2", "eth0", known)
    assert is_at("Cache.example.net:40001", "cache", "eth0", {})


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ((), "api → cache"),
        (("",), "api → cache"),
        (("udp", ""), "api → cache (udp)"),
        (("udp", "8 paths"), "api → cache (udp, 8 paths)"),
    ],
)
def test_the_name_of_a_path(more: tuple[str, ...], name: str) -> None:
    assert path_name("api", "cache", *more) == name

"""Text of addresses (capture/decode/address.c) against Python's ipaddress."""

from __future__ import annotations

import ipaddress

import pytest
from decode_tool import driver
from decode_words import IPV4, IPV6, MAC, NOBODY, Address
from hypothesis import example, given, settings
from hypothesis import strategies as st

SETTINGS = settings(deadline=None, max_examples=300)
# Addresses with runs of zeros, where RFC 5952 has its rules.
groups = st.sampled_from([0, 0, 0, 1, 0xF, 0x10, 0xDB8, 0xFFFF]) | st.integers(0, 0xFFFF)
ipv6 = st.tuples(*[groups] * 8).map(lambda parts: int("".join(f"{part:04x}" for part in parts), 16))


def dotted_only_where_mapped(value: int) -> str:
    """RFC 5952 with its section 5: the address that a well-known prefix embeds is dotted."""
    if value >> 32 == 0xFFFF or (value >> 32 == 0 and value >> 16 != 0):
        prefix = "::ffff:" if value >> 32 else "::"
        return prefix + str(ipaddress.IPv4Address(value & 0xFFFFFFFF))
    return str(ipaddress.IPv6Address(value))


@SETTINGS
@given(value=st.integers(0, 2**32 - 1))
def test_ipv4(value: int):
    text = driver().text(Address(IPV4, value))
    assert text == str(ipaddress.IPv4Address(value))
    assert driver().parsed(text.encode()) == Address(IPV4, value)


@SETTINGS
@given(value=ipv6 | st.integers(0, 2**128 - 1))
@example(0)
@example(1)
@example(0xFFFF << 32 | 0x0A000001)
@example(0x20010DB8 << 96)
@example(int(ipaddress.IPv6Address("2001:db8:0:1:1:1:1:1")))
@example(int(ipaddress.IPv6Address("2001:0:0:1:0:0:0:1")))
@example(int(ipaddress.IPv6Address("2001:db8:0:0:1:0:0:1")))
def test_ipv6(value: int):
    text = driver().text(Address(IPV6, value))
    assert text == dotted_only_where_mapped(value)
    assert driver().parsed(text.encode()) == Address(IPV6, value)
    assert driver().parsed(ipaddress.IPv6Address(value).exploded.upper().encode()) == Address(IPV6, value)


@SETTINGS
@given(value=st.integers(0, 2**48 - 1))
def test_mac(value: int):
    text = driver().text(Address(MAC, value))
    assert text == ":".join(f"{octet:02x}" for octet in value.to_bytes(6, "big"))
    for other in (text, text.upper(), text.replace(":", "-")):
        assert driver().parsed(other.encode()) == Address(MAC, value)


def test_an_ipv4_mapped_address_is_not_the_ipv4_address():
    assert driver().parsed(b"::ffff:10.0.0.1") == Address(IPV6, 0xFFFF << 32 | 0x0A000001)
    assert driver().parsed(b"10.0.0.1") == Address(IPV4, 0x0A000001)


def test_no_address_has_no_text():
    assert driver().text(NOBODY) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.1 ",
        "10.0.0.1/8",
        "010.0.0.1",
        "1.2.3.4.5",
        ":",
        ":::",
        "1::2::3",
        "1:2:3:4:5:6:7",
        "12345::",
        "fe80::1%eth0",
        "[::1]",
        "aa:bb:cc:dd:ee",
        "aa:bb:cc:dd:ee:f",
        "aa:bb:cc:dd:ee:ff:00",
        "aa:bb-cc:dd:ee:ff",
        "aabb.ccdd.eeff",
        "aa:bb:cc:dd:ee:fg",
        "a::b::c::d::e::ff",
        "aa bb cc dd ee ff",
        "eth0",
        "10.0.0.1\n",
        "x" * 4000,
    ],
)
def test_invalid_addresses_are_refused(text: str):
    assert driver().parsed(text.encode()) is None


@SETTINGS
@given(text=st.text("0123456789abcdefABCDEF:.-%g", max_size=45))
def test_any_text_is_taken_as_python_takes_it(text: str):
    parsed = driver().parsed(text.encode())
    try:
        value = ipaddress.ip_address(text)
    except ValueError:
        assert parsed is None or parsed.family == MAC
    else:
        if "%" not in text:
            assert parsed == Address(value.version, int(value))

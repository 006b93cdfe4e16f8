"""The content of a source of names, as rows of the store's table `names`."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from ...errors import UsageError

_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")
LONGEST = 253  # characters of a name, as for a host name in DNS


class NamedPrefix(NamedTuple):
    """An address, network or MAC address and its names. Texts are '' if nothing is known; a time of None is open."""

    prefix: str
    name: str = ""
    service: str = ""
    located: str = ""  # its rack
    owner: str = ""
    from_ns: int | None = None
    until_ns: int | None = None


class NameList(NamedTuple):
    """The content of one source at a time. KIND: csv, hosts, dns, kubernetes, consul or recorded."""

    kind: str
    names: list[NamedPrefix]


def canonical(text: str) -> str:
    """Returns an address, network or MAC address in the form of the store. Raises UsageError."""
    lower = text.strip().lower().replace("-", ":")
    if _MAC.fullmatch(lower):
        return lower
    try:
        network = ipaddress.ip_network(text.strip(), strict=False)
        if "%" in text:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"invalid address {text!r}", "examples: 10.1.7.3, 10.1.7.0/24, 2001:db8::/32, 02:00:00:00:00:01"
        ) from None
    if network.prefixlen == network.max_prefixlen:
        return _as_recorded(network.network_address)
    if "/" in text and ipaddress.ip_address(text.strip().partition("/")[0]) != network.network_address:
        raise UsageError(f"invalid network {text!r}: address bits beyond the prefix", f"write {network}")
    return str(network)


def _as_recorded(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Returns an address in the form of the engine, which writes an IPv4 address within IPv6 with dots."""
    return socket.inet_ntop(socket.AF_INET if address.version == 4 else socket.AF_INET6, address.packed)


def is_address(text: object) -> bool:
    """Whether TEXT is one IP address."""
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return "%" not in str(text)


def reads_like_address(text: str) -> bool:
    """Whether a reader would take TEXT for an IP address or a network: also 10.0.0.1/32, 010.0.0.1 and fe80::1%eth0."""
    return is_address(re.sub(r"\b0+(?=\d)", "", re.split("[/%]", text)[0].strip("[]")))


def merged(names: list[NamedPrefix]) -> list[NamedPrefix]:
    """Returns one row for each prefix, by prefix: the first text of each kind; several services are listed together.
    For sources without times."""
    by_prefix: dict[str, list[NamedPrefix]] = {}
    for one in names:
        by_prefix.setdefault(one.prefix, []).append(one)
    return [_together(prefix, found) for prefix, found in sorted(by_prefix.items())]


def _together(prefix: str, found: list[NamedPrefix]) -> NamedPrefix:
    def first(texts: list[str]) -> str:
        return next(filter(None, texts), "")

    services = dict.fromkeys(one.service for one in found if one.service)
    return NamedPrefix(
        prefix,
        first([one.name for one in found]),
        ", ".join(services)[:LONGEST],
        first([one.located for one in found]),
        first([one.owner for one in found]),
    )

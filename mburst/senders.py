"""Senders in words: names rather than addresses, and a service rather than many names.

Bursts are as analysis/bursts/find.py lists them; `top_sources` and `services` have the names of that time.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .names import short
from .units import format_count, format_share

OTHER = "other"  # in place of a sender: the senders of a bin beyond --max-sources, or away from busy bins
SERVICES = 2  # services of a burst that are named
LONGEST = 60  # most characters of a name in a sentence or a cell; JSON and CSV have all of it
FIRST_EPHEMERAL = 32768  # first of the ports that Linux gives to clients, where the name of a service would be a guess


def called(name: str) -> str:
    """Returns a name or service for a sentence or a cell: on one line, at most LONGEST characters."""
    return short(name, LONGEST)


def sender_name(sender: Mapping[str, Any]) -> str:
    """Returns the name of an entry of top_sources, or its address if it has none."""
    return called(sender["name"] or sender["source"])


def named_address(address: str, name: str | None) -> str:
    """Returns a name with its address, such as "db-7 (198.19.0.7)"."""
    if not name:
        return called(address)
    return called(name) if address in called(name) else f"{called(name)} ({called(address)})"


def service_text(service: Mapping[str, Any]) -> str:
    """Returns the senders of a service, such as "40 of db-shard (racks r7 22, r8 18)"."""
    return f"{service['senders']:,} of {called(service['service'])}" + racks_text(service["racks"], service["senders"])


def racks_text(racks: Iterable[Mapping[str, Any]], senders: int) -> str:
    """Returns the known racks, such as " (racks r7 22, r8 18)" or " (rack r7)", or "" if none is known. SENDERS counts
    all senders, including those without a known rack."""
    known = [(called(rack["rack"]), rack["senders"]) for rack in racks]
    if len(known) == 1 and known[0][1] == senders:
        return f" (rack {known[0][0]})"
    listed = ", ".join(f"{name} {number:,}" for name, number in known)
    return f" ({'racks' if len(known) > 1 else 'rack'} {listed})" if known else ""


def services_text(services: Sequence[Mapping[str, Any]], senders: int) -> str:
    """Returns the first SERVICES services, or "" unless there are several SENDERS and at least half of them belong to
    these."""
    first = services[:SERVICES]
    if senders < 2 or 2 * _senders_of(first) < senders:
        return ""
    return ", ".join(map(service_text, first))


def burst_services_text(burst: Mapping[str, Any]) -> str:
    """Returns the services in the fan-in of a burst and the number of other senders, or "" if most senders have no
    service."""
    text = services_text(burst["services"], burst["fan_in"])
    return _with_more(text, burst["sources"] - _senders_of(burst["services"][:SERVICES])) if text else ""


def senders_text(burst: Mapping[str, Any], most: int) -> str:
    """Returns the services that sent a burst, or its MOST largest senders with their shares, and the number of other
    senders; the number of all if none is known by its address, and "" if there are none."""
    if text := burst_services_text(burst):
        return text
    top = known_senders(burst)[:most]
    text = ", ".join(f"{sender_name(sender)} {format_share(round(sender['share'], 3))}" for sender in top)
    if not text:
        return format_count(burst["sources"], "sender") if burst["top_sources"] else ""
    return _with_more(text, burst["sources"] - len(top))


def known_senders(burst: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the largest senders of a burst without those that count together as `other`."""
    return [sender for sender in burst["top_sources"] if sender["source"] != OTHER]


def _senders_of(services: Iterable[Mapping[str, Any]]) -> int:
    return sum(service["senders"] for service in services)


def _with_more(text: str, more: int) -> str:
    return text + (f" and {more:,} more" if more > 0 else "")


@functools.cache
def port_text(port: int) -> str:
    """Returns a port with its name on this system (services(5)), such as "5432 (postgresql)". Ports of clients have no
    name."""
    for protocol in ("tcp", "udp") if port < FIRST_EPHEMERAL else ():
        try:
            return f"{port} ({called(socket.getservbyport(port, protocol))})"
        except (OSError, OverflowError):
            continue
    return str(port)

"""Who sent, in words for people: names before addresses, and the service before many names.

Bursts are as analysis/bursts/find.py lists them: what senders were called then is in `top_sources` and `services`.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .names import short
from .units import format_share

SERVICES = 2  # of a burst, that are named one by one
LONGEST = 60  # characters of a name in a sentence or a cell; JSON and CSV have all
FIRST_EPHEMERAL = 32768  # ports that Linux gives to clients: the name of a service would be a guess


def called(name: str) -> str:
    """A name or service as sentences and cells show it: on one line, and no longer than LONGEST."""
    return short(name, LONGEST)


def sender_name(sender: Mapping[str, Any]) -> str:
    """The name of an entry of top_sources; its address where it has none."""
    return called(sender["name"] or sender["source"])


def named_address(address: str, name: str | None) -> str:
    """ "db-7 (198.19.0.7)" """
    if not name:
        return called(address)
    return called(name) if address in called(name) else f"{called(name)} ({called(address)})"


def service_text(service: Mapping[str, Any]) -> str:
    """ "40 of db-shard (racks r7 22, r8 18)" """
    return f"{service['senders']:,} of {called(service['service'])}" + racks_text(service["racks"], service["senders"])


def racks_text(racks: Iterable[Mapping[str, Any]], senders: int) -> str:
    """ " (racks r7 22, r8 18)", " (rack r7)"; "" where none is known. SENDERS: of all racks, the unknown one too."""
    known = [(called(rack["rack"]), rack["senders"]) for rack in racks]
    if len(known) == 1 and known[0][1] == senders:
        return f" (rack {known[0][0]})"
    listed = ", ".join(f"{name} {number:,}" for name, number in known)
    return f" ({'racks' if len(known) > 1 else 'rack'} {listed})" if known else ""


def services_text(services: Sequence[Mapping[str, Any]], senders: int) -> str:
    """The first SERVICES of them, where at least half of several SENDERS are of these; else ""."""
    first = services[:SERVICES]
    if senders < 2 or 2 * _senders_of(first) < senders:
        return ""
    return ", ".join(map(service_text, first))


def burst_services_text(burst: Mapping[str, Any]) -> str:
    """The services that a burst's fan-in is of, and how many more senders it has; "" where most are of none."""
    text = services_text(burst["services"], burst["fan_in"])
    return _with_more(text, burst["sources"] - _senders_of(burst["services"][:SERVICES])) if text else ""


def senders_text(burst: Mapping[str, Any], most: int) -> str:
    """The services that sent a burst, or its largest senders, MOST of them, with their shares; and how many more."""
    if text := burst_services_text(burst):
        return text
    top = burst["top_sources"][:most]
    text = ", ".join(f"{sender_name(sender)} {format_share(round(sender['share'], 3))}" for sender in top)
    return _with_more(text, burst["sources"] - len(top)) if text else ""


def _senders_of(services: Iterable[Mapping[str, Any]]) -> int:
    return sum(service["senders"] for service in services)


def _with_more(text: str, more: int) -> str:
    return text + (f" and {more:,} more" if more > 0 else "")


@functools.cache
def port_text(port: int) -> str:
    """ "5432 (postgresql)": with the name that this system has for a port (services(5)), where it has one. Ports of
    clients have none."""
    for protocol in ("tcp", "udp") if port < FIRST_EPHEMERAL else ():
        try:
            return f"{port} ({called(socket.getservbyport(port, protocol))})"
        except (OSError, OverflowError):
            continue
    return str(port)

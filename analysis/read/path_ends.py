"""A probed path by its ends. Probes name a host by its name or by an address, followed by the port if there are several
source ports (services/prober.py)."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

_PORT_BEHIND = re.compile(r"(?:\[(?P<bare>.+)\]|(?P<name>[^:\[\]]+)):[0-9]+")


def host_of(end: str) -> str:
    """Returns the name of the host, or its address as in captures: of `api`, `api:40001`, `2001:DB8::1` and
    `[2001:db8::1]:40001`. probe_host of sql/macros.sql does the same for names."""
    if found := _PORT_BEHIND.fullmatch(end):
        end = found["bare"] or found["name"]
    with suppress(ValueError):
        return str(ipaddress.ip_address(end))
    return end


def path_name(src: str, dst: str, *more: str) -> str:
    """ "api → cache", or with MORE that is not empty "api → cache (udp, 8 paths)" """
    known = ", ".join(filter(None, more))
    return f"{src} → {dst}" + (f" ({known})" if known else "")

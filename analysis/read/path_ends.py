"""Which host an end of a probed path is: probes name it by its name or by an address, and with several source ports
with the port behind it (services/prober.py)."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

_PORT_BEHIND = re.compile(r"(?:\[(?P<bare>.+)\]|(?P<name>[^:\[\]]+)):[0-9]+")


def host_of(end: str) -> str:
    """The name of the host, or its address as captures have it: of `api`, `api:40001`, `2001:DB8::1` and
    `[2001:db8::1]:40001`. probe_host of sql/macros.sql is the same of names."""
    if found := _PORT_BEHIND.fullmatch(end):
        end = found["bare"] or found["name"]
    with suppress(ValueError):
        return str(ipaddress.ip_address(end))
    return end

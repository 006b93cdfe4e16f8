"""Which host an end of a probed path is: probes name it by its name or by an address, and with several source ports
with the port behind it (services/prober.py)."""

from __future__ import annotations

import ipaddress


def host_of(end: str) -> str:
    """The name of the host, or its address as captures have it: of `api`, `api:40001`, `2001:DB8::1` and
    `[2001:db8::1]:40001`. probe_host of sql/macros.sql is the same of names."""
    try:
        return str(ipaddress.ip_address(end))
    except ValueError:
        head, _, port = end.rpartition(":")
    bare = head[1:-1] if head.startswith("[") and head.endswith("]") else head
    return host_of(bare) if bare and port.isdecimal() and (":" not in bare or bare != head) else end

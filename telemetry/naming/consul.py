"""Names from Consul's catalog: /v1/catalog/service/NAME and /v1/catalog/nodes, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .rows import LONGEST, NamedPrefix, canonical, is_address


def names_of(entries: Sequence[Mapping[str, Any]]) -> list[NamedPrefix]:
    """Returns the node, its service, and the rack if the node's metadata has one. An entry without an IP address is
    left out. Raises KeyError and TypeError for content that Consul does not write."""
    found = []
    for one in entries:
        address = one.get("ServiceAddress") or one["Address"]
        meta = one.get("NodeMeta") or one.get("Meta") or {}
        if is_address(address):
            found.append(
                NamedPrefix(
                    canonical(address),
                    str(one["Node"])[:LONGEST],
                    str(one.get("ServiceName") or "")[:LONGEST],
                    str(meta.get("rack") or "")[:LONGEST],
                )
            )
    return found

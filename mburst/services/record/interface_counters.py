"""What the kernel counts of an interface, and since when: what a recording is held against."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace

from ...machine import boot_id

# Drivers that count bytes as a capture does: the link layer's header, but neither FCS nor preamble.
COUNT_AS_CAPTURED = {"veth"}
NAME_TRIES, EVERY_S = 20, 0.01  # while an interface is renamed it has no name


@dataclass(frozen=True)
class InterfaceCounters:
    """The counters of an interface at one moment. BOOT and INTERFACE name what they count since: they are worth
    comparing while both are the same."""

    boot: str | None = None
    interface: str | None = None
    packets: dict[str, int] | None = None  # by direction, "in" and "out"
    bytes: dict[str, int] | None = None  # None where the driver counts otherwise

    def of(self, direction: str) -> tuple[int | None, int | None]:
        """Packets and bytes of a direction; None where they are not known."""
        return (self.packets or {}).get(direction), (self.bytes or {}).get(direction)


def read(name: str, counted: tuple[int, int, int, int] | None = None) -> InterfaceCounters:
    """The counters of the interface called NAME in this network namespace, now or as they were COUNTED before
    (rx_packets, rx_bytes, tx_packets, tx_bytes)."""
    from ...capture import device

    found = device(name)
    if found is None:  # as `any`
        return InterfaceCounters(boot_id())
    rx, rx_bytes, tx, tx_bytes = counted or (
        found["rx_packets"],
        found["rx_bytes"],
        found["tx_packets"],
        found["tx_bytes"],
    )
    return InterfaceCounters(
        boot_id(),
        f"{os.stat('/proc/thread-self/ns/net').st_ino}/{found['index']}",
        {"in": rx, "out": tx},
        {"in": rx_bytes, "out": tx_bytes} if found["driver"] in COUNT_AS_CAPTURED else None,
    )


def of_then(now: InterfaceCounters) -> InterfaceCounters:
    """Of an earlier time than NOW, at which nobody read them."""
    return replace(now, packets=None, bytes=None)


def read_again(begun: InterfaceCounters) -> InterfaceCounters:
    """The counters of the interface that BEGUN is of, whatever it is called by now; none where it is gone."""
    index = int((begun.interface or "/0").rpartition("/")[2])
    for _ in range(NAME_TRIES):
        try:
            found = read(socket.if_indextoname(index))
        except OSError:
            break
        if found.interface == begun.interface:
            return found
        time.sleep(EVERY_S)
    return InterfaceCounters(boot_id())

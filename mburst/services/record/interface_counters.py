"""The kernel's counters of an interface, with which a recording is compared, and since when they count."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace

from ...machine import boot_id

# Drivers that count the bytes that a capture counts: the header of the link layer, but neither FCS nor preamble.
COUNT_AS_CAPTURED = {"veth"}
NAME_TRIES, EVERY_S = 20, 0.01  # while an interface is renamed it has no name


@dataclass(frozen=True)
class InterfaceCounters:
    """The counters of an interface at one moment. BOOT and INTERFACE identify their start: counters are comparable only
    if both are equal."""

    boot: str | None = None
    interface: str | None = None
    packets: dict[str, int] | None = None  # by direction, "in" and "out"
    bytes: dict[str, int] | None = None  # None if the driver counts bytes differently

    def of(self, direction: str) -> tuple[int | None, int | None]:
        """Returns packets and bytes of a direction; None if they are not known."""
        return (self.packets or {}).get(direction), (self.bytes or {}).get(direction)


def read(name: str, counted: tuple[int, int, int, int] | None = None) -> InterfaceCounters:
    """Returns the counters of the interface NAME in this network namespace: the present ones, or, if given, the earlier
    values COUNTED (rx_packets, rx_bytes, tx_packets, tx_bytes)."""
    from ...capture import device

    found = device(name)
    if found is None:  # for example `any`
        return InterfaceCounters(boot_id())
    rx, rx_bytes, tx, tx_bytes = counted or (
        found["rx_packets"],
        found["rx_bytes"],
        found["tx_packets"],
        found["tx_bytes"],
    )
    interface = f"{os.stat('/proc/thread-self/ns/net').st_ino}/{found['index']}"
    if rx is None or rx_bytes is None or tx is None or tx_bytes is None:  # the kernel did not report them
        return InterfaceCounters(boot_id(), interface)
    return InterfaceCounters(
        boot_id(),
        interface,
        {"in": rx, "out": tx},
        {"in": rx_bytes, "out": tx_bytes} if found["driver"] in COUNT_AS_CAPTURED else None,
    )


def of_then(now: InterfaceCounters) -> InterfaceCounters:
    """Returns the identity of NOW without values, for an earlier time at which nobody read the counters."""
    return replace(now, packets=None, bytes=None)


def read_again(begun: InterfaceCounters) -> InterfaceCounters:
    """Returns the present counters of the interface of BEGUN, even if it was renamed; without values if it is gone."""
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

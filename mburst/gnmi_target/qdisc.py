"""Reads the depth and the counters of a port's queue from the kernel through rtnetlink (RTM_GETQDISC, RTM_GETTCLASS).

A request takes some 10 µs, so one reading per millisecond is possible; `tc -j` can be forked at most 266 times a
second.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from .netlink import KernelQuestion, attributes

_RTM_NEWQDISC, _RTM_GETQDISC, _RTM_NEWTCLASS, _RTM_GETTCLASS = 36, 38, 40, 42
_NLM_F_ECHO = 8  # without ECHO, Linux 6.18 answers only if someone listens to notifications
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_STATS2 = 1, 7
_TCA_STATS_BASIC, _TCA_STATS_QUEUE = 1, 3
_TCMSG = struct.Struct("=BxxxiIII")  # struct tcmsg
_BASIC = struct.Struct("=QI")  # struct gnet_stats_basic: bytes, packets
_QUEUE = struct.Struct("=IIIII")  # struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits


class Statistics(NamedTuple):
    """The kernel's statistics of a queue: its present depth, and its counters since it was created."""

    backlog_bytes: int
    dropped_packets: int
    sent_bytes: int
    sent_packets: int


class QueueReader:
    """Reads the queue of an interface in the network namespace of the process: everything that waits there (the root
    queue), or one class of its queueing discipline. CLASS_ID is major << 16 | minor, or 0 for the root queue."""

    def __init__(self, interface: str, class_id: int = 0) -> None:
        request, answer, parent = (
            (_RTM_GETTCLASS, _RTM_NEWTCLASS, 0) if class_id else (_RTM_GETQDISC, _RTM_NEWQDISC, _TC_H_ROOT)
        )
        message = _TCMSG.pack(0, socket.if_nametoindex(interface), class_id, parent, 0)
        self._question = KernelQuestion(request, answer, message, _NLM_F_ECHO)
        self.close = self._question.close

    def read(self) -> tuple[int, int]:
        """Returns the bytes in the queue now, and the packets dropped since it was created."""
        statistics = attributes(self._ask()[_TCA_STATS2])
        _, backlog, drops, _, _ = _QUEUE.unpack_from(statistics[_TCA_STATS_QUEUE])
        return backlog, drops

    def kind(self) -> str:
        """Returns the queueing discipline; "noqueue" if packets never wait."""
        return self._ask()[_TCA_KIND].rstrip(b"\0").decode()

    def statistics(self) -> Statistics:
        """Returns all statistics of the queue. Raises OSError or KeyError if the interface has none."""
        statistics = attributes(self._ask()[_TCA_STATS2])
        _, backlog, drops, _, _ = _QUEUE.unpack_from(statistics[_TCA_STATS_QUEUE])
        return Statistics(backlog, drops, *_BASIC.unpack_from(statistics[_TCA_STATS_BASIC]))

    def _ask(self) -> dict[int, bytes]:
        """Returns the attributes in the kernel's answer."""
        return attributes(self._question.ask()[_TCMSG.size :])

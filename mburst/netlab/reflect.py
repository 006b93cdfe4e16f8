"""The reflector of the probes: answers each from its own namespace, and notes when the answers left.

A probe is (number, 0, filler); the answer is (number, arrival Unix ns by the kernel, filler), as long as the probe.
Departure stamps come only after the answer has gone, so they are reported at the end: [[number, Unix ns], …].
"""

from __future__ import annotations

import select
import socket
import struct
import sys

from . import role, stamps
from .namespaces import enter

PROBE = struct.Struct("!QQ")
PROBE_PORT = 7000


def main() -> None:
    config = role.begin()
    enter(config["namespace"])
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((config["address"], PROBE_PORT))
    sock.setblocking(False)
    stamps.enable(sock)
    role.go_real_time()  # what is measured is the network, not how busy this machine is
    role.ready()
    answered: list[int] = []
    left: dict[int, int] = {}
    stopping = False
    while not stopping:
        stopping = sys.stdin in select.select([sock, sys.stdin], [], [])[0]
        for data, arrived_ns, peer in stamps.received(sock):
            number = PROBE.unpack_from(data)[0]
            sock.sendto(PROBE.pack(number, arrived_ns) + data[PROBE.size:], peer)
            answered.append(number)
        for place, left_ns in stamps.sent(sock):
            left[answered[place]] = left_ns
    role.report(sorted(left.items()))


if __name__ == "__main__":
    main()

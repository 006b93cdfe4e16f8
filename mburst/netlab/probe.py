"""The API host's prober: UDP probes at random (Poisson) times, stamped by the kernel on both hosts.

One clock serves all namespaces, so the one-way delay is remote_rx - tx, exactly. The next probe is due at its own time
even when this process is late: a stall delays probes, but leaves none out.
"""

from __future__ import annotations

import errno
import random
import select
import socket
import sys
import time
from dataclasses import dataclass

from . import role, stamps
from .namespaces import enter
from .reflect import PROBE, PROBE_PORT

_PAYLOAD_BYTES = 128
_LOST_AFTER_S = 1.0


@dataclass
class Exchange:
    """What the prober knows of a probe; 0 is not known."""

    app_send_ns: int
    tx_ns: int = 0
    remote_rx_ns: int = 0
    rx_ns: int = 0
    app_recv_ns: int = 0


class Prober:
    """The socket of the probes and what has become of each, in the order of sending."""

    def __init__(self, source: str, target: str) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind((source, 0))
        self._sock.setblocking(False)
        stamps.enable(self._sock)
        self._target = (target, PROBE_PORT)
        self.exchanges: list[Exchange] = []
        self.waiting = 0

    def send(self) -> None:
        """Send the next probe."""
        probe = PROBE.pack(len(self.exchanges), 0).ljust(_PAYLOAD_BYTES, b"\0")
        self.exchanges.append(Exchange(time.time_ns()))
        self.waiting += 1
        try:
            self._sock.sendto(probe, self._target)
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # dropped on this host's way out: lost, as if farther on
                raise

    def wait(self, timeout_s: float) -> bool:
        """Take in answers and stamps for the time, or less; True when the owner says stop."""
        readable = select.select([self._sock, sys.stdin], [], [], timeout_s)[0]
        for data, arrived_ns, _ in stamps.received(self._sock):
            number, remote_rx_ns = PROBE.unpack_from(data)
            exchange = self.exchanges[number]
            exchange.app_recv_ns, exchange.rx_ns, exchange.remote_rx_ns = time.time_ns(), arrived_ns, remote_rx_ns
            self.waiting -= 1
        for number, left_ns in stamps.sent(self._sock):
            self.exchanges[number].tx_ns = left_ns
        return sys.stdin in readable


def main() -> None:
    config = role.begin()
    enter(config["namespace"])
    prober = Prober(config["source"], config["target"])
    rng = random.Random(config["seed"])
    role.go_real_time()  # what is measured is the network, not how busy this machine is
    role.ready()
    due = time.monotonic()
    stopping = False
    while not stopping:
        while (now := time.monotonic()) >= due:
            prober.send()
            due += rng.expovariate(config["rate"])
        stopping = prober.wait(max(0.0, due - now))
    deadline = time.monotonic() + _LOST_AFTER_S
    while prober.waiting and time.monotonic() < deadline:
        prober.wait(0)
        time.sleep(0.001)
    for exchange in prober.exchanges:
        role.report(list(vars(exchange).values()))


if __name__ == "__main__":
    main()

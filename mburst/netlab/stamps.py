"""Kernel timestamps of datagrams as they leave and as they arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from ..telemetry import timestamping


def enable(sock: socket.socket) -> None:
    """Ask for software stamps of every datagram sent and received; sent ones are numbered from 0."""
    timestamping.enable(sock)


def received(sock: socket.socket) -> Iterator[tuple[bytes, int, tuple[str, int]]]:
    """(payload, arrival Unix ns or 0, sender) of each waiting datagram of a non-blocking socket."""
    while True:
        try:
            data, control, _, address = sock.recvmsg(2048, timestamping.CONTROL_BYTES)
        except BlockingIOError:
            return
        yield data, timestamping.arrival(control)[0], address


def sent(sock: socket.socket) -> Iterator[tuple[int, int]]:
    """(number of the datagram, departure Unix ns) of each stamp that waits on the socket's error queue."""
    while told := timestamping.event(sock):
        if isinstance(told, timestamping.Sent) and told.ns:
            yield told.number, told.ns

"""Ports on which tests listen."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress

TRIES = 100
RANGE = range(10_000, 32_768)  # below those that Linux assigns to connections itself, which may take one at any time


def free_port() -> int:
    """Returns a free port of 127.0.0.1, over UDP or TCP. Raises OSError if none can be found."""
    for _ in range(TRIES):
        where = "127.0.0.1", secrets.choice(RANGE)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp, suppress(OSError):
            udp.bind(where)
            tcp.bind(where)
            return where[1]
    raise OSError(f"none of {TRIES} ports is free")

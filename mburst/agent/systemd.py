"""Notifications to systemd (sd_notify(3), Type=notify): ready, reloading, stopping, alive, and a status."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

ADDRESS = "NOTIFY_SOCKET"  # a path, or @ and an abstract name
MINE = (ADDRESS, "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """The connection to systemd; it does nothing if systemd did not start this process."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Take the variables for this process out of ENVIRONMENT, so that parts do not inherit them and notify in its
        name."""
        address, limit, process = (environment.pop(name, "") for name in MINE)
        self._socket: socket.socket | None = None
        self._watches = limit.isdecimal() and process in ("", str(os.getpid()))
        self._status = ""
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            self._address = "\0" + address[1:] if address.startswith("@") else address

    def ready(self) -> None:
        """Notify that all parts were started."""
        self._send(READY=1)

    def reloading(self) -> None:
        """Notify that the file is read again; `ready` follows."""
        self._send(RELOADING=1, MONOTONIC_USEC=time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)

    def stopping(self) -> None:
        """Notify that all parts are ending."""
        self._send(STOPPING=1)

    def status(self, line: str) -> None:
        """Set the line that `systemctl status` shows."""
        if line != self._status:
            self._status = line
            self._send(STATUS=line)

    def beat(self) -> None:
        """Notify that this process is alive."""
        if self._watches:
            self._send(WATCHDOG=1)

    def _send(self, **values: object) -> None:
        if self._socket:
            with suppress(OSError):  # systemd is slow or gone
                lines = "\n".join(f"{name}={value}" for name, value in values.items())
                self._socket.sendto(lines.encode(), self._address)

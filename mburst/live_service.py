"""Serves the live view of a store, alone or beside a recording into it."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import MburstError, UsageError

if TYPE_CHECKING:
    from .analysis.bursts import BurstDefinition
    from .sql import Store

PORT = 8470
LOOPBACK = ("127.", "::1", "localhost")
LEAST_TOKEN = 16  # characters
READY_S = 30.0


@dataclass(frozen=True)
class Where:
    """Where to listen, and who may come in. A token is None where only this machine can reach the server."""

    host: str
    port: int
    token: str | None
    tls: tuple[Path, Path] | None = None  # certificate and key

    def url(self, port: int) -> str:
        """What to open in a browser."""
        host = self.host if self.host not in ("0.0.0.0", "::") else socket.gethostname()
        shown = f"[{host}]" if ":" in host else host
        return f"http{'s' if self.tls else ''}://{shown}:{port}/" + (f"?token={self.token}" if self.token else "")


def where_of(listen: str, token_file: str | None, certificate: str | None, key: str | None) -> Where:
    """Where --listen and its companions say. Raises UsageError, and MburstError for files that cannot be read."""
    host, colon, port = listen.rpartition(":")
    if not colon or "]" in port:
        host, port = listen, str(PORT)
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{listen!r} is no address to listen at", "write it like 127.0.0.1:8470 or [::1]:8470")
    host = host.strip("[]") or "127.0.0.1"
    if bool(certificate) != bool(key):
        raise UsageError("--tls-cert and --tls-key belong together")
    tls = None
    if certificate and key:
        tls = Path(certificate), Path(key)
        for path in tls:
            _readable(path)
    token = None
    if token_file:
        token = _readable(Path(token_file)).strip()
        if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
            raise MburstError(f"{token_file}: a token is at least {LEAST_TOKEN} letters, digits or signs on one line")
    elif not host.startswith(LOOPBACK):
        token = secrets.token_urlsafe(24)
    return Where(host, int(port), token, tls)


def _readable(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise MburstError(f"{path}: cannot read: {reason}") from error


def listening(where: Where) -> socket.socket:
    """A socket that listens there. Raises MburstError when it cannot."""
    try:
        family = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((where.host, where.port), family=family, backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise MburstError(f"{where.host}:{where.port}: cannot listen: {reason}",
                          "name another address or port with --listen, port 0 for any that is free") from error


class Service:
    """The web server of one live view. Raises MburstError where the extra `live` is not installed."""

    def __init__(self, store: Store, rack: str | None, definition: BurstDefinition, where: Where, title: str,
                 dropped: Callable[[], int] | None = None) -> None:
        try:
            import uvicorn
            import websockets  # noqa: F401  what uvicorn speaks WebSocket with

            from .dashboards.live_server import application
        except ModuleNotFoundError as error:
            raise MburstError(f"the live view needs {error.name}, which is not installed",
                              "pip install 'mburst[live]'") from error
        from .analysis.live_bursts import BurstWatch
        from .analysis.live_store import LiveStore
        from .dashboards.live_view import LiveView

        self._socket = listening(where)
        try:
            self.live = LiveStore(store, rack)
            view = LiveView(self.live, BurstWatch(self.live, definition), dropped)
            certificate, key = where.tls or (None, None)
            config = uvicorn.Config(
                application(view, title, where.token), log_level="error", access_log=False, server_header=False,
                ws="websockets-sansio", ws_per_message_deflate=False, timeout_graceful_shutdown=1, proxy_headers=False,
                ssl_certfile=certificate and str(certificate), ssl_keyfile=key and str(key))
            config.load()
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError) and where.tls:  # ssl.SSLError is one
                raise MburstError(f"{where.tls[0]}, {where.tls[1]}: no certificate and key in PEM: {error}") from error
            raise
        self._server = uvicorn.Server(config)
        self.url = where.url(self._socket.getsockname()[1])

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM, or until `stop`."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self.live.close()

    def stop(self) -> None:
        """Have `run` return."""
        self._server.should_exit = True

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Serve in a thread while this lasts."""
        thread = threading.Thread(target=self.run, name="mburst-live", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stop()
            thread.join(READY_S)



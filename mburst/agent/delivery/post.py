"""HTTP POST of JSON, for kinds of delivery that use HTTP."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from ... import __version__
from .digest import Digest
from .kind import Begin, Delivery, MaybeDelivered, NotDelivered

BODY_BYTES = 4096  # most bytes of an answer that are read


class ConnectionDeadline(threading.Timer):
    """Ends a connection after SECONDS in total, because a server that sends a byte now and then would never time out.

    After all is sent, only receiving is ended: the next packet would reset a socket that is closed in both directions,
    and the answer so far would be lost."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        super().__init__(seconds, self._end)
        self.connection, self.daemon = connection, True
        self.ends = socket.SHUT_RDWR
        self.start()

    def all_is_sent(self) -> None:
        self.ends = socket.SHUT_RD

    def _end(self) -> None:
        with suppress(OSError):
            socket.socket.shutdown(self.connection, self.ends)  # SSLSocket.shutdown would continue without TLS


def post(url: str, body: Any, digest: Digest, to: Delivery, begin: Begin | None) -> None:
    """POST BODY as JSON. Any status from 200 to 299 is success. Raises NotDelivered if it did not arrive or was
    refused. BEGIN is called before it is sent, and MaybeDelivered is raised if no answer came; None: sending it again
    does no harm, and a missing answer raises NotDelivered."""
    parts, timeout_s = urlsplit(url), to.timeout_ns / 1e9
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    key = hashlib.blake2b(repr(digest.key(to.name)).encode(), digest_size=16).hexdigest()
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"mburst/{__version__}", "Idempotency-Key": key}
    try:
        try:
            connection.connect()
        except (OSError, ssl.SSLError, socket.gaierror) as error:
            raise NotDelivered(str(error.strerror or error)) from error
        if begin:
            begin()
        ending = ConnectionDeadline(connection.sock, timeout_s)
        try:
            connection.request("POST", target, content, headers)
            ending.all_is_sent()
            answer = connection.getresponse()
            said = answer.read(BODY_BYTES).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            lost = MaybeDelivered if begin else NotDelivered
            raise lost(f"no answer: {error or type(error).__name__}") from error
        finally:
            ending.cancel()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NotDelivered(
            f"the server answered {answer.status} {answer.reason}: {' '.join(said.split())}".rstrip(": ")
        )

"""Servers on the loopback that deliveries reach: mail and HTTP."""

from __future__ import annotations

import email
import email.policy
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from ports import free_port

from mburst.agent.delivery import Delivery, DeliveryLedger, Digest, deliver
from mburst.agent.delivery.kinds import KINDS


def to(kind: str, attempts: int = 3, when: str = "always", site: str = "", **settings) -> Delivery:
    return Delivery("ops", kind, attempts, 10**6, 10**10, site, when, KINDS[kind].settings(settings))


class Inbox:
    """Handler of a mail server. It replies to DATA with each of `answers` in turn, then accepts the mail."""

    def __init__(self) -> None:
        self.mails: list[email.message.EmailMessage] = []
        self.answers: list[str] = []

    async def handle_DATA(self, server, session, envelope):
        if self.answers:
            return self.answers.pop(0)
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 taken"


@contextmanager
def mail_server() -> Iterator[Inbox]:
    """Yields the inbox of a mail server that runs in this context."""
    handler = Inbox()
    controller = Controller(handler, hostname="127.0.0.1", port=free_port())
    controller.start()
    handler.port = controller.port
    yield handler
    controller.stop()


def mail(inbox: Inbox, **more) -> Delivery:
    return to(
        "smtp",
        host="127.0.0.1",
        port=inbox.port,
        security="none",
        to=["ops@example.net", "on-call@example.net"],
        **{"from": "mburst <mburst@example.net>"},
        **more,
    )


@contextmanager
def web_server() -> Iterator[Any]:
    """Yields an HTTP server. `seen` has (path, body, headers). It replies with each status code of `answers` in turn
    (None closes the connection), then with 200. `locations` are the targets of its redirects."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.seen.append((self.path, body, dict(self.headers)))
            status = self.server.answers.pop(0) if self.server.answers else 200
            if status is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            if self.server.locations:
                self.send_header("Location", self.server.locations.pop(0))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.answers, server.locations = [], [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def sent(digest: Digest, where: Delivery, ledger: DeliveryLedger) -> tuple[bool, list[str]]:
    reported: list[str] = []
    return deliver(digest, where, ledger, reported.append, pause=lambda seconds: None), reported

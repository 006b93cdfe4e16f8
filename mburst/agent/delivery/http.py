"""Delivery by HTTP: Slack-compatible webhooks, and the API v2 of Alertmanager."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from ... import __version__
from ...names import label, short, shown
from ...units import format_share
from .destinations import Delivery
from .digest import Digest, Entry
from .send import Refused, Unsure

SLACK_TEXT = 2900  # characters of a section; Slack takes 3000
SLACK_HEAD, SLACK_NAME, SLACK_WORDS = 150, 100, 600  # characters of a header, which takes no more, a rack, a sentence
BODY_BYTES, BODY_LETTERS = 4096, 200  # of an answer: bytes that are read, and characters that are printed
SLACK_LINES = 15


class Ending(threading.Timer):
    """Ends a connection after so many seconds in all: a server that sends a byte now and then never times out."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        super().__init__(seconds, self._end)
        self.connection, self.daemon = connection, True
        self.start()

    def _end(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def post(url: str, body: Any, timeout_s: float, key: str, again: Callable[[str], Exception]) -> None:
    """POST as JSON; any answer of 200 to 299 is a yes. Raises Refused where it did not arrive or was refused, and what
    AGAIN makes of the reason where it was sent and no answer came."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": "application/json", "User-Agent": f"mburst/{__version__}", "Idempotency-Key": key}
    try:
        try:
            connection.connect()
        except (OSError, ssl.SSLError, socket.gaierror) as error:
            raise Refused(str(error.strerror or error)) from error
        ending = Ending(connection.sock, timeout_s)
        try:
            connection.request("POST", target, json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            content = answer.read(BODY_BYTES).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise again(f"no answer: {error or type(error).__name__}") from error
        finally:
            ending.cancel()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise Refused(f"the server answered {answer.status} {answer.reason}: {' '.join(content.split())}".rstrip(": "))


def _key(digest: Digest, to: Delivery) -> str:
    return hashlib.blake2b(repr(digest.key(to.name)).encode(), digest_size=16).hexdigest()


def send_webhook(digest: Digest, to: Delivery) -> None:
    """A message with a line a rack. Raises Refused or Unsure."""
    post(to.settings["url"], slack(digest, to.site), to.timeout_ns / 1e9, _key(digest, to), Unsure)


def slack(digest: Digest, site: str) -> dict[str, Any]:
    """The payload: `text` for what shows only that, blocks for what knows them."""
    lines = []
    for entry in digest.entries[:SLACK_LINES]:
        name = _plain(entry.summary["rack"], SLACK_NAME)
        name = f"<{site}/{quote(entry.page.name)}|{name}>" if site else f"*{name}*"
        lines.append(f"{name}: {_plain(entry.summary['verdict'], SLACK_WORDS)}")
    if len(digest.entries) > SLACK_LINES:
        lines.append(f"and {len(digest.entries) - SLACK_LINES} racks more with less of the time in bursts")
    title = _plain(digest.title, SLACK_WORDS)
    blocks = [{"type": "header", "text": {"type": "plain_text", "text": _plain(digest.title, SLACK_HEAD)}},
              _section(lines or ["No report."])]
    if digest.troubles:
        blocks.append(_section([f":warning: {_plain(line, SLACK_WORDS)}" for line in digest.troubles]))
    return {"text": title, "blocks": blocks}


def _section(lines: Sequence[str]) -> dict[str, Any]:
    """As many of the lines as a section takes, whole."""
    text = ""
    for line in lines:
        if len(text) + len(line) < SLACK_TEXT:
            text += f"{line}\n"
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _plain(text: str, most: int) -> str:
    """TEXT as it is shown, Slack's three control characters as text, in at most MOST characters."""
    cut = short(text, most)
    while len(link := label(cut)) > most:
        cut = short(text, len(cut) - 1)
    return link.replace("|", "\N{BROKEN BAR}").replace("*", "\N{ASTERISK OPERATOR}").replace("`", "'")


def send_alerts(digest: Digest, to: Delivery) -> None:
    """An alert a rack. Alertmanager knows an alert by its labels, so that sending it again is no second one: no answer
    counts as not arrived. Raises Refused."""
    body = [alert(digest, entry, to.site) for entry in digest.entries if _worth(entry, to.settings.get("min-share"))]
    body += [trouble(digest, i, line) for i, line in enumerate(digest.troubles)]
    if body:
        post(to.settings["url"].rstrip("/") + "/api/v2/alerts", body, to.timeout_ns / 1e9, _key(digest, to), Refused)


def _worth(entry: Entry, least: float | None) -> bool:
    content = entry.summary
    return bool(content["bursts"] and content["share"] >= (least or 0.0)) or bool(content["queue_drops"])


def alert(digest: Digest, entry: Entry, site: str) -> dict[str, Any]:
    """The alert of a rack: from the end of the report's period on, for as long as a period lasts."""
    content = entry.summary
    made = {
        "labels": {"alertname": "MburstReport", "rack": shown(content["rack"]), "report": digest.report,
                   "severity": "warning" if content["queue_drops"] else "info"},
        "annotations": {"summary": f"Rack {shown(content['rack'])}: "
                                   f"{format_share(content['share'])} of the time in bursts",
                        "description": shown(content["verdict"]), "period": digest.period},
        **_lasting(digest),
    }
    return {**made, "generatorURL": f"{site}/{quote(entry.page.name)}"} if site else made


def trouble(digest: Digest, number: int, line: str) -> dict[str, Any]:
    """The alert of a delivery that failed."""
    return {"labels": {"alertname": "MburstDelivery", "report": digest.report, "number": str(number),
                       "severity": "warning"}, "annotations": {"summary": shown(line)}, **_lasting(digest)}


def _lasting(digest: Digest) -> dict[str, str]:
    def stamp(ns: int) -> str:
        return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    return {"startsAt": stamp(digest.until_ns), "endsAt": stamp(2 * digest.until_ns - digest.since_ns)}

"""Delivery to a chat: webhooks of Slack, and compatible ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ....names import label, short
from ....units import format_count
from ..digest import Digest
from ..kind import Begin, Delivery, Kind, SettingKey
from ..post import post
from ..values import url

SLACK_TEXT = 2900  # characters of a section; Slack takes 3000
SLACK_HEAD, SLACK_NAME, SLACK_WORDS = 150, 100, 600  # most characters of a header (Slack's limit), a rack, a sentence
SLACK_LINES = 15


def send(digest: Digest, to: Delivery, begin: Begin) -> None:
    """Send a message with a line for each rack. Raises NotDelivered or MaybeDelivered."""
    post(to.settings["url"], slack(digest, to.site), digest, to, begin)


def slack(digest: Digest, site: str) -> dict[str, Any]:
    """Returns the payload: `text` for clients that show only text, and blocks for the others."""
    lines = []
    for entry in digest.entries[:SLACK_LINES]:
        name = _plain(entry.summary["rack"], SLACK_NAME)
        name = f"<{site}/{quote(entry.page.name)}|{name}>" if site else f"*{name}*"
        doubts = _plain(" ".join(f"{doubt}." for doubt in entry.doubts), SLACK_WORDS)
        doubts = f" :warning: {doubts}" if doubts else ""
        lines.append(f"{name}: {_plain(entry.summary['verdict'], SLACK_WORDS)}{doubts}")
    lines += digest.left_out(SLACK_LINES)
    title = _plain(digest.title, SLACK_WORDS)
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": _plain(digest.title, SLACK_HEAD)}},
        _section(lines or ["No report."]),
    ]
    if digest.troubles:
        blocks.append(_section([f":warning: {_plain(line, SLACK_WORDS)}" for line in digest.troubles]))
    return {"text": title, "blocks": blocks}


def _section(lines: Sequence[str]) -> dict[str, Any]:
    """Returns a section with as many whole lines as fit, and the number of the others."""
    text, left_out = "", 0
    for line in lines:
        if len(text) + len(line) < SLACK_TEXT:
            text += f"{line}\n"
        else:
            left_out += 1
    text += f"{format_count(left_out, 'line')} left out: the message is too long\n" if left_out else ""
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _plain(text: str, most: int) -> str:
    """Returns TEXT as plain text of at most MOST characters, with Slack's control characters escaped."""
    cut = short(text, most)
    while len(link := label(cut)) > most:
        cut = short(text, len(cut) - 1)
    return link.replace("|", "\N{BROKEN BAR}").replace("*", "\N{ASTERISK OPERATOR}").replace("`", "'")


KIND = Kind(
    "webhook",
    "a message as Slack (and what is compatible) takes it",
    (SettingKey("url", "of the webhook", url, needed=True, secret=True),),
    send,
)

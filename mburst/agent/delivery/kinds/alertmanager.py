"""Delivery to Alertmanager, by its API v2."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from ....names import shown
from ....units import format_share
from ..digest import Digest, DigestEntry
from ..kind import Begin, Delivery, Kind, SettingKey
from ..post import post
from ..values import share, url


def send(digest: Digest, to: Delivery, begin: Begin) -> None:
    """Send an alert for each rack. Alertmanager identifies an alert by its labels, so that sending it again creates no
    second one. Therefore a missing answer counts as not delivered. Raises NotDelivered."""
    body = [alert(digest, entry, to.site) for entry in digest.entries if _is_worth(entry, to.settings["min-share"])]
    body += [trouble(digest, i, line) for i, line in enumerate(digest.troubles)]
    if body:
        post(to.settings["url"].rstrip("/") + "/api/v2/alerts", body, digest, to, None)


def _is_worth(entry: DigestEntry, least: float | None) -> bool:
    content = entry.summary
    return bool(content["bursts"] and content["share"] >= (least or 0.0)) or bool(content["queue_drops"])


def alert(digest: Digest, entry: DigestEntry, site: str) -> dict[str, Any]:
    """Returns the alert of a rack. It begins at the end of the report's period and lasts for another period."""
    content = entry.summary
    made = {
        "labels": {
            "alertname": "MburstReport",
            "rack": shown(content["rack"]),
            "report": digest.report,
            "severity": "warning" if content["queue_drops"] else "info",
        },
        "annotations": {
            "summary": f"Rack {shown(content['rack'])}: {format_share(content['share'])} of the time in bursts",
            "description": shown(content["verdict"]),
            "period": digest.period,
        },
        **_lasting(digest),
    }
    return {**made, "generatorURL": f"{site}/{quote(entry.page.name)}"} if site else made


def trouble(digest: Digest, number: int, line: str) -> dict[str, Any]:
    """Returns the alert for a delivery that failed."""
    return {
        "labels": {
            "alertname": "MburstDelivery",
            "report": digest.report,
            "number": str(number),
            "severity": "warning",
        },
        "annotations": {"summary": shown(line)},
        **_lasting(digest),
    }


def _lasting(digest: Digest) -> dict[str, str]:
    def stamp(ns: int) -> str:
        return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    return {"startsAt": stamp(digest.until_ns), "endsAt": stamp(2 * digest.until_ns - digest.since_ns)}


KIND = Kind(
    "alertmanager",
    "an alert for each rack that burst, or whose switch dropped packets, by API v2",
    (
        SettingKey("url", "of Alertmanager, without `/api/v2/alerts`", url, needed=True),
        SettingKey("min-share", "the least share of the time in bursts that makes an alert, such as `1%`", share),
    ),
    send,
)

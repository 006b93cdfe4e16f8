"""Delivery to Alertmanager, by its API v2."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from ....errors import UsageError
from ....names import shown
from ....units import format_share
from ..digest import Digest, DigestEntry
from ..kind import Begin, Delivery, Kind, SettingKey
from ..post import post
from ..values import share, url

PATH = "/api/v2/alerts"


def send(digest: Digest, to: Delivery, begin: Begin) -> None:
    """Send an alert for each rack. Alertmanager identifies an alert by its labels, so that sending it again creates no
    second one. Therefore a missing answer counts as not delivered. Raises NotDelivered."""
    body = [alert(digest, entry, to.site) for entry in _worth(digest, to)]
    body += [] if digest.entries else [no_report(digest)]
    body += [trouble(digest, i, line) for i, line in enumerate(digest.troubles)]
    if body:
        post(to.settings["url"], body, digest, to, None)


def needless(digest: Digest, to: Delivery) -> str:
    """Returns why there is no alert; '' if there is one."""
    if _worth(digest, to) or digest.troubles or not digest.entries:
        return ""
    least = to.settings["min-share"]
    return "no alert: no rack burst" + (f" for {format_share(least)} of the time" if least else "")


def _worth(digest: Digest, to: Delivery) -> list[DigestEntry]:
    """Returns the racks with an alert: also those of which it is not known whether they burst."""
    least = to.settings["min-share"] or 0.0
    return [
        entry
        for entry in digest.entries
        if entry.is_doubtful
        or (entry.summary["bursts"] and entry.summary["share"] >= least)
        or entry.summary["queue_drops"]
    ]


def alert(digest: Digest, entry: DigestEntry, site: str) -> dict[str, Any]:
    """Returns the alert of a rack. It begins at the end of the report's period and lasts for another period."""
    content, name = entry.summary, f"{entry.name[0].upper()}{entry.name[1:]}"
    figure = f"{format_share(content['share'])} of the time in bursts"
    made = {
        "labels": {
            "alertname": "MburstReport",
            "rack": shown(content["rack"]),
            "report": digest.report,
            "severity": "warning" if content["queue_drops"] or entry.is_doubtful else "info",
        },
        "annotations": {
            "summary": f"{name}: {entry.stated(figure)}",
            "description": shown(" ".join([content["verdict"], *(f"{doubt}." for doubt in entry.doubts)])),
            "period": digest.period,
        },
        **_lasting(digest),
    }
    return {**made, "generatorURL": f"{site}/{quote(entry.page.name)}"} if site else made


def no_report(digest: Digest) -> dict[str, Any]:
    """Returns the alert for a period without the report of any rack."""
    return {
        "labels": {"alertname": "MburstReport", "report": digest.report, "severity": "warning"},
        "annotations": {"summary": "No report", "description": digest.title, "period": digest.period},
        **_lasting(digest),
    }


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


def _base(name: str, value: Any) -> str:
    """Returns the URL with the path of the API."""
    parts = urlsplit(url(name, value))
    path = parts.path.rstrip("/")
    if re.search(r"/api/(v2|v\d+/alerts)$", path):  # a prefix of a proxy may end in /api/v1
        raise UsageError(f"{name} has the path of the API, which is added to it", "leave out /api/v2/alerts")
    return urlunsplit(parts._replace(path=path + PATH))


KIND = Kind(
    "alertmanager",
    "an alert for each rack that burst, whose switch dropped packets, or that was not recorded as before, by API v2",
    (
        SettingKey("url", "of Alertmanager, without `/api/v2/alerts`", _base, needed=True),
        SettingKey("min-share", "the least share of the time in bursts that makes an alert, such as `1%`", share),
    ),
    send,
    needless=needless,
)

"""[[deliver]] of mburst.toml: where reports go. Errors are reported without any value that may be secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parseaddr
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import UsageError
from ...units import parse_duration, parse_fraction
from ..checked import only, text, texts
from ..environment import Environment
from ..secrets import Secrets

KEYS = {
    "folder": ("path",),
    "smtp": ("host", "port", "security", "user", "password", "from", "to", "attach"),
    "webhook": ("url",),
    "alertmanager": ("url", "min-share"),
}
NEEDS = {"folder": ("path",), "smtp": ("host", "from", "to"), "webhook": ("url",), "alertmanager": ("url",)}
COMMON = ("name", "kind", "attempts", "wait", "timeout", "site", "when")
CHOICES = {"when": ("always", "bursts"), "security": ("starttls", "tls", "none")}
COUNTS = {"port": 65535, "attempts": 100, "attach": 1000}  # whole numbers, and the largest
SECRET = {"smtp": ("password",), "webhook": ("url",)}  # keys whose value is one, wherever it comes from


@dataclass(frozen=True)
class Delivery:
    """Where reports go. `settings` are the keys of its kind; `site` is where the output folder is published, or ''."""

    name: str
    kind: str
    attempts: int
    wait_ns: int
    timeout_ns: int
    site: str
    when: str
    settings: dict[str, Any] = field(repr=False)  # with secrets
    secrets: Secrets = field(default_factory=Secrets)


def delivery_of(path: Path, where: str, table: Mapping[str, Any], environment: Environment) -> Delivery:
    """One [[deliver]]. Raises UsageError."""
    kind = table.get("kind")
    if kind not in KEYS:
        raise UsageError(f"{path}: {where}: invalid kind {kind!r}", f"valid are {', '.join(KEYS)}")
    only(path, where, table, [*COMMON, *KEYS[kind]])
    for key in NEEDS[kind]:
        if key not in table:
            raise UsageError(f"{path}: {where} needs {key}")
    for key, valid in CHOICES.items():
        if table.get(key, valid[0]) not in valid:
            raise UsageError(f"{path}: {where}: {key} {table[key]!r}", f"valid are {', '.join(valid)}")
    for key, most in COUNTS.items():
        if key in table and (type(table[key]) is not int or not 0 <= table[key] <= most):
            raise UsageError(f"{path}: {where}: {key} must be a whole number from 0 to {most}")
    settings = {key: environment.filled(table[key], path, where, key) for key in KEYS[kind] if key in table}
    secret = environment.used | {str(settings[key]) for key in SECRET.get(kind, ()) if key in settings}
    try:
        if environment.fill or "${" not in str(settings):
            _check(kind, settings)
        site = _site(str(table.get("site", "")))
    except UsageError as error:
        raise UsageError(f"{path}: {where}: {error}", error.hint) from None
    return Delivery(table["name"], kind, max(1, table.get("attempts", 3)),
                    parse_duration(text(path, where, "wait", table.get("wait", "5s"))),
                    parse_duration(text(path, where, "timeout", table.get("timeout", "20s"))),
                    site, table.get("when", "always"), settings, Secrets(secret))


# --- what the kinds need; only keys are named -------------------------------------------------------------------------


def _check(kind: str, settings: dict[str, Any]) -> None:
    """Check settings of a kind, and put them into the form in which they are used. Raises UsageError."""
    if kind in ("webhook", "alertmanager"):
        settings["url"] = _url("url", str(settings["url"]))
    if "min-share" in settings:
        try:
            settings["min-share"] = parse_fraction(str(settings["min-share"]))
        except UsageError as error:
            raise UsageError("min-share must be a share of the time", error.hint) from None
    if kind == "folder":
        settings["path"] = text(Path(), "", "path", settings["path"])
    if kind == "smtp":
        _check_mail(settings)


def _check_mail(settings: dict[str, Any]) -> None:
    from .mail import require

    require()  # now, rather than when the first report is due
    host = settings["host"] = str(settings["host"]).strip()
    if not re.fullmatch(r"[A-Za-z0-9:._%-]+", host):
        raise UsageError("host must be a name or an IP address")
    for key in ("user", "password"):
        if key in settings:
            settings[key] = str(settings[key])
            if not settings[key].isprintable():
                raise UsageError(f"{key} has a control character", "does it end in a line break?")
    for key in ("from", "to"):
        for one in texts(Path(), "", key, settings[key]):
            _, address = parseaddr(one)
            if not one.isprintable() or not re.fullmatch(r"[^@\s<>,;:\"]+@[^@\s<>,;:\"]+", address):
                raise UsageError(f"invalid mail address in {key}", "examples: ops@example.net, Ops <ops@example.net>")
    if settings.get("security") == "none" and "user" in settings and not _is_here(host):
        raise UsageError('security = "none" would send the password in the clear', 'use "starttls" or "tls"')


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _site(site: str) -> str:
    return _url("site", site).rstrip("/") if site.strip() else ""


def _url(key: str, value: str) -> str:
    """An address of HTTP without blanks around it. Raises UsageError, which does not repeat it."""
    url, hint = value.strip(), "example: https://hooks.example.net/path"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UsageError(f"{key} is not a valid http or https URL: it has a blank or another character that must be "
                         "escaped", hint)
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"{key} is not a valid http or https URL", hint)
    if "@" in parts.netloc:
        raise UsageError(f"{key} has a user and password before the host, which are not sent", "leave them out")
    if parts.fragment:
        raise UsageError(f"{key} has a part after #, which is not sent", "leave it out")
    return url

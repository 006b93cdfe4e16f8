"""Delivery by mail (RFC 5321, 5322): text and HTML with the table and the picture inline, the pages attached."""

from __future__ import annotations

import hashlib
import re
import smtplib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from ipaddress import ip_address
from typing import Any, cast

from .... import extras, files
from ....errors import UsageError
from ..digest import Digest
from ..kind import Begin, Delivery, Kind, MaybeDelivered, NotDelivered, SettingKey
from ..picture import png
from ..values import choice, line, whole

PORTS = {"starttls": 587, "tls": 465, "none": 25}


def require() -> None:
    """Raise MburstError if the library that draws the picture is not installed."""
    import importlib.util

    if importlib.util.find_spec("PIL") is None:
        raise extras.lacking("mail needs", "Pillow", "mail")


def message(digest: Digest, to: Delivery) -> EmailMessage:
    """Returns the mail. The same delivery always has the same Message-ID, so that copies can be recognized."""
    require()
    made = EmailMessage(policy=SMTP)
    sender = to.settings["from"]
    made["Subject"] = digest.title
    made["From"] = sender
    made["To"] = ", ".join(to.settings["to"])
    made["Date"] = format_datetime(datetime.now(UTC))
    domain = parseaddr(sender)[1].rpartition("@")[2] or "mburst.invalid"
    digest_of = hashlib.blake2b(repr(digest.key(to.name)).encode(), digest_size=12).hexdigest()
    made["Message-ID"] = f"<mburst-{digest_of}@{Address(addr_spec=f'x@{domain}').domain}>"
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834
    made.set_content(digest.text(to.site))
    made.add_alternative(digest.html(to.site, "cid:picture@mburst"), subtype="html")
    html = cast("list[EmailMessage]", made.get_payload())[1]
    picture = png(*digest.grid())
    html.add_related(picture, "image", "png", cid="<picture@mburst>", disposition="inline", filename="bursts.png")
    recorded = [entry for entry in digest.entries if entry.summary["recorded"]]
    for entry in recorded[: to.settings["attach"]]:
        made.add_attachment(files.read_own(entry.page), "text", "html", filename=entry.page.name)
    return made


def send(digest: Digest, to: Delivery, begin: Begin) -> None:
    """Hand the mail to the server. Raises NotDelivered if the server did not accept it, MaybeDelivered if it may
    have."""
    mail = message(digest, to).as_bytes()
    try:
        server = _connect(to)
    except (OSError, smtplib.SMTPException) as error:
        raise NotDelivered(_reason(error)) from error
    handed_over = False
    try:
        code, answer = server.mail(parseaddr(to.settings["from"])[1])
        _expect(code, answer)
        for recipient in to.settings["to"]:
            code, answer = server.rcpt(parseaddr(recipient)[1])
            _expect(code, answer)
        begin()
        code, answer = server.docmd("DATA")
        if code != 354:
            raise smtplib.SMTPResponseException(code, answer)
        handed_over = True  # if the connection is lost from here on, the server may have the mail (RFC 5321, 4.5.4.2)
        server.send(_transparent(mail))
        code, answer = server.getreply()
        handed_over = code // 100 not in (4, 5)  # these refuse the mail; what is no answer does not
        _expect(code, answer)
    except (OSError, smtplib.SMTPException) as error:  # also SMTPResponseException
        raise (MaybeDelivered if handed_over else NotDelivered)(_reason(error)) from error
    finally:
        server.close()


def _transparent(mail: bytes) -> bytes:
    """Returns the text of a mail and its end, for DATA (RFC 5321, 4.5.2)."""
    return re.sub(rb"(?m)^\.", b"..", mail.removesuffix(b"\r\n")) + b"\r\n.\r\n"


def _connect(to: Delivery) -> smtplib.SMTP:
    security = to.settings["security"]
    host, port = to.settings["host"], to.settings["port"] or PORTS[security]
    timeout = to.timeout_ns / 1e9
    context = ssl.create_default_context()
    if security == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=timeout, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=timeout)
    try:
        if security == "starttls":
            server.starttls(context=context)
        server.ehlo_or_helo_if_needed()
        if to.settings["user"] is not None:
            server.login(to.settings["user"], to.settings["password"])
    except BaseException:
        server.close()
        raise
    return server


def _expect(code: int, answer: bytes) -> None:
    if code // 100 != 2:
        raise smtplib.SMTPResponseException(code, answer)


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
        if error.smtp_code < 0:
            return "the mail server sent what is no answer of SMTP"
        return f"the mail server answered {error.smtp_code} {' '.join(text.split())}"
    return str(getattr(error, "strerror", None) or error)


# --- settings ---------------------------------------------------------------------------------------------------------


def _host(name: str, value: Any) -> str:
    host = str(value).strip()
    if not re.fullmatch(r"[A-Za-z0-9:._%-]+", host):
        raise UsageError(f"{name} must be a name or an IP address")
    return host


def _address(name: str, value: Any) -> str:
    """Returns a mail address, with or without a display name."""
    _, address = parseaddr(str(value))
    if not str(value).isprintable() or not re.fullmatch(r"[^@\s<>,;:\"]+@[^@\s<>,;:\"]+", address):
        raise UsageError(f"invalid mail address in {name}", "examples: ops@example.net, Ops <ops@example.net>")
    return str(value)


def _addresses(name: str, value: Any) -> list[str]:
    """Returns a list of mail addresses; a single one becomes a list."""
    found = [_address(name, one) for one in (value if isinstance(value, list) else [value])]
    if not found:
        raise UsageError(f"{name} has no mail address")
    return found


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check(settings: Mapping[str, Any]) -> None:
    require()  # now, not only when the first report is due
    if settings["security"] == "none" and settings["user"] is not None and not _is_here(settings["host"]):
        raise UsageError('security = "none" would send the password in the clear', 'use "starttls" or "tls"')


KIND = Kind(
    "smtp",
    "a mail with a line a rack as text, an HTML table with a picture, and reports attached; needs the extra `mail`",
    (
        SettingKey("host", "of the mail server", _host, needed=True),
        SettingKey("port", "587 with `starttls`, 465 with `tls`, 25 with `none`", whole(65535), literal=True),
        SettingKey("security", "or `tls`, `none`", choice("starttls", "tls", "none"), "starttls", literal=True),
        SettingKey("user", "without one, nobody logs in", line),
        SettingKey("password", "of the user", line, "", secret=True),
        SettingKey("from", "the address of the sender", _address, needed=True),
        SettingKey("to", "an address, or a list of them", _addresses, needed=True),
        SettingKey("attach", "reports that are attached at most", whole(1000), 5, literal=True),
    ),
    send,
    _check,
)

"""Delivery by mail (RFC 5321, 5322): text and HTML with the table and the picture inline, the pages attached."""

from __future__ import annotations

import hashlib
import smtplib
import ssl
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr

from ... import files
from ...errors import MburstError
from .destinations import Delivery
from .digest import Digest
from .picture import png
from .send import Refused, Unsure

PORTS = {"starttls": 587, "tls": 465, "none": 25}
ATTACHED = 5  # reports, by default


def require() -> None:
    """Raises MburstError where the library that draws the picture is missing."""
    import importlib.util

    if importlib.util.find_spec("PIL") is None:
        raise MburstError("mail needs the extra `mail`: Pillow is not installed", "pip install 'mburst[mail]'")


def message(digest: Digest, to: Delivery) -> EmailMessage:
    """The mail. The same delivery always has the same Message-ID, so that a copy would be known as one."""
    require()
    made = EmailMessage(policy=SMTP)
    sender = to.settings["from"]
    made["Subject"] = digest.title
    made["From"] = sender
    made["To"] = ", ".join(_recipients(to))
    made["Date"] = format_datetime(datetime.now(UTC))
    domain = parseaddr(sender)[1].rpartition("@")[2] or "mburst.invalid"
    digest_of = hashlib.blake2b(repr(digest.key(to.name)).encode(), digest_size=12).hexdigest()
    made["Message-ID"] = f"<mburst-{digest_of}@{Address(addr_spec=f'x@{domain}').domain}>"
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834
    made.set_content(digest.text(to.site))
    made.add_alternative(digest.html(to.site, "cid:picture@mburst"), subtype="html")
    html = made.get_payload()[1]  # type: ignore[index]
    html.add_related(png(*digest.grid()), "image", "png", cid="<picture@mburst>", disposition="inline",  # type: ignore
                     filename="bursts.png")
    for entry in digest.entries[: to.settings.get("attach", ATTACHED)]:
        if entry.summary["recorded"]:
            made.add_attachment(files.read_own(entry.page), "text", "html", filename=entry.page.name)
    return made


def _recipients(to: Delivery) -> list[str]:
    recipients = to.settings["to"]
    return [str(one) for one in recipients] if isinstance(recipients, list) else [str(recipients)]


def send(digest: Digest, to: Delivery) -> None:
    """Hand the mail to the server. Raises Refused where it did not take it, Unsure where it may have."""
    mail = message(digest, to)
    try:
        server = _connect(to)
    except (OSError, smtplib.SMTPException) as error:
        raise Refused(_reason(error)) from error
    handed_over = False
    try:
        code, answer = server.mail(parseaddr(to.settings["from"])[1])
        _expect(code, answer)
        for recipient in _recipients(to):
            code, answer = server.rcpt(parseaddr(recipient)[1])
            _expect(code, answer)
        handed_over = True  # from here on, a lost connection leaves open who has the mail (RFC 5321, 4.5.4.2)
        code, answer = server.data(mail.as_bytes())
        _expect(code, answer)
    except smtplib.SMTPResponseException as error:
        raise Refused(_reason(error)) from error
    except (OSError, smtplib.SMTPException) as error:
        raise (Unsure if handed_over else Refused)(_reason(error)) from error
    finally:
        server.close()


def _connect(to: Delivery) -> smtplib.SMTP:
    security = to.settings.get("security", "starttls")
    host, port = to.settings["host"], to.settings.get("port", PORTS[security])
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
        if "user" in to.settings:
            server.login(to.settings["user"], to.settings.get("password", ""))
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
        return f"the mail server answered {error.smtp_code} {' '.join(text.split())}"
    return str(getattr(error, "strerror", None) or error)

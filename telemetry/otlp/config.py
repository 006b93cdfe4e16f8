"""The section `otlp:` in the file of `mburst collect`: where to listen, who may send, and what is accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...units import parse_rate, parse_size
from ..gnmi.gnmic_parts import File, GnmicPart, known, plain
from . import limits

DOOR = ("listen", "http", "tls-cert", "tls-key", "tls-client-ca", "token")  # an empty value would let everybody in
WORDS = (*DOOR, "insecure", "racks", "link", "tables", "message")
TOKEN = re.compile(r"[!-~]+")  # characters that a header can have
LARGEST = 64 << 20
LEAST = 1 << 16


@dataclass(frozen=True)
class OtlpConfig:
    """A receiver. Addresses have the form of `mburst switch-agent --listen`; '': not served."""

    listen: str = ""  # gRPC
    http: str = ""  # HTTP with protobuf
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    token: str = field(default="", repr=False)
    insecure: bool = False  # other hosts may send without TLS, or without a certificate or token
    racks: Mapping[str, str] = field(default_factory=dict)
    link_bps: int | None = None  # of ports that are not in the inventory
    tables: tuple[Path, ...] = ()
    message_bytes: int = limits.MESSAGE_BYTES


def receiver_of(file: File, value: Any) -> OtlpConfig | None:
    """Returns the receiver that the file asks for; None if it asks for none. Raises UsageError."""
    if value is None:
        return None
    part = known(file, value, "otlp", WORDS, {})
    made = OtlpConfig(
        listen=part.text("listen"),
        http=part.text("http"),
        tls_cert=part.name_of_file("tls-cert"),
        tls_key=part.name_of_file("tls-key"),
        tls_client_ca=part.name_of_file("tls-client-ca"),
        token=part.text("token", secret=True),
        insecure=part.flag("insecure"),
        racks={name: plain(file, rack, part.place("racks")) for name, rack in part.mapping("racks").items()},
        link_bps=_parsed(part, "link", parse_rate) if part.text("link") else None,
        tables=tuple(file.folder / name for name in part.texts("tables")),
        message_bytes=_size(part),
    )
    _check(part, made)
    return made


def _check(part: GnmicPart, made: OtlpConfig) -> None:
    """Raises UsageError for keys without a value, and for keys without the keys that they require."""
    fail = part.file.fail
    for word in DOOR:
        if word in part.given and not getattr(made, word.replace("-", "_")):
            raise fail(part.place(word), "is empty", f"leave {word} out where it is not wanted")
    if not made.listen and not made.http:
        raise fail("otlp", "nowhere to listen", "listen: 127.0.0.1:4317 (gRPC) or http: 127.0.0.1:4318")
    if bool(made.tls_cert) != bool(made.tls_key):
        raise fail("otlp", "tls-cert and tls-key go together")
    if made.tls_client_ca and not made.tls_cert:
        raise fail("otlp.tls-client-ca", "needs tls-cert and tls-key")
    if made.token and not TOKEN.fullmatch(made.token):
        raise fail("otlp.token", "no sender can send it", "letters, digits and signs of ASCII, without blanks")


def _parsed(part: GnmicPart, word: str, read: Callable[[str], int]) -> int:
    try:
        return read(part.text(word))
    except UsageError as error:
        raise part.file.fail(part.place(word), str(error), error.hint) from None


def _size(part: GnmicPart) -> int:
    text = part.text("message")
    size = _parsed(part, "message", parse_size) if text else limits.MESSAGE_BYTES
    if not LEAST <= size <= LARGEST:
        raise part.file.fail(part.place("message"), f"{text} is not between 64KiB and {LARGEST >> 20}MiB")
    return size

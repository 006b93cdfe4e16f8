"""Checked values of [[deliver]], for `SettingKey.read`. A UsageError names the key, and only values of literal keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ... import files
from ...errors import UsageError
from ...units import parse_duration, parse_fraction
from ..checked import plain_text


def text(name: str, value: Any) -> str:
    """Returns a text or number as text."""
    return plain_text(name, value)


def folder_path(name: str, value: Any) -> str:
    """Returns a folder of this machine."""
    found = plain_text(name, value)
    if not found:
        raise UsageError(f"{name} is empty")
    if files.is_address(found):
        raise UsageError(f"{name} is an address in place of a folder")
    return found


def line(name: str, value: Any) -> str:
    """Returns a text of printable characters."""
    content = str(value)
    if not content.isprintable():
        raise UsageError(f"{name} has a control character", "does it end in a line break?")
    return content


def share(name: str, value: Any) -> float:
    """Returns a share of the time, such as 0.01 or 1%."""
    try:
        return parse_fraction(str(value))
    except UsageError as error:
        raise UsageError(f"{name} must be a share of the time", error.hint) from None


def duration(name: str, value: Any) -> int:
    """Returns a duration in nanoseconds. Only for literal keys."""
    return parse_duration(plain_text(name, value))


def choice(*valid: str) -> Callable[[str, Any], str]:
    """Returns a reader that accepts one of VALID. Only for literal keys."""

    def read(name: str, value: Any) -> str:
        if value not in valid:
            raise UsageError(f"invalid {name} {value!r}", f"valid are {', '.join(valid)}")
        return str(value)

    return read


def whole(most: int) -> Callable[[str, Any], int]:
    """Returns a reader that accepts a whole number from 0 to MOST. Only for literal keys."""

    def read(name: str, value: Any) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise UsageError(f"{name} must be a whole number from 0 to {most}")
        return value

    return read


def site(name: str, value: Any) -> str:
    """Returns a URL without the slash at its end, or ''."""
    return url(name, value).rstrip("/") if str(value).strip() else ""


def url(name: str, value: Any) -> str:
    """Returns an HTTP URL without surrounding blanks."""
    address, hint = str(value).strip(), "example: https://hooks.example.net/path"
    if not address.isascii() or not address.isprintable() or " " in address or "\\" in address:
        raise UsageError(
            f"{name} is not a valid http or https URL: it has a blank or another character that must be escaped", hint
        )
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(f"{name} is not a valid http or https URL", hint)
    if "@" in parts.netloc:
        raise UsageError(f"{name} has a user and password before the host, which are not sent", "leave them out")
    if parts.fragment:
        raise UsageError(f"{name} has a part after #, which is not sent", "leave it out")
    return address

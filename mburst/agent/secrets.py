"""Secrets of a configuration: the one place that keeps them out of everything that is printed, logged or sent.

A secret is a value that was taken from the environment (`${NAME}`), or the value of a secret key. It is also hidden if
only a part of it appears (a segment of an address), or in another form (escaped, in base64, in capitals).
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "…"
SHORT = 4  # a shorter secret appears in any text by chance
_URL_SAFE = str.maketrans("+/", "-_")
_PARTS = re.compile(r"[/?&=;#@:]")


class Secrets:
    """Values that must not be printed or sent."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = frozenset(value for value in values if value.strip())
        spelled = {form for value in self.values for part in _parts(value.strip()) for form in _spelled(part)}
        self._short = {one.lower() for one in self.values if len(one.strip()) < SHORT}
        known = sorted((one for one in spelled if len(one) >= SHORT), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known)), re.IGNORECASE) if known else None

    def __repr__(self) -> str:
        return "Secrets(…)"  # neither values nor an address in memory, which differs between equal ones

    def __or__(self, other: Secrets) -> Secrets:
        return Secrets(self.values | other.values)

    def hide(self, text: str) -> str:
        """Returns TEXT without the secrets."""
        hidden = self._pattern.sub(HIDDEN, text) if self._pattern else text
        if any(one in hidden.lower() for one in self._short):
            return f"{HIDDEN} (not shown: it may contain a secret)"
        return hidden


def _parts(value: str) -> Iterator[str]:
    """Yields a value and, if it is an address, its parts that reveal more than the host."""
    yield value
    if not re.match(r"https?://", value, re.IGNORECASE):
        return
    host, _, beyond = value.partition("://")[2].partition("/")
    yield from (one for one in (beyond, *_PARTS.split(beyond)) if len(one) >= 2 * SHORT)
    yield from host.rpartition("@")[0].split(":")


def _spelled(text: str) -> set[str]:
    """Returns the forms in which a program may repeat a text."""
    encoded = text.encode(errors="surrogateescape")
    forms = {
        text,
        quote(text, safe=""),
        quote(text),
        quote_plus(text),
        unquote(text),
        html.escape(text),
        repr(text)[1:-1],
        _base64(encoded),
        _base64(encoded).translate(_URL_SAFE),
    }
    # Also as the end of SMTP's AUTH PLAIN, which is \0user\0password, at each of the three alignments of base64.
    return forms | {_base64(b"\0" * k + encoded)[4:-1] for k in (1, 2)}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode().rstrip("=")

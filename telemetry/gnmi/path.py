"""Paths of gNMI: their text form, their message, and which path lies under which.

A path is its origin and its steps; a step is a name and its keys, sorted. Text form as in the gNMI path conventions
(openconfig/reference, rpc/gnmi/gnmi-path-conventions.md): `origin:/a/b[key=value]`, where `\\` escapes `]`, `/` and
`\\`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...errors import UsageError
from ...units import SHOWN
from .limits import PATH_BYTES, STEPS, LimitExceeded

Keys = tuple[tuple[str, str], ...]
Step = tuple[str, Keys]
Steps = tuple[Step, ...]

SHOWN_PATH = 200  # characters of an invalid path that an error shows

_ORIGIN = re.compile(r"([A-Za-z_][\w.-]*):(?=/)")
_MODULE = re.compile(r"[A-Za-z_][\w.-]*:(?=.)")


@dataclass(frozen=True)
class PathName:
    """A path in text form."""

    origin: str
    steps: Steps


def parse(text: str) -> PathName:
    """Returns the path of TEXT. Raises UsageError."""
    match = _ORIGIN.match(text)
    rest = text[match.end() :] if match else text
    steps = tuple(_step(part, text) for part in _split(rest, text))
    return PathName(match[1] if match else "", steps)


def _split(text: str, whole: str) -> list[str]:
    """TEXT split at the slashes that are outside of brackets and not escaped."""
    parts, part, inside, escaped = [], "", False, False
    for letter in text:
        if escaped:
            part, escaped = part + letter, False
            continue
        if letter == "\\":
            escaped = True
        elif letter == "[":
            inside = True
        elif letter == "]":
            inside = False
        if letter == "/" and not inside:
            parts.append(part)
            part = ""
        else:
            part += letter
    if inside:
        raise UsageError(f"path {whole[:SHOWN_PATH]!r}: missing ] after [", "keys are written [name=value]")
    return [part for part in [*parts, part] if part]


_NAME = re.compile(r"((?:[^\\\[]|\\.)*)(.*)", re.DOTALL)
_KEY = re.compile(r"\[((?:[^\\=\]]|\\.)+)=((?:[^\\\]]|\\.)*)\]", re.DOTALL)


def _step(part: str, whole: str) -> Step:
    match = _NAME.fullmatch(part)
    name, rest = match.groups() if match else (part, "")
    keys, end = {}, 0
    while end < len(rest):
        match = _KEY.match(rest, end)
        if not match:
            raise UsageError(
                f"path {whole[:SHOWN_PATH]!r}: invalid key {rest[end:][:SHOWN]!r}", "keys are written [name=value]"
            )
        keys[_plain(match[1]).strip()] = _plain(match[2]).strip("'\"")
        end = match.end()
    if not name:
        raise UsageError(f"path {whole[:SHOWN_PATH]!r}: keys without a name", "example: /a/b[name=value]")
    return _plain(name), tuple(sorted(keys.items()))


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def as_text(steps: Iterable[Step], origin: str = "") -> str:
    """The text form; the same steps always give the same text."""
    parts = []
    for name, keys in steps:
        part = re.sub(r"([\\/\[])", r"\\\1", name)
        for key, value in keys:
            part += (
                "[" + re.sub(r"([\\=\]])", r"\\\1", key) + "=" + value.replace("\\", "\\\\").replace("]", "\\]") + "]"
            )
        parts.append(part)
    return (f"{origin}:" if origin else "") + "/" + "/".join(parts)


def steps_of(message: Any) -> Steps:
    """Returns the steps of a Path message; those of `element`, which old targets send, if there is no `elem`. Raises
    UsageError for an invalid element."""
    if message.elem:
        return tuple((elem.name, tuple(sorted(elem.key.items()))) for elem in message.elem)
    return tuple(_step(element, element) if "[" in element else (element, ()) for element in message.element if element)


class NoPath(ValueError):
    """Bytes from a device that are not a Path message; the message of the error states why, without the bytes."""


def steps_in(serialized: bytes) -> Steps:
    """Returns the steps of a serialized Path message. Raises NoPath, LimitExceeded."""
    from google.protobuf.message import DecodeError

    from .messages import Path

    if not serialized:
        return ()
    if len(serialized) > PATH_BYTES:
        raise LimitExceeded(f"a path of more than {PATH_BYTES:,} bytes")
    try:
        steps = steps_of(Path.FromString(serialized))
    except DecodeError:
        raise NoPath("a path that is no Path message") from None
    except UsageError:
        raise NoPath("a path whose elements cannot be read") from None
    if len(steps) > STEPS:
        raise LimitExceeded(f"a path of more than {STEPS} steps")
    return steps


def as_message(name: PathName) -> Any:
    """The Path message of a path."""
    from .messages import Path, PathElem

    return Path(origin=name.origin, elem=[PathElem(name=step, key=dict(keys)) for step, keys in name.steps])


def without_module(name: str) -> str:
    """A name without the YANG module before it (RFC 7951 section 4)."""
    return _plain_name(name) if ":" in name else name


@lru_cache(1024)
def _plain_name(name: str) -> str:
    return _MODULE.sub("", name, count=1)


def without_modules(steps: Steps) -> Steps:
    """Steps without the modules before their names and keys; STEPS itself if there are none."""
    plain = tuple(
        (without_module(name), tuple(sorted((without_module(key), value) for key, value in keys)))
        for name, keys in steps
    )
    return steps if plain == steps else plain


def covers(above: Steps, below: Steps) -> bool:
    """Whether BELOW is ABOVE or lies under it. Keys that ABOVE omits, and `*`, stand for any value."""
    if len(above) > len(below):
        return False
    for (name, keys), (other, others) in zip(above, below, strict=False):
        if name not in (other, "*") and without_module(name) != without_module(other):
            return False
        have = dict(others)
        if any(value not in ("*", have.get(key)) for key, value in keys):
            return False
    return True

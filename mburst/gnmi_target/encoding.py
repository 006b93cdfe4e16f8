"""Converts values and paths of this machine to gNMI messages, in each encoding (gNMI specification 2.3; RFC 7951)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from ..telemetry.gnmi import messages
from ..telemetry.gnmi.path import PathName, Steps, as_message
from .schema import LeafModel, modules
from .tree import ServedLeaf, Value

ENCODINGS = ("PROTO", "JSON_IETF", "JSON")
LARGEST_NOTIFICATION = 1000  # updates; gRPC clients accept 4 MB per message by default
_PATHS = 1 << 14  # most paths that are kept as messages


@lru_cache(_PATHS)
def path(steps: Steps) -> Any:
    """Returns the Path message of steps."""
    return as_message(PathName("", steps))


def typed(value: Value, kind: LeafModel, encoding: str) -> Any:
    """Returns the TypedValue of a leaf's value."""
    if encoding == "PROTO":
        return messages.TypedValue(uint_val=value) if isinstance(value, int) else messages.TypedValue(string_val=value)
    return _json(_scalar(value, kind, encoding), encoding)


def notification(ts_ns: int, updates: list[Any], target: str, deletes: Iterable[Steps] = ()) -> Any:
    """Returns a Notification of updates that were read at the same time, with the target that the client named (gNMI
    specification 2.2.2.1)."""
    made = messages.Notification(timestamp=ts_ns, update=updates, delete=[path(steps) for steps in deletes])
    if target:
        made.prefix.target = target
    return made


def notifications(ts_ns: int, updates: list[Any], target: str) -> Iterator[Any]:
    """Yields Notifications of updates, each small enough for a message of a stream."""
    for first in range(0, len(updates), LARGEST_NOTIFICATION):
        yield notification(ts_ns, updates[first : first + LARGEST_NOTIFICATION], target)


def subtree(node: Steps, found: list[tuple[ServedLeaf, Value]], encoding: str) -> Any:
    """Returns the TypedValue, in JSON, of everything at or below a node: the value of a leaf, or an object. A list
    becomes an array of objects with their keys among the members."""
    leaf, value = found[0]
    if leaf.steps == node:
        return typed(value, leaf.kind, encoding)
    is_ietf = encoding == "JSON_IETF"
    top = _keys(node, is_ietf)
    places: dict[Steps, Any] = {node: top}
    for leaf, value in found:
        names = _names(leaf.steps, len(node)) if is_ietf else [name for name, _ in leaf.steps]
        place = top
        for depth in range(len(node), len(leaf.steps) - 1):
            place = _below(places, place, leaf.steps[: depth + 1], names[depth])
        place[names[-1]] = _scalar(value, leaf.kind, encoding)
    return _json(top, encoding)


def _below(places: dict[Steps, Any], place: dict[str, Any], steps: Steps, name: str) -> dict[str, Any]:
    """Returns the object of a container or list entry in PLACE, and creates it if necessary."""
    if steps not in places:
        keys = steps[-1][1]
        places[steps] = made = dict(keys)
        if keys:
            place.setdefault(name, []).append(made)
        else:
            place[name] = made
    return places[steps]  # type: ignore[no-any-return]


def _names(steps: Steps, top: int) -> list[str]:
    """Returns the names of steps as members of JSON_IETF below the step TOP. A name has its module at the top, and
    where the module differs from the one above (RFC 7951 section 4)."""
    of = modules(steps)
    return [
        f"{of[place]}:{name}" if place == top or (place and of[place] != of[place - 1]) else name
        for place, (name, _) in enumerate(steps)
    ]


def _keys(node: Steps, is_ietf: bool) -> dict[str, Any]:
    """Returns the members for the keys of a list entry that is the top."""
    keys = node[-1][1] if node else ()
    return {f"{modules(node)[-1]}:{key}" if is_ietf else key: value for key, value in keys}


def _scalar(value: Value, kind: LeafModel, encoding: str) -> Any:
    return str(value) if encoding == "JSON_IETF" and kind.wide else value


def _json(value: Any, encoding: str) -> Any:
    text = json.dumps(value).encode()
    return messages.TypedValue(json_val=text) if encoding == "JSON" else messages.TypedValue(json_ietf_val=text)

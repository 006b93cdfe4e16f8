"""Requests of clients: SubscriptionLists and GetRequests, validated and limited. All functions raise RequestRefused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..telemetry.gnmi import messages
from ..units import NS_PER_S, format_duration
from .encoding import ENCODINGS
from .schema import MODELS, RequestRefused, checked_path
from .tree import LeafSelection

LEAST_INTERVAL_NS = 10_000_000  # shortest interval of samples
LEAST_HEARTBEAT_NS = 100_000_000
TARGET_DEFINED_NS = NS_PER_S
MOST_PATHS = 128  # in one request
LONGEST_TARGET = 256


@dataclass(frozen=True)
class SubscribedPath:
    """A path of a subscription."""

    selected: LeafSelection
    mode: str = "TARGET_DEFINED"
    interval_ns: int = TARGET_DEFINED_NS
    heartbeat_ns: int = 0  # 0: none
    suppress: bool = False


@dataclass(frozen=True)
class SubscriptionList:
    """A SubscriptionList."""

    mode: str
    encoding: str
    target: str
    updates_only: bool
    wanted: tuple[SubscribedPath, ...]


@dataclass(frozen=True)
class GetRequest:
    """A GetRequest."""

    type: str
    encoding: str
    target: str
    paths: tuple[LeafSelection, ...]


def parsed(kind: Any, data: bytes) -> Any:
    """Returns DATA as a message of a kind."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError:
        raise RequestRefused(f"the message is not a {kind.DESCRIPTOR.name}") from None


def subscription(request: Any) -> SubscriptionList:
    """Returns the validated content of a SubscriptionList."""
    mode = _name_of(messages.LIST_MODES, request.mode, "mode")
    models = _models(request.use_models)
    _check_count(request.subscription, "subscribe to")
    wanted = [_wanted(request.prefix, part, models, mode) for part in request.subscription]
    encoding = _encoding(request.encoding)
    return SubscriptionList(mode, encoding, _target(request.prefix), request.updates_only, tuple(wanted))


def snapshot(request: Any) -> GetRequest:
    """Returns the validated content of a GetRequest."""
    type_ = _name_of(messages.DATA_TYPES, request.type, "type")
    models = _models(request.use_models)
    _check_count(request.path, "get")
    paths = [LeafSelection(checked_path(request.prefix, path), models) for path in request.path]
    return GetRequest(type_, _encoding(request.encoding), _target(request.prefix), tuple(paths))


def _wanted(prefix: Any, part: Any, models: tuple[str, ...], list_mode: str) -> SubscribedPath:
    selected = LeafSelection(checked_path(prefix, part.path), models)
    mode = _name_of(messages.STREAM_MODES, part.mode, "stream mode")
    if list_mode != "STREAM":
        return SubscribedPath(selected)
    if mode == "SAMPLE" and 0 < part.sample_interval < LEAST_INTERVAL_NS:
        raise RequestRefused(
            f"a sample interval of {format_duration(part.sample_interval)} is not supported: "
            f"{format_duration(LEAST_INTERVAL_NS)} is the shortest"
        )
    if 0 < part.heartbeat_interval < LEAST_HEARTBEAT_NS:
        raise RequestRefused(
            f"a heartbeat interval of {format_duration(part.heartbeat_interval)} is not supported: "
            f"{format_duration(LEAST_HEARTBEAT_NS)} is the shortest"
        )
    interval_ns = part.sample_interval or LEAST_INTERVAL_NS if mode == "SAMPLE" else TARGET_DEFINED_NS
    return SubscribedPath(selected, mode, interval_ns, part.heartbeat_interval, part.suppress_redundant)


def _check_count(paths: Any, what: str) -> None:
    if not paths:
        raise RequestRefused(f"there is no path to {what}")
    if len(paths) > MOST_PATHS:
        raise RequestRefused(
            f"{len(paths)} paths in one request are too many: {MOST_PATHS} is the most", "RESOURCE_EXHAUSTED"
        )


def _encoding(number: int) -> str:
    name = messages.ENCODINGS[number] if number < len(messages.ENCODINGS) else str(number)
    if name not in ENCODINGS:
        raise RequestRefused(f"the encoding {name} is not supported: use {', '.join(ENCODINGS)}", "UNIMPLEMENTED")
    return name


def _name_of(names: tuple[str, ...], number: int, what: str) -> str:
    if number >= len(names) or number < 0:
        raise RequestRefused(f"the {what} {number} is unknown: gNMI has {', '.join(names)}")
    return names[number]


def _models(given: Iterable[Any]) -> tuple[str, ...]:
    """Returns the models to which a request is restricted."""
    names = tuple(model.name for model in given)
    for name in names:
        if name not in MODELS:
            raise RequestRefused(f"the model {name!r} is not supported: this agent has {', '.join(MODELS)}")
    return names


def _target(prefix: Any) -> str:
    if len(prefix.target) > LONGEST_TARGET:
        raise RequestRefused(f"a target of {len(prefix.target)} characters is too long: {LONGEST_TARGET} is the most")
    return str(prefix.target)

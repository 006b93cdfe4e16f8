"""gnmic's subscriptions: those that the file names, and the one that its options of `subscribe` describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import UsageError
from ...units import format_duration, whole
from . import gnmic_words as words
from .config import Item, Subscription
from .gnmic_parts import File, GnmicPart, known, mapping

_MODES = {"stream": "STREAM", "once": "ONCE", "poll": "POLL"}
_STREAM_MODES = {"target-defined": "TARGET_DEFINED", "on-change": "ON_CHANGE", "sample": "SAMPLE"}
FROM_OPTIONS = "default"  # the name of the subscription of `subscribe-path`


def subscriptions_of(file: File, content: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Subscription]:
    """Returns all subscriptions by name. CONTENT is that of the key `subscriptions`; OPTIONS are the values of gnmic's
    subscribe-… at the top of the file, by the keys of a subscription. Raises UsageError."""
    if options.get("paths"):
        if content:
            file.warn("subscriptions", "not used, since subscribe-path replaces them, as in gnmic")
        content = {FROM_OPTIONS: dict(options)}
    inherited = {word: options[word] for word in words.INHERITED if word in options}
    found = {
        str(name): _subscription(file, str(name), entry, inherited)
        for name, entry in mapping(file, content, "subscriptions").items()
    }
    if not found:
        raise file.fail("subscriptions", "there are none", "see examples/gnmi.yaml")
    return found


def _subscription(file: File, name: str, entry: Any, inherited: Mapping[str, Any]) -> Subscription:
    where = f"subscriptions.{name}"
    part = known(file, entry, where, words.SUBSCRIPTION, words.SUBSCRIPTION_UNUSED).over(inherited)
    _refuse_history(part)
    mode = part.choice("mode", _MODES, "stream")
    items = [*_items(part), *_stream_subscriptions(part)]
    if not items:
        raise file.fail(where, "there are no paths", "write what is in prefix as a path" if part.text("prefix") else "")
    made = Subscription(
        name=name,
        items=tuple(items),
        mode=mode,
        prefix=part.path("prefix"),
        target=part.text("target"),
        set_target=part.flag("set-target"),
        encoding=part.encoding(),
        qos=_dscp(part),
        updates_only=part.flag("updates-only"),
        models=tuple(part.texts("models")),
    )
    if mode == "POLL":
        every = format_duration(made.interval_ns)
        file.warn(f"{where}.mode", f"poll: asked every {every} (sample-interval), since there is no prompt here")
    return made


def _refuse_history(part: GnmicPart) -> None:
    given = part.given.get("history")
    if any(given.values()) if isinstance(given, dict) else given:
        raise part.file.fail(part.place("history"), "mburst reads current values only", "leave it out")


def _stream_subscriptions(part: GnmicPart) -> list[Item]:
    """The items of `stream-subscriptions`, with missing values taken from the subscription."""
    given = part.given.get("stream-subscriptions") or []
    if not isinstance(given, list):
        raise part.file.fail(part.place("stream-subscriptions"), "must be a list")
    shared = {word: part.given[word] for word in words.STREAM if word in part.given and word not in ("paths", "path")}
    found = []
    for index, below in enumerate(given):
        where = f"{part.place('stream-subscriptions')}[{index}]"
        inner = known(part.file, below, where, words.STREAM, {})
        found += _items(inner.over(shared))
    return found


def _items(part: GnmicPart) -> list[Item]:
    mode = part.choice("stream-mode", _STREAM_MODES, "target-defined")
    sample_ns, heartbeat_ns = part.duration("sample-interval"), part.duration("heartbeat-interval")
    sample_ns = 0 if mode == "ON_CHANGE" else sample_ns  # gnmic does not send it either
    suppress = part.flag("suppress-redundant")
    return [Item(path, mode, sample_ns, heartbeat_ns, suppress) for path in part.paths("paths", "path")]


def _dscp(part: GnmicPart) -> int | None:
    text = part.text("qos")
    if not text:
        return None
    if (dscp := whole(text, most=63)) is None:
        raise part.file.fail(part.where, f"invalid qos {text!r}: not a DSCP", "write 0 to 63, or leave it out")
    return dscp


def chosen(
    file: File, names: list[str], subscriptions: Mapping[str, Subscription], where: str
) -> tuple[Subscription, ...]:
    """The subscriptions of these names; all if there are no names. Raises UsageError."""
    for name in names:
        if name not in subscriptions:
            raise _no_subscription(file, name, subscriptions, where)
    return tuple(subscriptions[name] for name in dict.fromkeys(names or subscriptions))


def _no_subscription(file: File, name: str, subscriptions: Mapping[str, Subscription], where: str) -> UsageError:
    return file.fail(where, f"unknown subscription {name!r}", f"there are {', '.join(subscriptions)}")

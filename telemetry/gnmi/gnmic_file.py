"""gnmic's configuration file → what to collect.

Names and meanings are those of gnmic (its user guide: configuration file, targets, subscriptions), so that a file that
works there works here; additions of mburst are under `mburst:`. Keys of gnmic that mburst does not use are warnings.
Anything that would omit or change rows is an error: an unknown key of targets and subscriptions, a subscription to the
past.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from ... import extras
from ...errors import UsageError
from ...units import parse_rate, parse_size, whole
from ..otlp.config import receiver_of
from . import gnmic_words as words
from . import limits
from .config import DEFAULT_PORT, CollectConfig, Link
from .gnmic_content import content_of
from .gnmic_parts import File, GnmicPart, known, plain
from .gnmic_subscriptions import subscriptions_of
from .gnmic_targets import TargetDefaults, targets_of

MBURST = ("racks", "vendors", "links", "tables", "buffer", "message", "paths")
LARGEST = {"buffer": 1 << 40, "message": 512 << 20}
LEAST = 1 << 16  # of buffer and message
MOST_PATHS = 10_000_000
_OF_TARGETS = (
    "targets",
    "address",
    "targets-file",
    "loader",
    "subscriptions",
)  # which a file with `otlp:` need not have
LINK = ("device", "port", "queue", "host", "interface", "rack", "link")


def load(path: str, environment: Mapping[str, str] | None = None) -> CollectConfig:
    """Returns the configuration in a file: YAML, JSON or TOML. Raises with the place in the file."""
    try:
        import yaml  # noqa: F401
    except ModuleNotFoundError:
        raise extras.lacking("collecting needs", "PyYAML", "gnmi") from None
    content = content_of(path)
    if not isinstance(content, dict):
        raise UsageError(
            f"{path}: no configuration", "it needs `targets:` and `subscriptions:`; see examples/gnmi.yaml"
        )
    return _config(File(path, os.environ if environment is None else environment), content)


def _config(file: File, content: Mapping[str, Any]) -> CollectConfig:
    top, options, names = _top(file, content)
    own = known(file, top.given.get("mburst"), "mburst", MBURST, {})
    otlp = receiver_of(file, top.given.get("otlp"))
    has_targets = otlp is None or any(top.given.get(word) for word in _OF_TARGETS)
    subscriptions = subscriptions_of(file, top.mapping("subscriptions"), options) if has_targets else {}
    around = TargetDefaults(
        file,
        shared={word: top.given[word] for word in words.SHARED if word in top.given},
        port=_port(top),
        subscriptions=subscriptions,
        names=tuple(names),
        racks=_by_target(own, "racks"),
        vendors=_by_target(own, "vendors"),
    )
    message, paths = _size(own, "message", _max_msg_size(top)), _paths(own)
    found = targets_of(around, top) if has_targets else ()
    targets = tuple(replace(target, message_bytes=message, most_paths=paths) for target in found)
    _check_names(file, around, [target.name for target in targets])
    return CollectConfig(
        targets,
        links=_links(own, around.racks),
        tables=tuple(file.folder / name for name in own.texts("tables")),
        otlp=otlp,
        buffer_bytes=_size(own, "buffer", 256 << 20),
        warnings=file.all_warnings(),
    )


def _top(file: File, content: Mapping[str, Any]) -> tuple[GnmicPart, dict[str, Any], list[str]]:
    """The top-level keys that are used, the options of a subscription, and the names of subscriptions for all
    targets."""
    given: dict[str, Any] = {}
    options: dict[str, Any] = {}
    names: list[str] = []
    for key, value in content.items():
        word = key.lower()
        if word in words.TOP:
            given[word] = value
        elif word in words.SUBSCRIBE:
            options[words.SUBSCRIBE[word]] = value
        elif word == words.CHOSEN:
            names = GnmicPart(file, "", {word: value}).texts(word)
        elif words.is_unused_at_top(word):
            file.unused("", word, words.TOP_UNUSED.get(word, ""))
        else:
            _unknown(file, key)
    for word in words.GLOBALS:  # which take precedence over the file, as in gnmic
        if value := file.environment.get(f"GNMIC_{word.upper().replace('-', '_')}"):
            given[word] = value
    return GnmicPart(file, "", given), options, names


def _unknown(file: File, key: str) -> None:
    """Refuse a key that is probably a mistyped one that matters; report that any other is not used."""
    if near := get_close_matches(key.lower().replace("_", "-"), [*words.TOP, *words.SUBSCRIBE], n=1, cutoff=0.8):
        raise file.fail(key, "unknown key", f"did you mean {near[0]!r}?")
    file.unused("", key, "unknown key")


def _port(top: GnmicPart) -> str:
    text = top.text("port", str(DEFAULT_PORT))
    if whole(text, 1, 65535) is None:
        raise top.file.fail("port", f"invalid port {text!r}", "valid ports: 1 to 65535")
    return text


def _by_target(own: GnmicPart, word: str) -> dict[str, str]:
    return {name: plain(own.file, value, own.place(word)) for name, value in own.mapping(word).items()}


def _check_names(file: File, around: TargetDefaults, names: list[str]) -> None:
    for word, given in (("racks", around.racks), ("vendors", around.vendors)):
        for name in given:
            if name not in names:
                raise file.fail(f"mburst.{word}", f"unknown target {name}", f"there are {', '.join(names)}")


def _size(own: GnmicPart, word: str, default: int) -> int:
    """The size in bytes under one of mburst's own words."""
    text = own.text(word)
    try:
        size = parse_size(text) if text else default
    except UsageError as error:
        raise own.file.fail(f"mburst.{word}", str(error), error.hint) from None
    if not LEAST <= size <= LARGEST[word]:
        raise own.file.fail(f"mburst.{word}", f"{text} is not between 64KiB and {LARGEST[word] >> 20}MiB")
    return size


def _max_msg_size(top: GnmicPart) -> int:
    """The largest message by gnmic's own key, in bytes; reported if mburst uses another size."""
    text = top.text("max-msg-size")
    if not text:
        return limits.MESSAGE_BYTES
    if (given := whole(text, 1)) is None:
        raise top.file.fail("max-msg-size", f"{text!r} is not a number of bytes")
    size = min(max(given, LEAST), LARGEST["message"])
    if size != given:
        top.file.warn("max-msg-size", f"{text} is not between 64KiB and 512MiB: taken as {size}")
    return size


def _paths(own: GnmicPart) -> int:
    text = own.text("paths", str(limits.PATHS))
    if (paths := whole(text, 1, MOST_PATHS)) is None:
        raise own.file.fail("mburst.paths", f"{text!r} is not a whole number from 1 to {MOST_PATHS:,}")
    return paths


def _links(own: GnmicPart, racks: Mapping[str, str]) -> tuple[Link, ...]:
    given = own.given.get("links") or []
    if not isinstance(given, list):
        raise own.file.fail("mburst.links", "must be a list")
    return tuple(_link(own.file, entry, f"mburst.links[{index}]", racks) for index, entry in enumerate(given))


def _link(file: File, entry: Any, where: str, racks: Mapping[str, str]) -> Link:
    part = known(file, entry, where, LINK, {})
    if lacking := [word for word in ("device", "port", "host") if not part.text(word)]:
        raise file.fail(where, f"{lacking[0]} is missing")
    try:
        speed = parse_rate(part.text("link")) if part.text("link") else None
    except UsageError as error:
        raise file.fail(where, str(error), error.hint) from None
    device = part.text("device")
    return Link(
        device,
        part.text("port"),
        part.text("host"),
        part.text("interface"),
        part.text("queue"),
        part.text("rack", racks.get(device, "unknown")),
        speed,
    )

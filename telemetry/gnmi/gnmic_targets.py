"""gnmic's targets: those of `targets`, those of the global `address`, and those of a file that a loader reads."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from ...errors import UsageError
from . import gnmic_words as words
from .config import GnmiTarget, Subscription
from .gnmic_content import content_of
from .gnmic_parts import File, GnmicPart, known, mapping
from .gnmic_subscriptions import FROM_OPTIONS, chosen

_HOST = re.compile(r"(?P<host>\[[^\]\s]+\]|[^:/\s\[\]]+)(?::(?P<port>\d+))?")
DEFAULT_S = {"timeout": 10.0, "retry": 60.0}


@dataclass(frozen=True)
class TargetDefaults:
    """Values of the rest of the file for all targets."""

    file: File
    shared: Mapping[str, Any]  # the globals
    port: str
    subscriptions: Mapping[str, Subscription]
    names: tuple[str, ...]  # of subscriptions for all targets (subscribe-name); (): those of each target
    racks: Mapping[str, str]
    vendors: Mapping[str, str]


def targets_of(around: TargetDefaults, top: GnmicPart) -> tuple[GnmiTarget, ...]:
    """Returns all targets of the file. Raises UsageError if there are none."""
    file = around.file
    found = [_target(around, where, name, entry) for where, name, entry in _entries(file, top)]
    if not found:
        raise _none(file, top)
    names = [target.name for target in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise file.fail("targets", f"duplicate name {twice}")
    return tuple(found)


def _entries(file: File, top: GnmicPart) -> Iterator[tuple[str, str, Any]]:
    """(place, name, entry) of each target."""
    addresses = [text.strip() for listed in top.texts("address") for text in listed.split(",") if text.strip()]
    given = top.given.get("targets")
    if addresses:
        if given:
            file.warn("targets", "not used, since the global address replaces them, as in gnmic")
        for address in dict.fromkeys(addresses):
            yield "address", address, {}
    elif isinstance(given, str):
        for name in file.expanded(given, "targets").split():
            yield f"targets.{name}", name, {}
    else:
        for name, entry in mapping(file, given, "targets").items():
            yield f"targets.{name}", file.expanded(name, "targets"), entry
    path = _file_of_targets(file, top)
    if path:
        for name, entry in _loaded(file, path).items():
            yield f"targets.{name} of {path}", file.expanded(name, path), entry


def _file_of_targets(file: File, top: GnmicPart) -> str:
    """The file from which gnmic would read more targets; '' if there is none."""
    name = top.name_of_file("targets-file")
    given = top.given.get("loader")
    if not name and given:
        loader = known(file, given, "loader", words.LOADER, words.LOADER_UNUSED, _of_another_loader(given))
        kind = loader.text("type")
        if kind != "file":
            file.warn(
                "loader",
                f"not used by mburst: targets that type {kind or 'unknown'} finds are not collected "
                "(mburst reads type: file)",
            )
            return ""
        name = loader.name_of_file("path")
        if not name:
            raise file.fail("loader", "path is missing", "name the file of the targets")
    if "://" in (top.text("targets-file") or str(given)) and name:
        file.warn("loader", "not used by mburst: a file at another host; targets in it are not collected")
        return ""
    if name:
        file.warn("loader", f"{name} is read once; start mburst again when it changes")
    return name


def _of_another_loader(given: Any) -> Any:
    """The keys that a loader may have: any, if it is one that is not read."""
    ours = isinstance(given, dict) and given.get("type") == "file"
    return None if ours else lambda word: True


def _loaded(file: File, path: str) -> dict[str, Any]:
    content = content_of(path)
    if content is not None and not isinstance(content, dict):
        raise UsageError(f"{path}: must be a mapping of targets", "as under `targets:`")
    return content or {}


def _none(file: File, top: GnmicPart) -> UsageError:
    hint = "name them under targets: or address:; see examples/gnmi.yaml"
    if top.given.get("loader"):
        hint = "mburst reads a loader of type: file; name targets in such a file, or under targets:"
    return file.fail("targets", "there are none", hint)


def _target(around: TargetDefaults, where: str, name: str, entry: Any) -> GnmiTarget:
    file = around.file
    part = known(file, entry, where, words.TARGET, words.TARGET_UNUSED, words.is_unused_of_target).over(around.shared)
    if bool(part.text("tls-cert")) != bool(part.text("tls-key")):
        raise file.fail(where, "tls-cert and tls-key go together")
    label, insecure = part.text("name", name), part.flag("insecure")
    first, *others = _addresses(part, name, around.port)
    if insecure and (part.text("username") or part.text("token", secret=True)):
        file.warn(where, "user and password go over the network in the clear")
    return GnmiTarget(
        name=label,
        address=first,
        other_addresses=tuple(others),
        subscriptions=_subscriptions(around, part),
        username=part.text("username"),
        password=part.text("password", secret=True),
        token=part.text("token", secret=True),
        metadata=_metadata(part),
        insecure=insecure,
        skip_verify=part.flag("skip-verify") and not insecure,
        tls_ca=part.name_of_file("tls-ca"),
        tls_cert=part.name_of_file("tls-cert"),
        tls_key=part.name_of_file("tls-key"),
        tls_server_name=part.text("tls-server-name"),
        timeout_s=part.duration("timeout") / 1e9 or DEFAULT_S["timeout"],
        retry_s=part.duration("retry-timer" if "retry-timer" in part.given else "retry") / 1e9 or DEFAULT_S["retry"],
        gzip=part.flag("gzip"),
        encoding=part.encoding(),
        keepalive_s=_keepalive_s(part),
        rack=around.racks.get(label, "unknown"),
        vendor=around.vendors.get(label, ""),
    )


def _subscriptions(around: TargetDefaults, part: GnmicPart) -> tuple[Subscription, ...]:
    names = list(around.names) or part.texts("subscriptions")
    if list(around.subscriptions) == [FROM_OPTIONS] and FROM_OPTIONS not in names:
        names = []
    return chosen(around.file, names, around.subscriptions, part.where)


def _metadata(part: GnmicPart) -> tuple[tuple[str, str], ...]:
    """The metadata of each call. With an auth-scheme, user and password are also in an HTTP header."""
    given = part.mapping("metadata")
    inner = GnmicPart(part.file, part.place("metadata"), given)
    found = [(name.lower(), inner.text(name)) for name in given]
    if scheme := part.text("auth-scheme"):
        pair = f"{part.text('username')}:{part.text('password', secret=True)}"
        found.append(("authorization", f"{scheme} {base64.b64encode(pair.encode()).decode()}"))
    return tuple(found)


def _keepalive_s(part: GnmicPart) -> float:
    place = part.place("grpc-keepalive")
    return known(part.file, part.given.get("grpc-keepalive"), place, words.KEEPALIVE, {}).duration("time") / 1e9


def _addresses(part: GnmicPart, name: str, port: str) -> list[str]:
    """host:port of each address of a target; gnmic uses the one that answers."""
    text = part.text("address", name)
    if text.startswith("unix:"):
        return [text]
    found = [_address(part, one.strip(), port) for one in text.split(",") if one.strip()]
    if not found:
        raise part.file.fail(part.where, f"invalid address {text!r}", "write host:port")
    return list(dict.fromkeys(found))


def _address(part: GnmicPart, text: str, port: str) -> str:
    plain = text.removeprefix("tcp://")
    with suppress(AddressValueError):
        plain = f"[{IPv6Address(plain)}]"
    match = _HOST.fullmatch(plain)
    number = (match["port"] or port) if match else ""
    if not match or not 0 < int(number) < 65536:
        raise part.file.fail(part.where, f"invalid address {text!r}", "write host:port")
    return f"{match['host']}:{number}"

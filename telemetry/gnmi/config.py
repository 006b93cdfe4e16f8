"""gnmic's YAML: targets, subscriptions, globals and environment variables → what to collect.

Names and meanings are gnmic's (its user guide: targets, subscriptions, configuration file), so that a file that works
there works here; what mburst adds stands under `mburst:`. A key that nobody knows is an error inside of targets and
subscriptions, where it would change what is collected; elsewhere it is a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import MburstError, UsageError
from ...units import parse_rate
from .durations import parse_go_duration
from .messages import ENCODINGS
from .path import PathName, parse

GLOBALS = (
    "username",
    "password",
    "token",
    "port",
    "encoding",
    "insecure",
    "tls-ca",
    "tls-cert",
    "tls-key",
    "tls-server-name",
    "skip-verify",
    "timeout",
    "retry",
    "gzip",
)
TARGET = (
    *(word for word in GLOBALS if word != "port"),
    "name",
    "address",
    "subscriptions",
    "tags",
    "metadata",
    "grpc-keepalive",
)
TARGET_ELSEWHERE = (
    "outputs",
    "event-tags",
    "buffer-size",
    "proto-files",
    "proto-dirs",
    "proxy",
    "tunnel-target-type",
    "tls-min-version",
    "tls-max-version",
    "tls-version",
    "log-tls-secret",
    "auth-scheme",
    "cipher-suites",
    "tcp-keepalive",
)
SUBSCRIPTION = (
    "name",
    "paths",
    "path",
    "prefix",
    "target",
    "set-target",
    "mode",
    "stream-mode",
    "encoding",
    "qos",
    "sample-interval",
    "heartbeat-interval",
    "suppress-redundant",
    "updates-only",
    "models",
    "stream-subscriptions",
)
SUBSCRIPTION_ELSEWHERE = ("outputs", "history", "depth")
MBURST = ("racks", "vendors", "links", "tables", "buffer")
LINK = ("device", "port", "queue", "host", "interface", "rack", "link")
TOP = ("targets", "subscriptions", "mburst")

_MODES = {"stream": "STREAM", "once": "ONCE"}
_STREAM_MODES = {"target-defined": "TARGET_DEFINED", "on-change": "ON_CHANGE", "sample": "SAMPLE"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HOST = re.compile(r"(?P<host>\[[^\]]+\]|[^:/\s]+)(?::(?P<port>\d+))?|unix:.+")
DEFAULT_PORT = 57400


@dataclass(frozen=True)
class Item:
    """A path with how it is to be streamed. Times in nanoseconds; 0: the device decides."""

    path: PathName
    stream_mode: str
    sample_ns: int = 0
    heartbeat_ns: int = 0
    suppress_redundant: bool = False


@dataclass(frozen=True)
class Subscription:
    """One SubscribeRequest."""

    name: str
    items: tuple[Item, ...]
    mode: str = "STREAM"
    prefix: PathName | None = None
    target: str = ""  # of the prefix
    set_target: bool = False  # the target's own name in the prefix
    encoding: str | None = None
    qos: int | None = None
    updates_only: bool = False
    models: tuple[str, ...] = ()

    @property
    def interval_ns(self) -> int:
        """The longest time between two samples that was asked for; 0 where none was."""
        return max((item.sample_ns for item in self.items if item.stream_mode == "SAMPLE"), default=0)


@dataclass(frozen=True)
class Target:
    """A device: how to reach it, and what to ask it for."""

    name: str
    address: str
    subscriptions: tuple[Subscription, ...]
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    insecure: bool = False
    skip_verify: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_server_name: str = ""
    timeout_s: float = 10.0
    retry_s: float = 60.0
    gzip: bool = False
    encoding: str | None = None
    keepalive_s: float = 0.0
    rack: str = "unknown"
    vendor: str = ""


@dataclass(frozen=True)
class Link:
    """A line of the inventory."""

    device: str
    port: str
    host: str
    interface: str = ""
    queue: str = ""
    rack: str = "unknown"
    link_bps: int | None = None


@dataclass(frozen=True)
class Config:
    """A whole file."""

    targets: tuple[Target, ...]
    links: tuple[Link, ...] = ()
    tables: tuple[Path, ...] = ()  # vendors' tables besides those that come with mburst
    buffer_bytes: int = 256 << 20
    warnings: tuple[str, ...] = ()


def load(path: str, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration in a file. Raises MburstError, with the place in the file."""
    try:
        import yaml
    except ImportError:
        raise MburstError("collecting needs the extra `gnmi`", "pip install 'mburst[gnmi]'") from None
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MburstError(f"{path}: cannot read: {getattr(error, 'strerror', None) or error}") from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{where}: no YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(content, dict):
        raise UsageError(
            f"{path}: no configuration", "it needs `targets:` and `subscriptions:`; see examples/gnmi.yaml"
        )
    return _Reader(path, dict(os.environ if environment is None else environment)).config(content)


class _Reader:
    """Reads one file; knows where it is, for messages."""

    def __init__(self, path: str, environment: dict[str, str]) -> None:
        self.path = path
        self.folder = Path(path).parent
        self.environment = environment
        self.warnings: list[str] = []

    def fail(self, where: str, what: str, hint: str = "") -> UsageError:
        return UsageError(f"{self.path}: {where}: {what}", hint)

    def expanded(self, value: Any, where: str) -> Any:
        """VALUE with environment variables in its texts: ${NAME} anywhere, $NAME as a whole."""
        if isinstance(value, dict):
            return {key: self.expanded(below, f"{where}.{key}" if where else str(key)) for key, below in value.items()}
        if isinstance(value, list):
            return [self.expanded(below, where) for below in value]
        if not isinstance(value, str):
            return value
        if re.fullmatch(r"\$\w+", value):
            value = f"${{{value[1:]}}}"

        def look_up(match: re.Match[str]) -> str:
            if match[1] not in self.environment:
                raise self.fail(where, f"the environment has no variable {match[1]}")
            return self.environment[match[1]]

        return _VARIABLE.sub(look_up, value)

    def config(self, content: dict[str, Any]) -> Config:
        kept = {key: content[key] for key in (*TOP, *GLOBALS) if key in content}
        ignored = [str(key) for key in content if key not in kept]
        if ignored:
            self.warnings.append(f"{self.path}: ignored, since mburst has no use for it: {', '.join(ignored)}")
        content = self.expanded(kept, "")
        for word in GLOBALS:
            variable = f"GNMIC_{word.upper().replace('-', '_')}"
            if word not in content and variable in self.environment:
                content[word] = self.environment[variable]
        own = self.mapping(content.get("mburst"), "mburst")
        self.known(own, MBURST, (), "mburst")
        subscriptions = {
            str(name): self.subscription(str(name), self.mapping(entry, f"subscriptions.{name}"))
            for name, entry in self.mapping(content.get("subscriptions"), "subscriptions").items()
        }
        if not subscriptions:
            raise self.fail("subscriptions", "there are none", "see examples/gnmi.yaml")
        defaults = {word: content[word] for word in GLOBALS if word in content}
        targets = tuple(
            self.target(str(name), self.mapping(entry, f"targets.{name}"), defaults, subscriptions, own)
            for name, entry in self.mapping(content.get("targets"), "targets").items()
        )
        if not targets:
            raise self.fail("targets", "there are none", "see examples/gnmi.yaml")
        names = [target.name for target in targets]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise self.fail("targets", f"two are called {twice}")
        for word in ("racks", "vendors"):
            for name in self.mapping(own.get(word), f"mburst.{word}"):
                if name not in names:
                    raise self.fail(f"mburst.{word}", f"there is no target {name}", f"there are {', '.join(names)}")
        return Config(
            targets,
            links=tuple(self.link(entry, index, own) for index, entry in enumerate(own.get("links") or ())),
            tables=tuple(self.folder / str(name) for name in own.get("tables") or ()),
            buffer_bytes=self.size(own.get("buffer", "256M")),
            warnings=tuple(self.warnings),
        )

    def size(self, value: Any) -> int:
        from ...units import parse_size

        try:
            return parse_size(str(value))
        except UsageError as error:
            raise self.fail("mburst.buffer", str(error), error.hint) from None

    def mapping(self, value: Any, where: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fail(where, "must be a mapping of names to values")
        return value

    def known(self, entry: dict[str, Any], words: tuple[str, ...], elsewhere: tuple[str, ...], where: str) -> None:
        for word in entry:
            if word in elsewhere:
                self.warnings.append(f"{self.path}: {where}.{word} is ignored, since mburst has no use for it")
            elif word not in words:
                raise self.fail(where, f"unknown key {word!r}", f"there are {', '.join(words)}")

    # --- subscriptions ----------------------------------------------------------------------------------------------

    def subscription(self, name: str, entry: dict[str, Any]) -> Subscription:
        where = f"subscriptions.{name}"
        self.known(entry, SUBSCRIPTION, SUBSCRIPTION_ELSEWHERE, where)
        items = list(self.items(entry, where))
        for index, below in enumerate(entry.get("stream-subscriptions") or ()):
            place = f"{where}.stream-subscriptions[{index}]"
            part = self.mapping(below, place)
            self.known(part, SUBSCRIPTION, (), place)
            items += self.items({**entry, "paths": None, "path": None, **part}, place)
        if not items:
            raise self.fail(where, "there are no paths")
        prefix = entry.get("prefix")
        qos = entry.get("qos")
        if qos is not None and not (isinstance(qos, int) and 0 <= qos <= 63):
            raise self.fail(where, f"qos {qos!r} is no DSCP", "write 0 to 63, or leave it out")
        return Subscription(
            name=str(entry.get("name", name)),
            items=tuple(items),
            mode=self.word(entry.get("mode", "stream"), _MODES, f"{where}.mode"),
            prefix=self.path_of(prefix, f"{where}.prefix") if prefix else None,
            target=str(entry.get("target") or ""),
            set_target=self.flag(entry, "set-target", where),
            encoding=self.encoding(entry.get("encoding"), f"{where}.encoding"),
            qos=qos,
            updates_only=self.flag(entry, "updates-only", where),
            models=tuple(str(model) for model in entry.get("models") or ()),
        )

    def items(self, entry: dict[str, Any], where: str) -> list[Item]:
        paths = entry.get("paths") or entry.get("path") or []
        mode = self.word(entry.get("stream-mode", "target-defined"), _STREAM_MODES, f"{where}.stream-mode")
        interval = self.duration(entry.get("sample-interval"), f"{where}.sample-interval")
        heartbeat = self.duration(entry.get("heartbeat-interval"), f"{where}.heartbeat-interval")
        return [
            Item(self.path_of(path, f"{where}.paths"), mode, interval, heartbeat,
                 self.flag(entry, "suppress-redundant", where))
            for path in ([paths] if isinstance(paths, str) else paths)
        ]  # fmt: skip

    def path_of(self, text: Any, where: str) -> PathName:
        try:
            return parse(str(text))
        except UsageError as error:
            raise self.fail(where, str(error), error.hint) from None

    def word(self, value: Any, words: dict[str, str], where: str) -> str:
        text = str(value).lower().replace("_", "-")
        if text not in words:
            raise self.fail(where, f"{value!r} is none of {', '.join(words)}")
        return words[text]

    def encoding(self, value: Any, where: str) -> str | None:
        if value in (None, ""):
            return None
        text = str(value).upper().replace("-", "_")
        if text not in ENCODINGS:
            raise self.fail(where, f"{value!r} is no encoding", f"there are {', '.join(map(str.lower, ENCODINGS))}")
        return text

    def duration(self, value: Any, where: str) -> int:
        if value in (None, "", 0):
            return 0
        try:
            return parse_go_duration(str(value))
        except UsageError as error:
            raise self.fail(where, str(error), error.hint) from None

    def flag(self, entry: dict[str, Any], word: str, where: str) -> bool:
        value = entry.get(word, False)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self.fail(f"{where}.{word}", f"{value!r} is neither true nor false")

    # --- targets ----------------------------------------------------------------------------------------------------

    def target(
        self,
        name: str,
        entry: dict[str, Any],
        defaults: dict[str, Any],
        subscriptions: dict[str, Subscription],
        own: dict[str, Any],
    ) -> Target:
        where = f"targets.{name}"
        self.known(entry, TARGET, TARGET_ELSEWHERE, where)
        entry = {**defaults, **entry}
        chosen = entry.get("subscriptions") or list(subscriptions)
        for word in [chosen] if isinstance(chosen, str) else chosen:
            if word not in subscriptions:
                raise self.fail(where, f"there is no subscription {word!r}", f"there are {', '.join(subscriptions)}")
        insecure, skip = self.flag(entry, "insecure", where), self.flag(entry, "skip-verify", where)
        if bool(entry.get("tls-cert")) != bool(entry.get("tls-key")):
            raise self.fail(where, "tls-cert and tls-key go together")
        label = str(entry.get("name") or name)
        if insecure and (entry.get("username") or entry.get("token")):
            self.warnings.append(f"{self.path}: {where}: user and password go over the network in the clear")
        return Target(
            name=label,
            address=self.address(str(entry.get("address") or name), entry.get("port"), where),
            subscriptions=tuple(subscriptions[word] for word in ([chosen] if isinstance(chosen, str) else chosen)),
            username=str(entry.get("username") or ""),
            password=str(entry.get("password") or ""),
            token=str(entry.get("token") or ""),
            metadata=tuple((str(key).lower(), str(value)) for key, value in
                           self.mapping(entry.get("metadata"), f"{where}.metadata").items()),
            insecure=insecure,
            skip_verify=skip and not insecure,
            tls_ca=self.file(entry.get("tls-ca")),
            tls_cert=self.file(entry.get("tls-cert")),
            tls_key=self.file(entry.get("tls-key")),
            tls_server_name=str(entry.get("tls-server-name") or ""),
            timeout_s=self.duration(entry.get("timeout", "10s"), f"{where}.timeout") / 1e9 or 10.0,
            retry_s=self.duration(entry.get("retry", "60s"), f"{where}.retry") / 1e9 or 60.0,
            gzip=self.flag(entry, "gzip", where),
            encoding=self.encoding(entry.get("encoding"), f"{where}.encoding"),
            keepalive_s=self.keepalive(entry.get("grpc-keepalive"), where),
            rack=str(self.mapping(own.get("racks"), "mburst.racks").get(label, "unknown")),
            vendor=str(self.mapping(own.get("vendors"), "mburst.vendors").get(label, "")),
        )  # fmt: skip

    def address(self, text: str, port: Any, where: str) -> str:
        text = text.removeprefix("tcp://")
        match = _HOST.fullmatch(text)
        if not match:
            raise self.fail(where, f"{text!r} is no address", "write host:port")
        if match["host"] is None or match["port"]:
            return text
        return f"{text}:{port or DEFAULT_PORT}"

    def file(self, name: Any) -> str:
        return str(self.folder / Path(str(name)).expanduser()) if name else ""

    def keepalive(self, entry: Any, where: str) -> float:
        part = self.mapping(entry, f"{where}.grpc-keepalive")
        self.known(part, ("time", "timeout", "permit-without-stream"), (), f"{where}.grpc-keepalive")
        return self.duration(part.get("time"), f"{where}.grpc-keepalive.time") / 1e9

    # --- mburst's own -----------------------------------------------------------------------------------------------

    def link(self, entry: Any, index: int, own: dict[str, Any]) -> Link:
        where = f"mburst.links[{index}]"
        part = self.mapping(entry, where)
        self.known(part, LINK, (), where)
        if lacking := [word for word in ("device", "port", "host") if not part.get(word)]:
            raise self.fail(where, f"{lacking[0]} is missing")
        device = str(part["device"])
        rack = part.get("rack") or self.mapping(own.get("racks"), "mburst.racks").get(device, "unknown")
        try:
            speed = parse_rate(str(part["link"])) if part.get("link") else None
        except UsageError as error:
            raise self.fail(where, str(error), error.hint) from None
        return Link(
            device,
            str(part["port"]),
            str(part["host"]),
            str(part.get("interface") or ""),
            str(part.get("queue") or ""),
            str(rack),
            speed,
        )

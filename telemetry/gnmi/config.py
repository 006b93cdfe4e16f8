"""What to collect: targets, their subscriptions, and the inventory. gnmic_file.py reads it from a file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import limits
from .path import PathName

if TYPE_CHECKING:
    from ..otlp.config import OtlpConfig

DEFAULT_PORT = 57400
POLL_NS = 10 * 10**9  # between two polls if no sample interval is given


@dataclass(frozen=True)
class Item:
    """A path with its stream mode. Times in nanoseconds; 0: the device decides."""

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
    set_target: bool = False  # whether the prefix has the target's own name
    encoding: str | None = None
    qos: int | None = None
    updates_only: bool = False
    models: tuple[str, ...] = ()

    @property
    def interval_ns(self) -> int:
        """The longest requested time between two samples or polls; 0 if none was requested."""
        if self.mode == "POLL":
            return max(item.sample_ns for item in self.items) or POLL_NS
        return max((item.sample_ns for item in self.items if item.stream_mode == "SAMPLE"), default=0)


@dataclass(frozen=True)
class GnmiTarget:
    """A device: how to reach it, and what to request."""

    name: str
    address: str
    subscriptions: tuple[Subscription, ...]
    other_addresses: tuple[str, ...] = ()  # of the same device; the first one that answers is used
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
    message_bytes: int = limits.MESSAGE_BYTES  # of one message at most
    most_paths: int = limits.PATHS  # that are kept for the device

    def by_address(self) -> tuple[GnmiTarget, ...]:
        """The target once with each of its addresses, in their order."""
        return tuple(replace(self, address=address) for address in (self.address, *self.other_addresses))


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
class CollectConfig:
    """A whole file."""

    targets: tuple[GnmiTarget, ...]
    links: tuple[Link, ...] = ()
    tables: tuple[Path, ...] = ()  # tables of vendors in addition to those of mburst
    otlp: OtlpConfig | None = None
    buffer_bytes: int = 256 << 20
    warnings: tuple[str, ...] = ()

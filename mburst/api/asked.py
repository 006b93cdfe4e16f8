"""The options of the methods that ask a store, by name and type. A dict of them can be given to several methods:
`mine: mburst.asked.BurstOptions = {"threshold": 0.8}`, `store.bursts(**mine)`, `store.senders(**mine)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast, get_type_hints

from .options import Duration, Names, Rate, Scope, Share, Size, Time, definition_of, names, span_of

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

F = TypeVar("F", bound=Callable[..., Any])


class DefinitionOptions(TypedDict, total=False):
    """What a burst is (docs/bursts.md). Not given: the default."""

    bin: Duration | None  # bin width to use: the recorded one, or a multiple
    threshold: Share | None  # of line rate, in a bin: 0.5
    release: Share | None  # a burst goes on while at least this: the threshold
    join: Duration | None  # join over gaps up to this: 5 bins
    min_duration: Duration | None  # leave out shorter ones: 1 bin
    link: Rate | None  # line rate instead of the recorded one


class TimeOptions(TypedDict, total=False):
    """A time: [since, until)."""

    since: Time | None
    until: Time | None


class RecordingOptions(TimeOptions, total=False):
    """Which recordings. Not given: all."""

    host: Names | None
    rack: str | None
    interface: str | None
    direction: Literal["in", "out", "mirror"] | None


class BurstOptions(DefinitionOptions, RecordingOptions, total=False):
    """Which bursts."""

    recording: str | None  # a recording_id
    force: bool  # use fine bins though stamps are too coarse for them


class UtilizationOptions(RecordingOptions, total=False):
    """Which bins."""

    bin: Duration | None  # the recorded width, or a multiple
    link: Rate | None
    recording: str | None


class ContentionOptions(DefinitionOptions, TimeOptions, total=False):
    """Of which bursts."""

    host: Names | None
    rack: str | None
    force: bool


class PathOptions(TimeOptions, total=False):
    """Which probes."""

    src: str | None
    dst: str | None
    protocol: str | None
    batch: str | None


class QueueOptions(TimeOptions, total=False):
    """Which switch queues."""

    device: str | None
    port: str | None
    queue: str | None


class TailOptions(TimeOptions, total=False):
    """Which recordings and probes, and what a tail is."""

    host: Names | None
    rack: str | None
    alias: Names | None  # name of the recorded host in the probes, where the names differ
    tail: Duration  # a probe is late beyond the median by this and by the factor: by the speed of the recorded link
    tail_factor: float  # times the median: 5
    seed: int  # of the resampling: 1


class InvestigationOptions(DefinitionOptions, TailOptions, total=False):
    """The same, and what a burst is."""


class ChangeOptions(TypedDict, total=False):
    """What to change."""

    link: Rate | None  # speed of the port's link
    priority: bool  # the probes' class goes first, or over a link of its own
    stagger: Duration | None  # senders begin one after the other over this time
    fan_in: int | None  # at most so many senders at once
    buffer: Size | None  # the port's buffer


class WhatIfOptions(ChangeOptions, TailOptions, total=False):
    """What to change, and of what."""

    recorded_link: Rate | None  # speed of the recorded link, where the store does not say


class ReportOptions(DefinitionOptions, TimeOptions, total=False):
    """What a report is of."""

    rack: str | None
    host: str | None


class RackReportOptions(DefinitionOptions, TimeOptions, total=False):
    """What time a rack's report is of."""

    last: Literal["hour", "day", "week"] | None  # the last whole one of UTC, by the clock of this machine


class ComparisonOptions(DefinitionOptions, total=False):
    """How two situations are compared."""

    measure: Literal["application", "round_trip", "forward", "back", "host_here", "host_there"] | None
    slow: Duration | None  # a slow answer to a request that needs many: the p99 of A
    seed: int


class RecordOptions(TypedDict, total=False):
    """How a capture is recorded: the options of `mburst record`, with its defaults."""

    link: Rate | None  # speed of the link in one direction
    bin: Duration  # 10 us to 1 s: 100 us
    source_bin: Duration  # bin in which senders are counted: 1 ms
    host: str | None  # that received the packets: unknown; of an interface, this one
    rack: str
    interface: str | None  # its name: what the capture says, or its file's name
    direction: Literal["in", "out", "both"]
    local: Names  # addresses of this host, which separate in from out
    max_sources: int  # most senders that are counted separately in a bin: 4096
    sources: Literal["busy", "all"] | None  # where senders are kept: of an interface busy, of files all
    sources_above: Share | None  # with busy: near bins of this share of line rate: 10 %
    reorder_window: Duration  # how far out of order packets may be; others are in no bin: 2 ms
    inner_ip: bool  # senders are the innermost addresses of tunnels
    mtu: int  # larger IP packets count as merged: as the interface has it, of files inferred; 0: none
    split_merged: bool  # spread merged frames over their transmission time at line rate
    backend: Literal["auto", "file", "ebpf", "afpacket", "libpcap", "pfring"]
    duration: Duration | None  # of an interface: how long
    stamps: Literal["auto", "hw", "sw"]
    hook: Literal["tc", "xdp"]  # of ebpf: where frames that arrive are counted
    pin: bool  # of ebpf: the kernel counts on when the process dies, and the next recording reads on from there
    threads: int | None  # rings of an interface: 1; of files, from 2 on one reads while another stores: the cores
    ring: Size | None  # kernel buffer of each ring: 64 MiB
    snaplen: int  # captured bytes of each frame: 128
    promiscuous: bool  # not only frames for this host
    cluster: int  # PF_RING's
    force: bool  # record fine bins even if the timestamps are too coarse for them
    keep_packets: Size | None  # of an interface: what the ring of its last packets may take; not kept
    reserve: Size | None  # of an interface: free bytes of the disk below which senders are summed up


def takes(kind: type[Any]) -> Callable[[F], F]:
    """Shows the options of a method in its signature, for help(), notebooks and completion; others are a TypeError."""
    hints = get_type_hints(kind)

    def decorated(method: F) -> F:
        own = [one for one in inspect.signature(method).parameters.values() if one.kind is not one.VAR_KEYWORD]
        known = hints.keys() | {one.name for one in own}

        @functools.wraps(method)
        def checked(*arguments: Any, **options: Any) -> Any:
            if unknown := sorted(options.keys() - known):
                raise TypeError(f"{method.__name__}() has no option {unknown[0]!r}; there are {', '.join(hints)}")
            from ..sql.limits import noting
            from .damage import warn_of_limits

            left_out: list[str] = []
            with noting(left_out.append):
                answer = method(*arguments, **options)
            warn_of_limits(left_out)
            return answer

        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in hints.items()
        ]
        checked.__signature__ = inspect.Signature([*own, *shown])  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorated


def part(options: Mapping[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Those of OPTIONS that KIND has."""
    return {name: value for name, value in options.items() if name in kind.__optional_keys__}


def definition(options: Mapping[str, Any]) -> BurstDefinition:
    """The definition of a burst among OPTIONS. Raises UsageError."""
    return definition_of(**part(options, DefinitionOptions))


def scope(store: StoreFolder, options: Mapping[str, Any]) -> Scope:
    """Which recordings of STORE the OPTIONS choose. Raises UsageError."""
    rack = options.get("rack")
    since, until = span_of(store, options.get("since"), options.get("until"), rack)
    return Scope(
        names(options.get("host")) or None,
        rack,
        options.get("interface"),
        options.get("direction"),
        options.get("recording"),
        since,
        until,
    )

"""The options of the methods that query a store, by name and type. One dict of options can be passed to several
methods: `mine: mburst.asked.BurstOptions = {"threshold": 0.8}`, `store.bursts(**mine)`, `store.senders(**mine)`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast, get_args, get_origin, get_type_hints

from ..errors import UsageError
from ..services.record.backends import Backend, Direction, Hook, Sources, Stamps
from ..units import SHOWN
from .options import Duration, Names, Rate, Scope, Share, Size, Time, definition_of, names, span_of

if TYPE_CHECKING:
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

LaneDirection = Literal["in", "out", "mirror"]
Period = Literal["hour", "day", "week"]
LatencyMeasure = Literal["application", "round_trip", "forward", "back", "host_here", "host_there"]
F = TypeVar("F", bound=Callable[..., Any])


class DefinitionOptions(TypedDict, total=False):
    """The definition of a burst (docs/bursts.md). An option that is not given has its default."""

    bin: Duration | None  # bin width to use: the recorded one (default), or a multiple of it
    threshold: Share | None  # share of line rate in a bin; default: 0.5
    release: Share | None  # a burst continues while bins are at or above this; default: the threshold
    join: Duration | None  # join busy periods over gaps up to this; default: 5 bins
    min_duration: Duration | None  # leave out shorter bursts; default: 1 bin
    link: Rate | None  # line rate instead of the recorded one


class TimeOptions(TypedDict, total=False):
    """The time [since, until)."""

    since: Time | None
    until: Time | None


class RecordingOptions(TimeOptions, total=False):
    """The selection of recordings. An option that is not given selects all."""

    host: Names | None
    rack: str | None
    interface: str | None
    direction: LaneDirection | None


class BurstOptions(DefinitionOptions, RecordingOptions, total=False):
    """The selection of bursts."""

    recording: str | None  # a recording_id
    force: bool  # use fine bins even if the timestamps are too coarse for them


class UtilizationOptions(RecordingOptions, total=False):
    """The selection of bins."""

    bin: Duration | None  # the recorded width (default), or a multiple of it
    link: Rate | None
    recording: str | None


class ContentionOptions(DefinitionOptions, TimeOptions, total=False):
    """The selection of bursts whose contention is computed."""

    host: Names | None
    rack: str | None
    force: bool


class PathOptions(TimeOptions, total=False):
    """The selection of probes."""

    src: str | None
    dst: str | None
    protocol: str | None
    batch: str | None


class QueueOptions(TimeOptions, total=False):
    """The selection of switch queues."""

    device: str | None
    port: str | None
    queue: str | None


class TailOptions(TimeOptions, total=False):
    """The selection of recordings and probes, and the definition of a tail."""

    host: Names | None
    rack: str | None
    alias: Names | None  # name of the recorded host in the probes, if it differs
    tail: Duration  # a late probe exceeds the median by this and by the factor; default: by the recorded link's speed
    tail_factor: float  # multiple of the median; default: 5
    seed: int  # of the resampling; default: 1


class InvestigationOptions(DefinitionOptions, TailOptions, total=False):
    """TailOptions with the definition of a burst."""


class ChangeOptions(TypedDict, total=False):
    """What to change."""

    link: Rate | None  # speed of the port's link
    priority: bool  # the probes' class goes first, or uses a separate link
    stagger: Duration | None  # time over which the senders begin one after the other
    fan_in: int | None  # most senders at once
    buffer: Size | None  # the port's buffer


class WhatIfOptions(ChangeOptions, TailOptions, total=False):
    """The change, and the selection that it is applied to."""

    recorded_link: Rate | None  # speed of the recorded link, if the store does not have it


class ReportOptions(DefinitionOptions, TimeOptions, total=False):
    """The selection and the burst definition of a report."""

    rack: str | None
    host: str | None


class RackReportOptions(DefinitionOptions, TimeOptions, total=False):
    """The time and the burst definition of a rack's report."""

    last: Period | None  # the last whole hour, day or week in UTC by the clock of this machine


class ComparisonOptions(DefinitionOptions, total=False):
    """How two situations are compared."""

    measure: LatencyMeasure | None
    slow: Duration | None  # latency from which an answer to a request that needs many is slow; default: p99 of A
    seed: int


class RecordOptions(TypedDict, total=False):
    """How packets are recorded: the options of `mburst record`, with its defaults."""

    link: Rate | None  # speed of the link in one direction
    bin: Duration  # 10 us to 1 s; default: 100 us
    source_bin: Duration  # width of the bins in which senders are counted; default: 1 ms
    host: str | None  # host that received the packets; default: this host for an interface, `unknown` for files
    rack: str
    interface: str | None  # name of the interface; default: as the capture names it, or the file's name
    direction: Direction
    local: Names  # addresses of this host, which separate `in` from `out`
    max_sources: int  # most senders that are counted separately in a bin; default: 4096
    sources: Sources | None  # where senders are kept; default: busy for an interface, all for files
    sources_above: Share | None  # with busy: keep senders near bins of this share of line rate; default: 10 %
    reorder_window: Duration  # how far out of order packets may be (later ones are in no bin); default: 2 ms
    inner_ip: bool  # senders are the innermost addresses of tunnels
    mtu: int  # larger IP packets are merged frames; default: as the interface says, or inferred for files; 0: none
    split_merged: bool  # spread merged frames over their transmission time at line rate
    backend: Backend
    duration: Duration | None  # length of the recording of an interface
    stamps: Stamps
    hook: Hook  # with ebpf: where the kernel counts frames that arrive
    pin: bool  # with ebpf: the kernel counts on if the process dies, and the next recording continues from there
    threads: int | None  # rings of an interface (default: 1); for files, 2 or more read ahead (default: cores)
    ring: Size | None  # kernel buffer of each ring; default: 64 MiB
    snaplen: int  # captured bytes of each frame; default: 128
    promiscuous: bool  # also capture frames that are not for this host
    cluster: int  # cluster id of PF_RING
    force: bool  # record fine bins even if the timestamps are too coarse for them
    keep_packets: Size | None  # most bytes of the ring of an interface's last packets; default: packets are not kept
    reserve: Size | None  # for an interface: free bytes of the disk below which senders are summed up


def _words(hint: Any) -> tuple[str | None, ...]:
    """Returns the values of a type that consists of words, and () for any other type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    kinds = get_args(hint)
    if not any(get_origin(kind) is Literal for kind in kinds):
        return ()
    return tuple(word for kind in kinds for word in ((None,) if kind is type(None) else get_args(kind)))


def check_word(name: str, value: Any, *words: str | None) -> None:
    """Raise UsageError unless VALUE of the option NAME is one of WORDS."""
    if not (value is None or isinstance(value, str)) or value not in words:
        *most, last = filter(None, words)
        shown = repr(value[:SHOWN] if isinstance(value, str | list) else value)
        raise UsageError(f"invalid {name} {' '.join(shown.split())[: SHOWN + 2]}", f"write {', '.join(most)} or {last}")


def check_text(name: str, value: object) -> None:
    """Raise UsageError unless VALUE, the option NAME, is text or None."""
    if not (value is None or isinstance(value, str)):
        shown = " ".join(repr(value[:SHOWN] if isinstance(value, list) else value).split())[: SHOWN + 2]
        raise UsageError(f"invalid {name} {shown}", "write one name, as text")


def takes(kind: type[Any]) -> Callable[[F], F]:
    """Show the OPTIONS of KIND in a method's signature, for help(), notebooks and completion. The method raises
    TypeError for any other option, and UsageError for a word that is none of its option's type, and for
    what is not text where a name is."""
    hints = get_type_hints(kind)
    words = {name: choice for name, hint in hints.items() if (choice := _words(hint))}

    def decorated(method: F) -> F:
        own = [one for one in inspect.signature(method).parameters.values() if one.kind is not one.VAR_KEYWORD]
        known = hints.keys() | {one.name for one in own}

        @functools.wraps(method)
        def checked(*arguments: Any, **options: Any) -> Any:
            if unknown := sorted(options.keys() - known):
                raise TypeError(f"{method.__name__}() has no option {unknown[0]!r}; there are {', '.join(hints)}")
            for name, value in options.items():
                if name in words:
                    check_word(name, value, *words[name])
                elif hints.get(name) == str | None:
                    check_text(name, value)
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
    """Returns the items of OPTIONS that KIND declares."""
    return {name: value for name, value in options.items() if name in kind.__optional_keys__}


def definition(options: Mapping[str, Any]) -> BurstDefinition:
    """Returns the definition of a burst that OPTIONS give. Raises UsageError."""
    return definition_of(**part(options, DefinitionOptions))


def scope(store: StoreFolder, options: Mapping[str, Any]) -> Scope:
    """Returns the recordings of STORE that OPTIONS select. Raises UsageError."""
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

"""Functions that fill a store: from captures, interfaces, CSV files, and the simulated case of `mburst demo`."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..errors import UsageError
from ..units import LEAST_LINK_BPS
from . import importing
from .asked import RecordOptions, takes
from .importing import Imported
from .interfaces import check_several, check_speeds, links_of
from .options import Duration, Names, Rate, Share, Size, duration_ns, names, rate_bps, share_of, size_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from ..services.record.backends import Direction, Hook, Sources, Stamps
    from ..services.record.recorder import RecordResult, Until
    from ..services.record.recording import InterfaceSettings, RecordProgress, RecordSettings
    from ..sql import StoreFolder
    from .store import Store

NARROWEST_NS, WIDEST_NS = 10_000, 1_000_000_000
SMALL_NS = 10_000_000  # bins that are wider have to divide a second, or it would have the bytes of more time
SOURCES_ABOVE = 0.1


@dataclass(frozen=True)
class Recorded:
    """The result of a recording: `rows` of the table `recordings`, one for each direction of each interface. `new` is
    false if the same files were already recorded with the same settings."""

    store: Store
    rows: list[dict[str, Any]]
    new: bool
    remark: str

    def table(self) -> pa.Table:
        """The rows as a pyarrow.Table."""
        from .tables import of_rows

        return of_rows(self.rows, (), about="recordings")


@takes(RecordOptions)
def record(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    *,
    filter: str = "",
    stop: threading.Event | None = None,
    **options: Unpack[RecordOptions],
) -> Recorded:
    """Record capture files, or interfaces, into a store, as `mburst record` does. A store that does not exist is
    created.

    SOURCE is the path of a capture (pcap or pcapng, also compressed), several paths that are one capture, or the name
    of one or several interfaces. Interfaces need the rights that `mburst doctor` names. `filter` is a pcap filter. A
    recording of interfaces lasts for `duration`, or until another thread sets `stop`. No signal is handled: a
    KeyboardInterrupt ends the recording, and what was recorded until then stays in the store.

    Raises MburstError. If a capture proves to be damaged, the packets before the damage are stored first. If one of
    several interfaces fails, the recordings of the others end first."""
    from ..process.stopping import stopping_by
    from ..services.record.recording import is_live
    from ..sql import StoreFolder
    from .store import Store

    targets = [os.fspath(source)] if isinstance(source, str | os.PathLike) else [os.fspath(one) for one in source]
    if not targets:
        raise UsageError("nothing to record", "name capture files or an interface")
    wanted = recordings_of(targets, filter, **options)
    if is_live(wanted[0]):
        if wanted[0].live.duration_ns is None and stop is None:
            raise UsageError(
                f"{targets[0]} is an interface: the duration of the recording is missing",
                "give duration='60s', or an Event as stop",
            )
    elif stop is not None:
        raise UsageError(f"stop is for interfaces, and {targets[0]} is not one")
    with StoreFolder.created(store) as folder:
        done = into(folder, wanted, until=partial(stopping_by, stop))
    if done.failures:
        raise done.failures[0]
    return Recorded(Store(folder), done.rows, done.new, done.remark)


def into(
    store: StoreFolder,
    recordings: list[RecordSettings],
    progress: Callable[[RecordProgress], None] | None = None,
    until: Until | None = None,
) -> RecordResult:
    """Record the RECORDINGS that `recordings_of` returned. Raises UsageError for settings that the engine refuses."""
    from ..process.stopping import stopping
    from ..services.record import recorder, several

    try:
        if len(recordings) > 1:
            return several.record_several(store, recordings, progress, until or stopping)
        return recorder.record(store, recordings[0], progress, until or stopping)
    except ValueError as error:
        raise UsageError(str(error)) from error


def recordings_of(
    targets: list[str], filter: str = "", *, link: Rate | None = None, **options: Any
) -> list[RecordSettings]:
    """Returns the recordings that the options of `mburst record` ask for: one of all files, or one of each interface.
    LINK may name interfaces: eth0=1G,eth1=10G. Raises UsageError, and MburstError if one of several interfaces does not
    exist."""
    from ..services.record.recording import RecordSettings, is_live

    backend = options.get("backend", "auto")
    _refuse_twice(targets)
    if len(targets) > 1 and any(is_live(RecordSettings([name], backend=backend)) for name in targets):
        check_several(targets, backend, options.get("interface"))
        links = links_of(link, targets)
        made = [recording_of([name], filter, link=links[name], **options) for name in targets]
        return [replace(one, live=replace(one.live, beside=len(made) - 1)) for one in made]
    return [recording_of(targets, filter, link=links_of(link, targets)[targets[0]], **options)]


def check(
    *,
    link: str | None = None,
    host: str | None = None,
    sources: Sources | None = None,
    sources_above: Share | None = None,
    **options: Any,
) -> None:
    """Raise UsageError for options of `mburst record` that are invalid for every input and on every machine."""
    from ..services.record import opening

    if link is not None:
        check_speeds(link)
    settings = _settings([os.devnull], link=None if link is None else LEAST_LINK_BPS, **options)
    _sources_above_ppb(sources or "busy", sources_above)
    try:
        opening.check(settings)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _refuse_twice(targets: list[str]) -> None:
    """Raise UsageError for a file that is named twice: each of its packets would be counted twice."""
    met = set()
    for name in targets:
        with suppress(OSError):  # not a file
            status = os.stat(name)
            file = status.st_dev, status.st_ino
            if file in met:
                raise UsageError(f"{name}: this file is named twice", "name it once")
            met.add(file)


def recording_of(
    targets: list[str],
    filter: str = "",
    *,
    host: str | None = None,
    sources: Sources | None = None,
    sources_above: Share | None = None,
    threads: int | None = None,
    **options: Any,
) -> RecordSettings:
    """Returns the recording that the options of `mburst record` ask for. HOST defaults to this host for an interface.

    Raises UsageError."""
    recording = _settings(targets, filter, threads=threads, **options)
    return _with_defaults(recording, host, threads, sources, sources_above)


def _settings(
    targets: list[str],
    filter: str = "",
    *,
    link: Rate | None = None,
    bin: Duration = "100us",
    source_bin: Duration = "1ms",
    rack: str = "unknown",
    interface: str | None = None,
    direction: Direction = "both",
    local: Names = (),
    max_sources: int = 4096,
    reorder_window: Duration = "2ms",
    inner_ip: bool = False,
    mtu: int = -1,
    split_merged: bool = False,
    backend: str = "auto",
    threads: int | None = None,
    **live: Any,
) -> RecordSettings:
    """Returns the recording without the options whose defaults depend on the input. Raises UsageError."""
    from ..services.record.recording import RecordSettings

    _check_backend_options(backend, live)
    link_bps = None if link is None else rate_bps(link)
    if split_merged and not link_bps:
        raise UsageError("--split-merged needs the link speed", "set it with --link")
    _check_counts(max_sources, threads)
    return RecordSettings(
        targets=targets,
        link_bps=link_bps,
        bin_ns=_bin_width(bin),
        source_bin_ns=_width(source_bin, "--source-bin"),
        window_ns=duration_ns(reorder_window),
        rack=rack,
        interface=interface,
        direction=direction,
        local=names(local),
        max_sources=max_sources,
        inner=inner_ip,
        mtu=mtu,
        spread=split_merged,
        filter=filter,
        backend=backend,
        live=_live(**live),
    )


def _check_backend_options(backend: str, live: Mapping[str, Any]) -> None:
    """Raise UsageError for options of interfaces that go with other backends only."""
    if live.get("hook", "tc") != "tc" and backend != "ebpf":
        raise UsageError("--hook is for --backend ebpf")
    if live.get("pin") and backend != "ebpf":
        raise UsageError("--pin is for --backend ebpf")
    if live.get("keep_packets") is not None and backend == "ebpf":
        raise UsageError(
            "--keep-packets: --backend ebpf counts in the kernel and has no packets",
            "use --backend afpacket, or record without --keep-packets",
        )


def _check_counts(max_sources: int, threads: int | None) -> None:
    if max_sources < 1:
        raise UsageError("--max-sources must be at least 1")
    if threads is not None and threads < 1:
        raise UsageError(f"--threads must be at least 1, not {threads}")


def _with_defaults(
    recording: RecordSettings, host: str | None, threads: int | None, sources: Sources | None, above: Share | None
) -> RecordSettings:
    """Returns RECORDING with the options whose defaults differ between an interface and files. Raises UsageError,
    also for options of interfaces if it has files."""
    from ..services.record.recording import is_live

    is_interface = is_live(recording)
    if not is_interface:
        _refuse_interface_options(recording)
    return replace(
        recording,
        host=host or (socket.gethostname() if is_interface else "unknown"),
        threads=threads or (1 if is_interface else len(os.sched_getaffinity(0))),
        sources_above_ppb=_sources_above_ppb(sources or ("busy" if is_interface else "all"), above),
        live=recording.live if is_interface else replace(recording.live, reserve_bytes=0),
    )


def _refuse_interface_options(recording: RecordSettings) -> None:
    """Raise UsageError for options of interfaces in a recording of files."""
    name = recording.targets[0]
    if recording.live.duration_ns is not None:
        raise UsageError(f"--duration is for interfaces, and {name} is not one")
    if recording.live.keep_bytes:
        raise UsageError(f"--keep-packets is for interfaces, and {name} is not one")


def _sources_above_ppb(sources: str, above: Share | None) -> int | None:
    """Returns the least share of line rate, in billionths, of a bin near which senders are kept; None if all are
    kept."""
    if sources == "all":
        if above is not None:
            raise UsageError("--sources-above is for --sources busy, and here all senders are kept")
        return None
    share = SOURCES_ABOVE if above is None else share_of(above)
    if not 0 < share <= 1:
        raise UsageError(f"invalid --sources-above {above}: not a share of line rate", "examples: 0.1, 10%")
    return max(1, round(share * 1e9))


def _width(value: Duration, what: str) -> int:
    width = duration_ns(value)
    if not NARROWEST_NS <= width <= WIDEST_NS:
        raise UsageError(f"{what} of {value} is not between 10us and 1s")
    return width


def _bin_width(value: Duration) -> int:
    width = _width(value, "--bin")
    if width > SMALL_NS and WIDEST_NS % width:
        raise UsageError(
            f"--bin of {value} does not divide 1s", "above 10ms it has to: 20ms, 50ms, 100ms, 200ms, 500ms"
        )
    return width


def _live(
    duration: Duration | None = None,
    stamps: Stamps = "auto",
    hook: Hook = "tc",
    pin: bool = False,
    ring: Size | None = None,
    snaplen: int = 0,
    promiscuous: bool = True,
    cluster: int = 0,
    force: bool = False,
    reserve: Size | None = None,
    keep_packets: Size | None = None,
) -> InterfaceSettings:
    from ..services.record.recording import InterfaceSettings

    if snaplen < 0 or cluster < 0:
        raise UsageError("--snaplen and --cluster cannot be negative")
    return InterfaceSettings(
        duration_ns=None if duration is None else duration_ns(duration),
        snaplen=snaplen,
        ring_bytes=0 if ring is None else size_bytes(ring),
        stamps=stamps,
        hook=hook,
        pin=pin,
        promiscuous=promiscuous,
        cluster=cluster,
        force=force,
        keep_bytes=0 if keep_packets is None else _kept_bytes(keep_packets),
        reserve_bytes=None if reserve is None else size_bytes(reserve),
    )


def _kept_bytes(size: Size) -> int:
    from ..packets.ring import check_size

    check_size(size_bytes(size))
    return size_bytes(size)


def import_csv(
    table: Literal["probes", "queues"],
    file: str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    protocol: str = "",
) -> Imported:
    """Add probes or switch queues from a CSV file to a store, which is made where there is none: `mburst import`, whose
    help names the columns. Rows that are in the store already are not added again. Raises MburstError; of a bad file
    nothing is added."""
    from ..sql import StoreFolder
    from ..telemetry.csv_import import open_text

    if table not in ("probes", "queues"):
        raise UsageError(f"a CSV file cannot hold {table!r}", "name probes or queues")
    with open_text(os.fspath(file)) as text:
        return importing.add(partial(StoreFolder.created, store), table, text, os.fspath(file), protocol)


@dataclass(frozen=True)
class Demo:
    """The incasts of a cache server. `rounds` has the first and last frame of each (Unix ns); `senders` is the number
    of senders in each."""

    store: Store
    folder: Path
    senders: int
    rounds: list[tuple[int, int]]


def demo(folder: str | os.PathLike[str] = "demo", *, seed: int = 1) -> Demo:
    """Simulate 40 databases that answer one cache server at once, and record it into FOLDER/store, with probes and the
    depth of the switch's queue: the case of `mburst demo --simulate`, without its output. The results of an earlier
    demo in FOLDER are replaced; other files are never touched. Needs the extra `demo`. Raises MburstError."""
    from ..lab.demo.cases import RECORD, SENDERS
    from ..lab.demo.folder import own
    from ..lab.simulate import Scenario, simulate

    if seed < 0:
        raise UsageError(f"--seed {seed} is below 0")
    place = Path(folder)
    with own(place):
        case = simulate(Scenario(seed=seed, senders=SENDERS))
        paths = case.write(place)
        recorded = record(paths["cache"], place / "store", **RECORD)
        import_csv("probes", paths["probes"], place / "store", protocol="udp")
        import_csv("queues", paths["queues-1ms"], place / "store")
    rounds = [(int(row["t_first_ns"]), int(row["t_last_ns"])) for row in case.rounds]
    return Demo(recorded.store, place, SENDERS, rounds)

"""The packets of a burst: which burst, where its packets are, and what is written to the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import temporary
from ..errors import MburstError, UsageError
from ..senders import named_address, port_text
from ..units import format_bytes, format_count, format_duration, format_rate, format_share, format_time
from .bursts import detected
from .options import Scope

if TYPE_CHECKING:
    import duckdb

    from ..analysis.bursts.find import BurstDefinition
    from ..packets.source import OpenSource, PacketSource
    from ..packets.write import BurstMarks, TriggerMark, Written
    from ..sql import StoreFolder

RECORDED_BIN_NS = 100_000


@dataclass(frozen=True)
class PacketInput:
    """Where packets are taken from, and how the captures were recorded. The packets come from the capture FILES, from a
    RING, or, if neither is given, from the files that the store's recording names."""

    files: Sequence[str] = ()
    ring: Path | None = None
    filter: str = ""
    local: Sequence[str] = ()
    inner: bool = False


@dataclass(frozen=True)
class ChosenBurst:
    """The burst with this NUMBER in the list of `mburst bursts`, with its recording, its senders (source, share, name,
    and whether the fan-in counts it), and the trigger before it."""

    number: int
    burst: Mapping[str, Any]
    recording: Mapping[str, Any]
    senders: Sequence[Mapping[str, Any]]
    trigger: TriggerMark | None


@dataclass(frozen=True)
class Extracted:
    """The packets that were written: of which burst, from which source."""

    chosen: ChosenBurst
    source: OpenSource
    written: Written


@contextmanager
def recorded_captures(files: Sequence[str], wanted: BurstDefinition, how: PacketInput) -> Iterator[StoreFolder]:
    """Yields a temporary store of FILES, recorded as `mburst record` does. Raises MburstError."""
    from ..sql import StoreFolder
    from .recording import record

    width = wanted.bin_ns or RECORDED_BIN_NS
    with temporary.folder("mburst-extract-") as folder:
        record(
            list(files),
            Path(folder, "store"),
            filter=how.filter,
            link=wanted.link_bps,
            bin=width if width % RECORDED_BIN_NS else RECORDED_BIN_NS,
            local=list(how.local),
            inner_ip=how.inner,
        )
        yield StoreFolder.open(Path(folder, "store"))


def choose(
    store: StoreFolder,
    wanted: BurstDefinition,
    scope: Scope,
    which: int | str | None,
    at_ns: int | None,
    *,
    force: bool = False,
) -> ChosenBurst:
    """Returns the burst with the number WHICH ("last": the last burst), or the burst at the time AT_NS. Raises
    MburstError."""
    with detected(store, wanted, scope, force=force) as con:
        number, key = _number_at(con, at_ns) if at_ns is not None else _number_of(con, which)
        [burst] = _dicts(con, f"FROM listed LIMIT 1 OFFSET {number - 1}")
        [recording] = _dicts(
            con,
            """SELECT *, (SELECT count(DISTINCT interface) FROM recordings AS of_capture
                          WHERE of_capture.capture_id = recordings.capture_id) AS interfaces
               FROM recordings WHERE recording_id = $id""",
            {"id": burst["recording_id"]},
        )
        senders = _dicts(
            con,
            """SELECT source, share, s.counted, name FROM burst_sources s LEFT JOIN burst_names USING (burst, source)
               WHERE burst = $burst AND members = 1 ORDER BY place""",
            {"burst": key},
        )
        return ChosenBurst(number, burst, recording, senders, _trigger(con, {**burst, "burst": key}))


def _dicts(con: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    from ..analysis.read.rows import dicts

    return dicts(con, query, dict(values or {}))


def _number_of(con: duckdb.DuckDBPyConnection, which: int | str | None) -> tuple[int, int]:
    """Returns the place of a burst in the list, from 1, and its key in the tables of detect_bursts."""
    keys = [key for (key,) in con.execute("SELECT burst FROM bursts ORDER BY burst").fetchall()]
    if not keys:
        raise MburstError("no burst by this definition", "see `mburst bursts`, and --threshold and --bin")
    number = len(keys) if which == "last" else int(which or 0)
    if not 1 <= number <= len(keys):
        raise MburstError(f"no burst {which}: there are {len(keys):,}", "`mburst bursts` lists them with their numbers")
    return number, keys[number - 1]


def _number_at(con: duckdb.DuckDBPyConnection, at_ns: int) -> tuple[int, int]:
    placed = "(SELECT *, row_number() OVER (ORDER BY burst) AS number FROM bursts)"
    found = _dicts(con, f"FROM {placed} WHERE start_ns <= $at AND end_ns > $at ORDER BY number", {"at": at_ns})
    if len(found) == 1:
        return found[0]["number"], found[0]["burst"]
    if found:
        named = ", ".join(f"{one['number']} ({one['host']} {one['interface']} {one['direction']})" for one in found)
        raise MburstError(f"several bursts at {format_time(at_ns)} UTC: {named}", "choose one with --burst")
    near = _dicts(con, f"FROM {placed} ORDER BY greatest(start_ns - $at, $at - end_ns) LIMIT 1", {"at": at_ns})
    nearest = f": the nearest is {near[0]['number']}, from {format_time(near[0]['start_ns'])}" if near else ""
    raise MburstError(f"no burst at {format_time(at_ns)} UTC{nearest}", "choose one with --burst")


def _trigger(con: duckdb.DuckDBPyConnection, burst: dict[str, Any]) -> TriggerMark | None:
    """Returns the fan-out of the host before this burst, from analysis.cause.trigger."""
    from ..analysis.cause import trigger
    from ..packets.write import TriggerMark

    found = trigger.trigger(con, [burst])
    if found is None:
        return None
    since_ns = int(trigger.onsets(con, [burst])[0]) - round(found.lead_ns)
    port = "" if found.port is None else f", most to port {port_text(found.port)}"
    return TriggerMark(
        since_ns, found.port, f"mburst: perhaps the trigger: this host sends on {found.flows} flows at once{port}"
    )


def source_of(chosen: ChosenBurst, store: Path, given: PacketInput, since_ns: int, until_ns: int) -> PacketSource:
    """Returns the source of the packets of the time. Raises MburstError."""
    from ..packets import source

    if given.ring:
        found = source.of_ring([given.ring], since_ns, until_ns)
    elif given.files:
        found = source.PacketSource(list(given.files), chosen.recording["interface"])
    else:
        found = source.of_recording(store, chosen.recording, since_ns, until_ns)
    if chosen.recording["interfaces"] == 1:
        found = replace(found, interface=None)
    expression = "" if given.ring or chosen.recording["backend"] != "file" else chosen.recording["filter"]
    return replace(found, filter=expression, local=given.local, inner=given.inner)


def extract(
    store: StoreFolder, chosen: ChosenBurst, given: PacketInput, wanted: BurstDefinition, around_ns: int, output: Path
) -> Extracted:
    """Write the packets of the burst, and of AROUND_NS before and after it, to OUTPUT. Raises MburstError if no packet
    belongs to the burst; then nothing is written."""
    from .. import files
    from ..packets.source import open_source
    from ..packets.write import write_packets

    burst = chosen.burst
    since_ns, until_ns = burst["start_ns"] - around_ns, burst["end_ns"] + around_ns
    opened = open_source(lambda: source_of(chosen, store.path, given, since_ns, until_ns), since_ns, until_ns)
    if any(_is_same(output, name) for name in opened.source.files):
        raise UsageError(f"{output}: the output is the capture itself", "name another file with -o")
    frames = opened.frames()
    first = next(frames, None)
    if first is None or opened.interface is None:
        raise _nothing(chosen, opened)
    interface = {**opened.interface, "name": burst["interface"], "link_bps": burst["link_bps"]}
    header = header_of(chosen, wanted, since_ns, until_ns)
    with files.writing(output, "the packets", "name another file with -o", files.PRIVATE) as stream:
        written = write_packets(stream, _again(first, frames), marks_of(chosen), header, interface)  # type: ignore[arg-type]
        if not written.of_burst:
            raise _nothing(chosen, opened)
    return Extracted(chosen, opened, written)


def _is_same(path: Path, name: str) -> bool:
    """Whether both name one file that exists."""
    with suppress(OSError):
        return path.samefile(name)
    return False


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _nothing(chosen: ChosenBurst, opened: OpenSource) -> MburstError:
    burst = chosen.burst
    others = f"; it has {', '.join(sorted(opened.others))}" if opened.others else ""
    return MburstError(
        f"{opened.source.files[0]}: no packet of burst {chosen.number} ({format_time(burst['start_ns'])} UTC, "
        f"{burst['interface']} {burst['direction']}){others}",
        "name the capture that was recorded",
    )


def marks_of(chosen: ChosenBurst) -> BurstMarks:
    """Returns the comments on the packets."""
    from ..packets.write import BurstMarks

    burst = chosen.burst
    senders = {
        sender["source"]: f"mburst: sender {named_address(sender['source'], sender['name'])}: "
        f"{format_share(sender['share'])} of the burst, "
        + ("in the fan-in" if sender["counted"] else "not in the fan-in")
        for sender in chosen.senders
    }
    return BurstMarks(
        burst["direction"],
        burst["start_ns"],
        burst["end_ns"],
        f"mburst: burst {chosen.number} begins: {described(burst)}",
        f"mburst: burst {chosen.number} ends",
        senders,
        chosen.trigger,
    )


def described(burst: Mapping[str, Any]) -> str:
    """Returns a description of a burst, such as "33 ms, 100 % of 1 Gb/s on average (fullest bin 106 %), 4.11 MB, fan-in
    40 of 45 senders, incast"."""
    senders = format_count(burst["sources"], "sender")
    whose = f"fan-in {burst['fan_in']:,} of {senders}, {burst['pattern']}" if burst["fan_in"] else "senders not known"
    return (
        f"{format_duration(burst['duration_ns'])}, {format_share(burst['mean_utilization'])} of "
        f"{format_rate(burst['link_bps'])} on average (fullest bin {format_share(burst['peak_utilization'])}), "
        f"{format_bytes(burst['bytes'])}, {whose}"
    )


def header_of(chosen: ChosenBurst, wanted: BurstDefinition, since_ns: int, until_ns: int) -> list[str]:
    """Returns the comments at the start of the file."""
    from ..analysis.bursts.find import definition_text

    burst = chosen.burst
    width = burst["bin_ns"]
    definition = definition_text(wanted.threshold, wanted.release, wanted.joined_ns(width), wanted.shortest_ns(width))
    return [
        f"mburst: burst {chosen.number} of {burst['host']} {burst['interface']} {burst['direction']}, "
        f"{format_time(burst['start_ns'])} to {format_time(burst['end_ns'])} UTC: {described(burst)}",
        f"mburst: bins of {format_duration(width)}; {definition}",
        f"mburst: packets from {format_time(since_ns)} to {format_time(until_ns)} UTC",
    ]

"""Canary bursts on their way from the sender to the store: the notes of what was sent, as a file that can be copied to
the recorder, and the rows of what was recorded of it."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import files
from ..errors import MburstError
from ..sent_burst import SentBurst
from ..units import NS_PER_HOUR, PLAUSIBLE_NS, format_count

if TYPE_CHECKING:
    import duckdb

    from ..analysis.bursts.find import BurstDefinition
    from ..analysis.canary.detection import LaneDetections
    from ..sql import StoreFolder

FORMAT = 1
MOST_BYTES = 64 << 20  # largest file of notes
AROUND_NS = NS_PER_HOUR  # greatest difference of the two clocks
POLL_S = 0.25
SETTLED_S = 3.0  # after this time without another packet, no more are expected
_RUN = re.compile(r"canary-[0-9a-f]{16}")


@dataclass(frozen=True)
class CanaryRun:
    """A run of `mburst canary`: the bursts that were sent, and their target."""

    batch: str
    target: str
    port: int
    source: str
    link_bps: int
    bursts: Sequence[SentBurst]

    def text(self) -> str:
        """Returns the content of a file of notes."""
        content = {
            "mburst_canary": FORMAT,
            **{name: getattr(self, name) for name in _HEAD},
            "bursts": [asdict(burst) for burst in self.bursts],
        }
        return json.dumps(content, ensure_ascii=False) + "\n"


_HEAD = {"batch": str, "target": str, "port": int, "source": str, "link_bps": int}


def new_batch() -> str:
    """Returns a new name for a run."""
    return f"canary-{secrets.token_hex(8)}"


def load(path: Path) -> CanaryRun:
    """Returns the notes in a file. Raises MburstError if it is not a file of notes, or damaged."""
    wrong = MburstError(f"{path}: not what `mburst canary --sent` writes, or damaged")
    try:
        content = json.loads(files.first_line(path, MOST_BYTES))
        if content.pop("mburst_canary") != FORMAT:
            raise MburstError(
                f"{path}: notes of another version of mburst", "use the version that wrote them, or a newer one"
            )
        bursts = [_burst(one) for one in content.pop("bursts")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise wrong from error
    if (
        {name: type(value) for name, value in content.items()} != _HEAD
        or not _RUN.fullmatch(content["batch"])
        or content["link_bps"] <= 0
        or not _in_order(bursts)
    ):
        raise wrong
    return CanaryRun(**content, bursts=bursts)


def _burst(content: dict[str, Any]) -> SentBurst:
    """Returns a burst of the notes. Raises ValueError or TypeError for invalid values."""
    kinds = {"int": int, "str": str, "bool": bool}
    wanted = {field.name: kinds[str(field.type)] for field in fields(SentBurst)}
    one = SentBurst(**content)
    if any(type(getattr(one, name)) is not kind for name, kind in wanted.items()):
        raise TypeError
    numbers = (one.number, one.size_bytes, one.length_ns, one.error_ns, one.packets, one.bytes)
    if (
        min(numbers) < 0
        or max(numbers) >= 2**62
        or not PLAUSIBLE_NS[0] <= one.start_ns <= one.end_ns < PLAUSIBLE_NS[1]
        or not one.packets
        or not one.bytes
        or one.stamps not in ("sw", "app")
    ):
        raise ValueError
    return one


def _in_order(bursts: Sequence[Any]) -> bool:
    """Whether there is a burst, and each begins after the end of the previous one."""
    return bool(bursts) and all(a.end_ns < b.start_ns and a.number < b.number for a, b in pairwise(bursts))


def connected(store: StoreFolder, run: CanaryRun) -> duckdb.DuckDBPyConnection:
    """Open the store for the time of the run by either clock. Raises MburstError."""
    from ..analysis.model.whole import whole_since

    span = run.bursts[0].start_ns - AROUND_NS, run.bursts[-1].end_ns + AROUND_NS
    con = store.connect(None, *span)
    whole_since(con, "the detection of canary bursts", *span)
    return con


def interface_of(address: str) -> str:
    """Returns the interface that has an address of this host, or ''."""
    from . import prober

    if ":" not in address:
        return prober.interface_of(address)
    wanted = ipaddress.ip_address(address).packed.hex()
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    except OSError:
        return ""
    return next((row[5] for row in rows if row[0] == wanted), "")


def recorded_speeds(store: StoreFolder, host: str) -> list[int]:
    """Returns the speeds of the links on which HOST was recorded, or of all links if the store has no such host."""
    with store.connect() as con:
        rows = con.execute("SELECT DISTINCT host, link_bps FROM recordings WHERE link_bps IS NOT NULL").fetchall()
    own = [speed for name, speed in rows if name == host]
    return own or [speed for _, speed in rows]


def wait_for(store: StoreFolder, run: CanaryRun, timeout_s: float, stopped: Callable[[], object]) -> None:
    """Return once the store has all packets of the run and the bins after them, no more packets come, or TIMEOUT_S has
    passed. Raises MburstError."""
    from ..analysis.read.canary import recorded_of

    wanted = sum(burst.packets for burst in run.bursts)
    since = run.bursts[0].start_ns - AROUND_NS
    until, most, changed = time.monotonic() + timeout_s, 0, time.monotonic()
    while time.monotonic() < until and not stopped():
        with connected(store, run) as con:
            packets, binned = recorded_of(con, run.source, since)
        if packets > most:
            most, changed = packets, time.monotonic()
        if binned and (packets >= wanted or (packets and time.monotonic() - changed > SETTLED_S)):
            return
        time.sleep(POLL_S)


def read(
    store: StoreFolder, run: CanaryRun, definition: BurstDefinition, host: str | None = None, source: str | None = None
) -> list[LaneDetections]:
    """Store in STORE what its recordings (of HOST if it is given) show of a run, and return it. SOURCE is the sender's
    name in the recordings, if that is not its own address. Raises MburstError if they show nothing of the run."""
    from ..analysis.canary.detection import read_lane
    from ..analysis.read.canary import lanes_with

    sender = source or run.source
    with connected(store, run) as con:
        recordings = lanes_with(con, sender, host)
        if not recordings:
            raise MburstError(
                f"{store.path}: no packet of {sender} was recorded within an hour of the canary bursts"
                + (f" at {host}" if host else ""),
                "record at the host that they were sent to; --sender says the sender's name in the recording",
            )
        _demand_speed(recordings, definition)
        lanes = [read_lane(con, recording, sender, run.bursts, definition) for recording in recordings]
    kept = [lane for lane in lanes if lane.rows]
    if not kept:
        packets = sum(recording["packets"] for recording in recordings)
        seen = format_count(packets, f"packet of {sender} was", f"packets of {sender} were")
        raise MburstError(
            f"{store.path}: {seen} recorded, but not when the "
            f"{format_count(len(run.bursts), 'canary burst was', 'canary bursts were')} sent",
            "more bursts, or a sender without other traffic, can be matched",
        )
    read_ns = time.time_ns()
    for lane in kept:
        _keep(store, lane, {"batch": run.batch, "source": sender, "read_ns": read_ns})
    return kept


def _demand_speed(recordings: Sequence[dict[str, Any]], definition: BurstDefinition) -> None:
    for recording in recordings:
        if not definition.line_bps(recording["link_bps"]):
            raise MburstError(
                f"recording {recording['recording_id']} ({recording['host']} {recording['interface']}): "
                "the link speed is not known",
                "give it with --link",
            )


def _keep(store: StoreFolder, lane: LaneDetections, beside: dict[str, Any]) -> None:
    """Store the rows of a lane, durably."""
    import pyarrow as pa

    from ..sql.tables import arrow_schema

    host, rack = lane.recording["host"], lane.recording["rack"]
    with store.writer("canary", host, rack) as writer:
        writer.append(pa.Table.from_pylist([{**row, **beside} for row in lane.rows], arrow_schema("canary")))

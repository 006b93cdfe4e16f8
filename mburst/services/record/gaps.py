"""Gaps: times in which packets were not counted, the rows of `gaps`.

A recording from an interface that did not end normally leaves an open gap from the end of its last bin. The next
recording of the same interface closes it. What was missed is the increase of the interface's own counters from the
start of the first recording to the start of the second, less what the first recorded. So over any number of recordings,
bins, `late`, `dropped` and these gaps add up to the counter."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...machine import was_restarted
from ...quality import Quality
from ...units import NS_PER_S, format_duration
from .backends import SEE_ALL
from .recording import Row

if TYPE_CHECKING:
    from ...sql import StoreFolder

LOST = ("dropped", "reader too slow")  # reasons of gaps whose packets the recording counts as dropped
_JOIN_NS = NS_PER_S  # losses closer together than this are one gap
_LONGEST_NS = 10 * NS_PER_S  # longest row of a continuing gap; then another row begins

_SPLIT = "the clock was set in the time of a loss: its packets before and after that are counted in one gap"


def opened(row: Row, reason: str, detail: str = "") -> Row:
    """Returns the open gap behind the recording with the last row ROW."""
    start_ns = next(ns for ns in (row["end_ns"], row["start_ns"], row["begun_ns"]) if ns is not None)
    return {
        **_place(row),
        "start_ns": start_ns,
        "end_ns": None,
        "reason": reason,
        "packets": None,
        "bytes": None,
        "detail": detail,
    }


def _place(row: Row) -> Row:
    return {name: row[name] for name in ("recording_id", "host", "rack", "interface", "direction")}


def append(store: StoreFolder, rows: list[Row]) -> None:
    """Store gaps of one rack, durably. Raises MburstError."""
    import pyarrow as pa

    if rows:
        with store.writer("gaps", host_of(rows), rows[0]["rack"]) as writer:
            writer.append(pa.Table.from_pylist(rows))


def host_of(rows: list[Row]) -> str:
    """Returns the host of the rows, or '' if there are several, as for switches."""
    hosts = {row["host"] for row in rows}
    return hosts.pop() if len(hosts) == 1 else ""


# --- closed by the next recorder --------------------------------------------------------------------------------------


def close(store: StoreFolder, host: str, interface: str) -> None:
    """End the gaps of an interface that is recorded again. Repeating it is harmless. Raises MburstError."""
    from ...sql.repair.recovery import rows_of

    waiting = still_open(store, "host = ? AND interface = ?", [host, interface])
    if not waiting:
        return
    recordings = newest(
        rows_of(store.path, "recordings", "host = ? AND interface = ? AND boot_id IS NOT NULL", [host, interface])
    )
    closed = [row for gap in waiting if (row := _closed(gap, recordings)) is not None]
    for rack in sorted({row["rack"] for row in closed}):
        append(store, [row for row in closed if row["rack"] == rack])


def still_open(store: StoreFolder, where: str = "true", values: Iterable[Any] = ()) -> list[Row]:
    """Returns the gaps without an end that match WHERE. Raises MburstError."""
    from ...sql.repair.recovery import rows_of

    if store.is_empty("gaps"):
        return []
    gaps = rows_of(store.path, "gaps", where, values)
    over = {_identity(gap) for gap in gaps if gap["end_ns"] is not None}
    return list({_identity(gap): gap for gap in gaps if _identity(gap) not in over}.values())


def _identity(gap: Row) -> tuple[Any, ...]:
    """Returns a key that is equal for rows of one gap, as in the view `gaps`. Only one gap can be behind a
    recording."""
    return gap["recording_id"], gap["direction"], gap["start_ns"] if gap["reason"] in LOST else None


def newest(rows: Iterable[Row]) -> list[Row]:
    """Returns the last row of each recording."""
    last: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: (row["ended"] != "", row["written_ns"])):
        last[row["writer_id"], row["recording_id"]] = row
    return list(last.values())


def _closed(gap: Row, recordings: list[Row]) -> Row | None:
    """Returns GAP with its end and what was missed; None while the interface is not recorded again."""
    before = next((row for row in recordings if row["recording_id"] == gap["recording_id"]), None)
    if before is None:
        return None
    least_ns = max(before["begun_ns"] + 1, gap["start_ns"] - before["bin_ns"])
    later = [row for row in recordings if row["begun_ns"] >= least_ns]
    if not later:
        return None
    begun_ns = min(row["begun_ns"] for row in later)
    next_up = [row for row in later if row["begun_ns"] == begun_ns]
    after = next((row for row in next_up if row["direction"] == gap["direction"]), None)
    fellows = sum(row["capture_id"] == before["capture_id"] for row in recordings)
    packets, octets, why = missed(before, after, fellows)
    detail = "; ".join(text for text in (gap["detail"], why) if text)
    return {**gap, "end_ns": max(begun_ns, gap["start_ns"]), "packets": packets, "bytes": octets, "detail": detail}


def missed(before: Row, after: Row | None, directions: int) -> tuple[int | None, int | None, str]:
    """Returns the packets and bytes that the interface counted, but BEFORE did not, until the start of the next
    recording, AFTER, and a reason for each None. DIRECTIONS is the number of directions in the capture of BEFORE."""
    reason = _incomparable(before, after, directions)
    if reason or after is None:
        return None, None, reason
    moved = after["begun_packets"] - before["begun_packets"]
    packets = moved - before["packets"] - before["dropped"] - before["late"]
    if packets < 0:
        return None, None, f"not known how many packets: the interface counted {moved:,}, fewer than were recorded"
    if None in (before["begun_bytes"], after["begun_bytes"]):
        return packets, None, "not known how many bytes: the driver may count them differently"
    if before["dropped"]:
        return packets, None, "not known how many bytes: nor how many were dropped"
    octets = after["begun_bytes"] - before["begun_bytes"] - before["bytes"] - before["late_bytes"]
    return packets, octets if octets >= 0 else None, ""


def _incomparable(before: Row, after: Row | None, directions: int) -> str:
    """Returns why the interface's counters do not show what was missed; '' if they do."""
    reasons = (
        (after is None, "no packet in this direction when it was recorded again"),
        (not before["boot_id"], "the host does not report whether it was restarted"),
        (after and before["boot_id"] != after["boot_id"], "the host was restarted, and its counters with it"),
        (after and before["interface_id"] != after["interface_id"], "the interface was recreated, and its counters"),
        (None in (before["begun_packets"], after and after["begun_packets"]), "no interface counter of this direction"),
        (before["backend"] not in SEE_ALL, f"{before['backend']} may not see what the interface counts"),
        (before["filter"], "the filter left packets out"),
        (before["quality"] & Quality.GRO, "merged frames (GRO, TSO) are not what the interface counts"),
        (before["dropped"] and directions > 1, "packets of both directions were dropped, not known how many of each"),
    )
    return next((f"not known how many packets: {text}" for holds, text in reasons if holds), "")


# --- during the recording ---------------------------------------------------------------------------------------------


class GapWriter:
    """Merges the losses of one capture into gaps, and appends them to the store as they end."""

    def __init__(self, store: StoreFolder, host: str, rack: str, writer_id: str) -> None:
        self._writer = store.writer("gaps", host, rack, writer_id)
        self._gap: Row | None = None
        self._looked, self._looked_ns = time.monotonic_ns(), time.time_ns()
        self._stalls: list[tuple[int, int]] = []  # times in which the recorder did not read

    def look(self, losses: list[tuple[int, int, int, bool]], rows: list[Row]) -> None:
        """Add the LOSSES of a capture, as its losses() returns them. Called after every read; ROWS are the capture's
        rows of recordings."""
        now, passed = time.time_ns(), time.monotonic_ns() - self._looked
        self._looked += passed
        if passed > NS_PER_S:  # by the clock before it and the one after it: it may have been set meanwhile
            before = self._looked_ns, self._looked_ns + passed
            self._stalls = [*self._stalls[-18:], before, (now - passed, now)]
        self._looked_ns = now
        for first_ns, last_ns, packets, is_split in losses:
            self._add(first_ns, last_ns, packets if packets or not is_split else None, rows)
            if is_split and self._gap and _SPLIT not in self._gap["detail"]:
                self._gap["detail"] = "; ".join(text for text in (self._gap["detail"], _SPLIT) if text)
        if self._gap and now - self._gap["end_ns"] > 2 * _JOIN_NS:
            self._flush()

    def _add(self, first_ns: int, last_ns: int, packets: int | None, rows: list[Row]) -> None:
        stall = next((stall for stall in self._stalls if stall[0] <= last_ns and first_ns <= stall[1]), None)
        reason = "reader too slow" if stall else "dropped"
        gap = self._gap
        if gap and (
            gap["reason"] != reason
            or not gap["start_ns"] <= first_ns <= gap["end_ns"] + _JOIN_NS
            or last_ns - gap["start_ns"] > _LONGEST_NS
        ):
            self._flush()
        if self._gap is None:
            detail = f"the recorder did not read for {format_duration(stall[1] - stall[0])}" if stall else ""
            both = {"direction": "both"} if len(rows) > 1 else {}
            self._gap = {
                **_place(rows[0]),
                **both,
                "start_ns": first_ns,
                "end_ns": last_ns,
                "reason": reason,
                "packets": packets,
                "bytes": None,
                "detail": detail,
            }
        else:
            self._gap["end_ns"] = max(last_ns, self._gap["end_ns"])
            if packets is not None:
                self._gap["packets"] = packets + (self._gap["packets"] or 0)

    def _flush(self) -> None:
        import pyarrow as pa

        gap, self._gap = self._gap, None
        if gap:
            self._writer.append(pa.Table.from_pylist([gap]))

    def close(self) -> None:
        """Store the remaining gap. Raises MburstError."""
        self._flush()
        self._writer.close()


def cause(boot: str | None, reason: str) -> str:
    """Returns why a recording has no end: `power` if the host was restarted since, else REASON, which the recorder
    left, or `killed`."""
    return "power" if was_restarted(boot) else reason or "killed"

"""A trace for Perfetto has the data of the store; it is decoded with Perfetto's own messages."""

from __future__ import annotations

import builtins
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reportlib
from hypothesis import given
from hypothesis import strategies as st
from livestore import SECOND, Growing, filled
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import BUILTIN_CLOCK_REALTIME, Trace, TrackEvent
from reportlib import BIN, FULL, LONG, SHORT, START
from storelib import write

from mburst.__main__ import main
from mburst.analysis.answers import trace as trace_answer
from mburst.analysis.bursts.find import find_bursts
from mburst.analysis.model.envelope import Envelope, with_detail
from mburst.sql import StoreFolder

NOW = 1_795_228_500_000_000_000
LANE = "cache-1 eth0 inbound (rack r1, 1 Gb/s)"


class Decoded:
    """A trace by the names of its tracks, from the root."""

    def __init__(self, path: Path) -> None:
        trace = Trace.FromString(path.read_bytes())
        described = {
            p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")
        }
        self.snapshots = [packet.clock_snapshot for packet in trace.packet if packet.HasField("clock_snapshot")]
        self.clocks = {packet.timestamp_clock_id for packet in trace.packet if packet.HasField("timestamp")}
        self.counters: dict[tuple[str, ...], list[tuple[int, float]]] = defaultdict(list)
        self.slices: dict[tuple[str, ...], list[tuple[int, int, str, dict[str, Any]]]] = defaultdict(list)
        self.instants: dict[tuple[str, ...], list[tuple[int, str]]] = defaultdict(list)
        begun: dict[int, Any] = {}
        for packet in (packet for packet in trace.packet if packet.HasField("track_event")):
            event, track = packet.track_event, packet.track_event.track_uuid
            names, at = [], track
            while at:  # a descriptor precedes its events
                names.insert(0, described[at].name)
                at = described[at].parent_uuid
            if event.type == TrackEvent.TYPE_COUNTER:
                value = event.counter_value if event.HasField("counter_value") else event.double_counter_value
                self.counters[tuple(names)].append((packet.timestamp, value))
            elif event.type == TrackEvent.TYPE_INSTANT:
                self.instants[tuple(names)].append((packet.timestamp, event.name))
            elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
                assert track not in begun, "slices of a track overlap"
                begun[track] = packet.timestamp, event
            else:
                start, first = begun.pop(track)
                arguments = {one.name: plain(one) for one in first.debug_annotations}
                self.slices[tuple(names)].append((start, packet.timestamp, first.name, arguments))
        assert not begun
        for found in self.slices.values():
            found.sort(key=lambda one: one[:3])

    def counter_of(self, *prefix: str) -> list[tuple[int, float]]:
        """Returns the only counter with a last name that begins like the last of PREFIX."""
        *above, last = prefix
        [name] = [name for name in self.counters if name[:-1] == tuple(above) and name[-1].startswith(last)]
        return self.counters[name]


def plain(annotation: Any) -> Any:
    """Returns the value of a debug annotation."""
    if annotation.dict_entries:
        return {entry.name: plain(entry) for entry in annotation.dict_entries}
    if annotation.array_values:
        return [plain(value) for value in annotation.array_values]
    kind = annotation.WhichOneof("value")
    return getattr(annotation, kind) if kind else []


def known(value: Any) -> Any:
    """Returns the value without NULLs, which a trace leaves out."""
    if isinstance(value, list):
        return [known(one) for one in value]
    return {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value


def value_at(points: list[tuple[int, float]], at_ns: np.ndarray) -> np.ndarray:
    """Returns the value that is valid at each time."""
    times = np.array([at for at, _ in points], np.int64)
    return np.array([value for _, value in points])[np.searchsorted(times, at_ns, "right") - 1]


def exported(folder: Path, *options: str) -> Decoded:
    assert main(["export", str(folder), "-o", str(folder.parent / "t.pftrace"), *options]) == 0
    return Decoded(folder.parent / "t.pftrace")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> StoreFolder:
    return filled(tmp_path_factory.mktemp("trace") / "store")


@pytest.fixture(scope="module")
def decoded(store) -> Decoded:
    return exported(store.path)


def test_bursts_and_senders_are_those_of_the_store(store, decoded):
    bursts = find_bursts(store.connect())
    assert len(bursts) == 2
    found = decoded.slices[LANE, "bursts"]
    assert [one[:2] for one in found] == [(burst["start_ns"], burst["end_ns"]) for burst in bursts]
    for (*_, facts), burst in zip(found, bursts, strict=True):
        assert facts == {key: known(burst[key]) for key in facts} and facts["bytes"] and facts["top_sources"]
    assert [one[2].split(":")[0] for one in found] == ["incast", "single-source"]
    senders = [(start, end, facts) for start, end, _, facts in decoded.slices[LANE, "senders of bursts"]]
    wanted = [(burst["start_ns"], burst["end_ns"], known(top)) for burst in bursts for top in burst["top_sources"]]
    assert sorted(senders, key=str) == sorted(wanted, key=str) and len(senders) == 5


def test_each_bin_is_in_the_utilization(decoded):
    bins = reportlib.wire()
    numbers = np.arange(max(bins))
    found = value_at(decoded.counter_of(LANE, "utilization, by bins of 100 µs"), START + numbers * BIN)
    assert found == pytest.approx([bins.get(i, 0) * 100 / FULL for i in numbers])
    by_second = value_at(decoded.counter_of(LANE, "utilization by 1 s"), START + np.arange(19) * SECOND)
    sums = np.bincount([i // 10_000 for i in bins], list(bins.values()))[:19]
    assert by_second == pytest.approx(sums * 100 / (FULL * 10_000))


def test_probes_and_queues_are_those_of_the_store(store, decoded):
    con = store.connect()
    latency = con.execute("SELECT tx_ns, latency_ns FROM latency WHERE NOT lost ORDER BY tx_ns").fetchall()
    path = ("probes", "api → cache-1 (udp)")
    assert decoded.counter_of(*path, "latency") == latency and len(latency) == 1999
    assert decoded.instants[*path, "late and lost probes"] == [
        (START + 500 * reportlib.PROBE + 3, "late"),
        (START + 1000 * reportlib.PROBE + 3, "lost"),
    ]
    windows = con.execute("SELECT window_start_ns, max_bytes FROM queues ORDER BY 1").fetchall()
    [depth] = [points for name, points in decoded.counters.items() if name[0] == "switch queues"]
    assert depth == windows


def test_all_times_have_one_named_clock(decoded):
    [snapshot] = decoded.snapshots
    assert decoded.clocks == {BUILTIN_CLOCK_REALTIME} == {snapshot.primary_trace_clock}
    assert [(clock.clock_id, clock.timestamp) for clock in snapshot.clocks] == [(BUILTIN_CLOCK_REALTIME, START)]


def test_a_long_time_keeps_each_cells_fullest_bin_and_bursts_bin_by_bin(store, monkeypatch):
    few = replace(trace_answer.LIMITS, whole_bins=500, cells=500, detail_bins=400)
    monkeypatch.setattr(type(few), "share", lambda limits, lanes: limits)
    monkeypatch.setattr(trace_answer, "LIMITS", few)
    found = exported(store.path, "--since", "2026-11-21T02:34").counter_of(LANE, "utilization, fullest bin of 100 µs")
    bins = reportlib.wire()
    assert len(found) < 2000
    values = value_at(found, START + np.arange(max(bins)) * BIN)
    assert values.max() == 100
    assert values[SHORT : SHORT + 2] == pytest.approx([bins[SHORT] / 125, bins[SHORT + 1] / 125])
    assert all(values[i] >= wire / 125 - 1e-9 for i, wire in bins.items() if i < max(bins))
    assert values[LONG : LONG + 300] == pytest.approx([bins[i] / 125 for i in range(LONG, LONG + 300)])


def test_time_that_was_not_recorded_is_a_slice(tmp_path):
    growing = Growing(tmp_path / "store", NOW)
    growing.append([84, FULL, FULL, 84])
    growing.rest(100)
    growing.append([FULL, 84], quality=32)
    growing.end()
    growing.close()
    decoded = exported(tmp_path / "store")
    lane = "cache-1 eth1 inbound (rack r1, 1 Gb/s)"
    recorded = growing.store.connect().execute("SELECT start_ns, end_ns FROM recorded ORDER BY 1").fetchall()
    gap = recorded[0][1], recorded[1][0]
    assert gap[1] == NOW + 104 * BIN and gap[1] - gap[0] > 90 * BIN
    assert [one[:2] for one in decoded.slices[lane, "not recorded"]] == [gap]
    assert [one[:2] for one in decoded.slices[lane, "packets lost while recording"]] == [(gap[1], gap[1] + 2 * BIN)]
    values = value_at(decoded.counter_of(lane, "utilization, by bins"), np.array([NOW + 3 * BIN, *gap]))
    assert values == pytest.approx([84 / 125, 0, 100])


def test_a_span_has_only_data_of_its_time(store, tmp_path):
    decoded = exported(store.path, "--since", "2026-11-21T02:34:05", "--until", "2026-11-21T02:34:06")
    [burst] = decoded.slices[LANE, "bursts"]
    assert burst[0] == START + LONG * BIN
    times = [at for points in decoded.counters.values() for at, _ in points]
    assert min(times) >= START + 5 * SECOND - BIN and max(times) <= START + 6 * SECOND


@pytest.mark.parametrize(
    "options, said",
    [
        (["--since", "2020-01-01", "--until", "2020-01-02"], "nothing of that time"),
        (["--host", "nobody"], "no recording of host nobody"),
        (["-o", "/proc/1/t.pftrace"], "the trace cannot be written"),
    ],
)
def test_refusals_are_one_line(store, tmp_path, capsys, options, said):
    assert main(["export", str(store.path), "-o", str(tmp_path / "t"), *options]) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not list(tmp_path.iterdir())


def test_recordings_of_one_port_direction_count_once(store, tmp_path, capsys):
    copy = StoreFolder.open(shutil.copytree(store.path, tmp_path / "store"))
    with copy.connect() as con:
        [row] = con.sql("FROM recordings WHERE complete LIMIT 1").to_arrow_table().to_pylist()
        lanes = "SELECT count(DISTINCT (rack, host, interface, direction)) FROM recordings"
        [(directions,)] = con.execute(lanes).fetchall()
    write(copy, "recordings", {**row, "recording_id": "other-1", "bin_ns": 10 * row["bin_ns"]})
    exported(copy.path)
    assert f" {directions} port direction" in capsys.readouterr().out


def test_an_empty_store_is_refused(tmp_path, capsys):
    StoreFolder.create(tmp_path / "store")
    assert main(["export", str(tmp_path / "store"), "-o", str(tmp_path / "t")]) == 1
    assert "empty" in capsys.readouterr().err and not (tmp_path / "t").exists()


def test_times_before_1970_are_refused(tmp_path, capsys):
    store, path = StoreFolder.create(tmp_path / "store"), tmp_path / "out.pftrace"
    names = {"recording_id": "run-1", "host": "cache-1"}
    write(store, "recordings", {**names, "bin_ns": BIN, "start_ns": -BIN, "end_ns": BIN})
    write(store, "bins", {**names, "ts_ns": -BIN}, {**names, "ts_ns": 0})
    assert main(["export", str(store.path), "-o", str(path)]) == 1 and not path.exists()
    error = "a trace has no times before 1970 (export what is later: --since 1970-01-01)"
    assert capsys.readouterr().err == f"mburst: {error}\n"
    assert main(["export", str(store.path), "-o", str(path), "--since", "1970-01-01"]) == 0
    assert {at for counts in Decoded(path).counters.values() for at, _ in counts} >= {0}


def test_the_missing_extra_is_named_and_leaves_no_file(store, tmp_path, monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("perfetto"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="perfetto")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["export", str(store.path), "-o", str(tmp_path / "t")]) == 1
    error = capsys.readouterr().err
    assert "perfetto is not installed" in error and "pip install 'mburst[perfetto]'" in error
    assert not list(tmp_path.iterdir())


@given(
    st.dictionaries(st.integers(0, 60), st.integers(1, FULL), max_size=40),
    st.sets(st.integers(0, 12), max_size=5),
    st.integers(1, 6),
)
def test_detail_stands_in_place_of_its_cells(bins, picked, factor):
    def envelope(chosen: list[int]) -> Envelope:
        wire = np.array([bins[i] for i in chosen], np.int64)
        return Envelope(BIN, BIN, np.array(chosen, np.int64), wire, wire, np.ones_like(wire))

    base = envelope(sorted(bins)).coarsen(factor)
    detail = envelope([i for i in sorted(bins) if i // factor in picked])
    starts, ends, values = with_detail(base, detail, sorted(picked & set(base.cells.tolist())))
    slow = {}
    for i, wire in bins.items():
        cell = (i, i + 1) if i // factor in picked else (i // factor * factor, (i // factor + 1) * factor)
        slow[cell] = max(slow.get(cell, 0), wire)
    found = {(int(a) // BIN, int(b) // BIN): round(v * BIN / 8e9) for a, b, v in zip(starts, ends, values, strict=True)}
    assert found == slow and (np.diff(starts) > 0).all()

"""Whether the counters of a switch and the bins of a host agree, in cases with a known truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import Setting, build
from latency_store import ORIGIN, store_case
from storelib import write

from mburst.__main__ import main
from mburst.analysis.cause.conservation import (
    ENOUGH,
    FRAMING,
    TUNNELLED,
    Agreement,
    BinContent,
    SwitchWindows,
    counted,
    drained,
    grown,
)
from mburst.analysis.cause.evidence.switch import PortQueue
from mburst.analysis.cause.port import Port, port_from_bins
from mburst.analysis.cause.signals import Signals
from mburst.sql import StoreFolder

LINK, BIN, SECONDS = 1e9, 100_000, 4.0
OVERHEAD = 24


@dataclass(frozen=True)
class Wrong:
    """The errors of a simulated case."""

    lost: float = 0.0  # share of all frames, lost by the host
    known: bool = False  # the recorder reports the loss
    reset: bool = False  # the counter was reset within a window without a flag
    elsewhere: bool = False  # the counter is another port's
    apart_ns: float = 0.0  # by how much the switch's clock is ahead of the host's
    extra: int = 4  # bytes of each frame that the switch counts and the host does not
    late: bool = False  # one window in ten is stamped late, no two in a row
    alike: bool = False  # all frames have the same length


def traffic(seed: int, alike: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Returns times and lengths (without FCS) of frames: bursts at line rate over a background of small frames, or of
    equally large ones."""
    rng = np.random.default_rng(seed)
    span = SECONDS * 1e9
    starts = np.sort(rng.uniform(0, span - 5e7, 60))
    bursts = [start + np.arange(int(rng.integers(50, 1200))) * 12_304.0 for start in starts]
    small = rng.uniform(0, span, 8_000)
    time = np.concatenate([*bursts, small])
    size = np.concatenate([np.full(len(time) - len(small), 1514.0), rng.integers(60, 700, len(small))])
    size = np.full(len(time), 1514.0) if alike else size
    order = np.argsort(time)
    return time[order], size[order]


def made(
    seed: int, wrong: Wrong, width: float = 5e7
) -> tuple[Port, SwitchWindows, Callable[[SwitchWindows], BinContent]]:
    rng = np.random.default_rng([seed, 1])
    time, size = traffic(seed, wrong.alike)
    edges = np.arange(0, SECONDS * 1e9 + 1, width)
    counted_time, counted_size = traffic(seed + 1000) if wrong.elsewhere else (time, size)
    late = wrong.late & (rng.random(len(edges)) < 0.1)
    late[1:] &= ~late[:-1]
    late[[0, -1]] = False
    stamps = edges + np.where(late, 0.2 * width, 0.0)
    volume, _ = np.histogram(counted_time + wrong.apart_ns, stamps, weights=counted_size + wrong.extra)
    if wrong.reset:
        volume[2 + np.argmax(volume[2:-2])] *= 0.3
    seen = rng.random(len(time)) >= wrong.lost
    time, size = time[seen], size[seen]
    count = int(SECONDS * 1e9 / BIN)
    wire = np.histogram(time, count, (0, SECONDS * 1e9), weights=size + OVERHEAD)[0].astype(np.int64)
    begin = np.arange(count) * float(BIN)
    port = port_from_bins(("h", "eth0", "in"), LINK, BIN, [(begin, wire)], [(0.0, SECONDS * 1e9)])
    sums = np.concatenate(([[0.0], [0.0]], np.cumsum((size, np.ones(len(size))), axis=1)), axis=1)

    def holding(asked: SwitchWindows) -> BinContent:
        bytes_, packets = sums[:, np.searchsorted(time, asked.end)] - sums[:, np.searchsorted(time, asked.start)]
        return BinContent(bytes_, bytes_ + OVERHEAD * packets, packets, np.full(len(packets), wrong.known))

    return port, SwitchWindows("tor p1", edges[:-1], edges[1:], volume, np.zeros(len(volume), dtype=bool)), holding


def of(seed: int, wrong: Wrong, width: float = 5e7, **more: bool) -> Agreement:
    return counted("bytes", *made(seed, wrong, width), **more)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(sorted(FRAMING)), st.sampled_from([1e7, 5e7, 2.5e8]),
       st.floats(-0.5, 0.5), st.booleans())  # fmt: skip
def test_what_agrees_does(seed: int, extra: int, width: float, apart: float, late: bool) -> None:
    """Whatever a device counts of a frame, with clocks up to half a window apart and edges that it stamps late. Few
    windows may not separate a tunnel's headers from losses: the bytes are the same then too, and that is stated."""
    found = of(seed, Wrong(extra=extra, apart_ns=apart * width, late=late), width)
    unclear = extra == TUNNELLED and found.state == "untested" and "fit as well" in found.said
    assert found.agreeing >= ENOUGH * found.windows > 0 and (found.state == "agree" or unclear), found
    assert found.lag_ns == pytest.approx(apart * width, abs=max(0.1 * width, 4 * BIN))


@pytest.mark.parametrize(
    ("seed", "extra", "apart", "late"),
    [(305, -14, -0.275, True), (416240, -14, 0.3246, True), (970136, 4, 0.2283, True), (989811, 0, 0.1461, False)],
)
def test_few_windows_that_fit_at_several_clock_offsets(seed: int, extra: int, apart: float, late: bool) -> None:
    found = of(seed, Wrong(extra=extra, apart_ns=apart * 2.5e8, late=late), 2.5e8)
    assert found.state == "agree" and found.windows < 20
    assert found.lag_ns == pytest.approx(apart * 2.5e8, abs=0.1 * 2.5e8)


@pytest.mark.parametrize(("seed", "extra", "apart"), [(830046, 54, 0.08496624841), (812980, -14, -0.10553347058)])
def test_a_clock_offset_between_two_coarse_steps(seed: int, extra: int, apart: float) -> None:
    """A sixteenth of a window more or less does not fit much better, but the right offset does."""
    found = of(seed, Wrong(extra=extra, apart_ns=apart * 5e7, late=True))
    assert found.agreeing >= ENOUGH * found.windows and found.lag_ns == pytest.approx(apart * 5e7, abs=5e5), found


def test_the_framing_is_named() -> None:
    assert all(of(3, Wrong(extra=extra)).framing == name for extra, name in FRAMING.items())


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.floats(0.06, 0.5))
def test_what_the_host_lost(seed: int, lost: float) -> None:
    """Known to the recorder, the recording is wrong; with a filter too; else it cannot be determined."""
    assert of(seed, Wrong(lost=lost, known=True)).blamed == "host"
    assert of(seed, Wrong(lost=lost), filtered=True).blamed == "host"
    found = of(seed, Wrong(lost=lost))
    assert (found.state, found.blamed) == ("disagree", "") and "more" in found.said
    assert found.ratio is not None and found.ratio > 1 / (1 - lost) * 0.9


@settings(deadline=None, max_examples=10, derandomize=True)
@given(st.integers(0, 10**6))
def test_few_lost_frames_are_not_taken_for_a_tunnel(seed: int) -> None:
    """Loss that the recorder does not report, as large as the headers of a tunnel. Frames of one length cannot show
    which of the two it is."""
    assert of(seed, Wrong(lost=0.035)).state != "agree"
    for wrong in (Wrong(lost=0.035, alike=True), Wrong(extra=54, alike=True)):
        found = of(seed, wrong)
        assert found.state == "untested" and "lost before the recorder" in found.said, found


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_a_counter_that_was_reset(seed: int) -> None:
    """Unflagged, it is the switch that is wrong: a host cannot receive more than was sent. Flagged, it is left out."""
    wrong = Wrong(reset=True)
    found = of(seed, wrong)
    assert (found.state, found.blamed) == ("disagree", "switch") and found.windows - found.agreeing <= 2
    port, volume, holding = made(seed, wrong)
    volume.was_reset[2 + np.argmax(made(seed, Wrong())[1].bytes[2:-2])] = True
    assert counted("bytes", port, volume, holding).state == "agree"


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6))
def test_another_ports_counter_disagrees(seed: int) -> None:
    found = of(seed, Wrong(elsewhere=True))
    assert (found.state, found.blamed) == ("disagree", "")


def test_no_overlap_is_not_agreement() -> None:
    port, volume, holding = made(5, Wrong())
    later = volume._replace(start=volume.start + 1e12, end=volume.end + 1e12)
    assert counted("bytes", port, later, holding).state == "untested"


def backlog(port: Port, speed: float) -> tuple[np.ndarray, PortQueue]:
    """The backlog before each bin of a port if the bytes that it carried at line rate arrived `speed` times as fast,
    and windows of 10 ms that show the backlog."""
    begin, end = port.busy_periods()
    depth = np.zeros(port.bins)
    for a, b in zip(begin.astype(int), end.astype(int), strict=True):
        place = np.arange(b - a)
        came = np.minimum((place + 1) * speed, b - a)
        depth[a:b] = (came - place - 1) * port.bin_bytes
    edges = np.arange(0, port.bins, 100)
    peaks = np.maximum.reduceat(depth, edges)
    return depth, PortQueue("q", edges * float(BIN), (edges + 100) * float(BIN), peaks)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6), st.floats(1.5, 10))
def test_a_queue_leaves_through_its_port_and_grows_by_what_comes(seed: int, speed: float) -> None:
    port, _, _ = made(seed, Wrong())
    depth, queue = backlog(port, speed)
    assert drained(port, queue, 0.0).state == grown(port, queue, depth, 0.0).state == "agree"
    deeper = queue._replace(max_bytes=queue.max_bytes * 3)
    assert drained(port, deeper, 0.0).state == "disagree"
    assert grown(port, queue, depth / 3, 0.0).state == "disagree"
    elsewhere = queue._replace(start=queue.start + 3.7e7, end=queue.end + 3.7e7)
    assert drained(port, elsewhere, 0.0).state == "disagree" and drained(port, elsewhere, 3.7e7).state == "agree"


def stalling(seed: int, idle: float) -> tuple[Port, PortQueue]:
    """Bursts of 1 to 4 MB arrive at once at a link that repeatedly stops for 5 bins, `idle` of the time in which it
    drains a queue. Returns the port, and windows of 10 ms of the queue."""
    rng, bin_bytes = np.random.default_rng(seed), LINK / 8e9 * BIN
    carried, depth = np.zeros(40_000), np.zeros(40_000)
    for begin in range(500, 39_000, 1500):
        size = left = rng.uniform(1e6, 4e6)
        period, phase = round(5 / max(idle, 1e-3)), int(rng.integers(0, 1000))
        for place in range(begin, begin + 1500):
            depth[place] = left
            carried[place] = 0 if idle and (place + phase) % period < 5 else min(left, bin_bytes)
            left -= carried[place]
        assert left < 1 < size
    begin = np.arange(len(carried)) * float(BIN)
    port = port_from_bins(("h", "eth0", "in"), LINK, BIN, [(begin, carried.astype(np.int64))], [(0.0, 4e9)])
    peaks = np.maximum.reduceat(depth, np.arange(0, port.bins, 100))
    edges = np.arange(0, port.bins, 100) * float(BIN)
    return port, PortQueue("q", edges, edges + 100.0 * BIN, peaks)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.08]))
def test_a_link_that_pauses_for_a_moment_still_carries_its_queue(seed: int, idle: float) -> None:
    """A shaper that a hypervisor stops: the full stretches are short, what waited has left."""
    port, queue = stalling(seed, idle)
    assert drained(port, queue, 0.0).state == "agree"
    assert drained(port, queue._replace(max_bytes=queue.max_bytes * 1.5), 0.0).state == "disagree"
    assert drained(*stalling(seed, 0.25), 0.0).state == "disagree"


def test_a_queue_held_by_pause_frames_is_not_compared() -> None:
    """The port stops for a quarter of the time because it is asked to, so its queue does not show which source is
    wrong. With a single pause, the rest agrees or disagrees as before."""
    port, queue = stalling(4, 0.25)
    idle = np.flatnonzero((np.diff(port.carried) == 0) & (np.arange(port.bins) % 1500 > 499)) * float(BIN)

    def with_pauses(at: np.ndarray) -> Port:
        every, none = np.ones(len(at), dtype=np.int64), np.zeros(len(at), dtype=np.int64)
        return replace(port, signals=Signals(BIN, at, np.full(len(at), float(BIN)), 255 * every, every, none, none))

    found = drained(with_pauses(idle), queue, 0.0)
    assert found.state == "untested" and "pause frames" in found.said
    assert drained(with_pauses(idle[:1]), queue, 0.0).state == "disagree"


COUNTS = {"device": "tor", "batch": "g"}


def store_counters(folder: Path, factor: float, other: bool = False, **recording: object) -> Path:
    """Stores an incast and the counters of the switch port before it, which are `factor` times the truth; with OTHER,
    also the counters of another port."""
    case = build("incast", 4, Setting(seconds=8))
    store = store_case(folder, case, **recording)
    port = case.scene.crossings[0].port
    bytes_ = np.diff(port.carried)
    sums = np.add.reduceat(bytes_ - bytes_ // 70, np.arange(0, len(bytes_) // 1000 * 1000, 1000))
    for name, volume in {"p1": sums * factor, **({"p2": sums} if other else {})}.items():
        write(store, "ports", *({**COUNTS, "port": name, "window_start_ns": ORIGIN + k * 10**8,
                                 "ts_ns": ORIGIN + (k + 1) * 10**8, "out_bytes": int(count)}
                                for k, count in enumerate(volume)))  # fmt: skip
    write(store, "links", {"batch": "g", "ts_ns": ORIGIN, "host": "h", "interface": "eth0", "device": "tor",
                           "port": "p1", "origin": "lldp", "present": True})  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("factor", "other", "recording", "cause", "result", "said"),
    [
        (1.0, False, {}, "bursts", "agree", "Yes, in 1 comparison."),
        (1.3, False, {}, "undetermined", "disagree: who is wrong cannot be determined", "No: 1 comparison of 1"),
        (1.3, False, {"filter": "tcp"}, "bursts", "disagree: the recording is wrong", "taken with a filter"),
        (1.3, True, {}, "bursts", "disagree: the link is wrong", "those of tor p2 fit"),
    ],
)
def test_a_contradiction_is_in_every_form_of_the_answer(
    factor: float,
    other: bool,
    recording: dict[str, object],
    cause: str,
    result: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It lowers the verdict if it is unknown which source is wrong."""
    folder, page = str(store_counters(tmp_path / "s", factor, other, **recording)), tmp_path / "page.html"
    assert main(["investigate", folder, "-o", str(page), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    [row] = answer["sources_agree"]
    assert answer["cause"] == cause, answer["summary"]
    assert row["windows"] > 70 and (row["agreeing"] == row["windows"]) is (result == "agree")
    assert row["source"] == "tor p1" and row["port"] == "h eth0 in"
    text = page.read_text(encoding="utf-8")
    assert "Do the sources agree?" in text and result in text and said in text
    assert ("sources of h eth0 in disagree" in answer["summary"]) is (cause == "undetermined")


def test_two_collections_of_a_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their windows overlap; each byte is in one of the compared windows."""
    folder = store_counters(tmp_path / "s", 1.0)
    store, carried = StoreFolder.open(folder), build("incast", 4, Setting(seconds=8)).scene.crossings[0].port.carried
    edges = np.arange(400, len(carried), 1000)
    write(store, "ports", *({**COUNTS, "batch": "h", "port": "p1", "window_start_ns": ORIGIN + int(a) * BIN,
                             "ts_ns": ORIGIN + int(b) * BIN, "out_bytes": int((carried[b] - carried[a]) * 69 / 70)}
                            for a, b in pairwise(edges)))  # fmt: skip
    assert main(["investigate", str(folder), "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["sources_agree"]
    assert row["state"] == "agree" and 70 < row["windows"] <= 80, row


def store_queues(folder: Path, feeds: list[tuple[str, str, int, int, float]]) -> Path:
    """Stores an incast and the bytes sent by the queues of the switch port before it. Feeds are (batch, queue, width in
    bins, first bin, share of the port's bytes)."""
    case = build("incast", 4, Setting(seconds=8))
    store = store_case(folder, case)
    carried = case.scene.crossings[0].port.carried
    for batch, queue, width, first, share in feeds:
        edges = np.arange(first, len(carried), width)
        write(store, "queues", *({**COUNTS, "port": "p1", "batch": batch, "queue": queue,
                                  "window_start_ns": ORIGIN + int(a) * BIN, "ts_ns": ORIGIN + int(b) * BIN,
                                  "transmit_bytes": int((carried[b] - carried[a]) * 69 / 70 * share)}
                                 for a, b in pairwise(edges)))  # fmt: skip
    write(store, "links", {"batch": "g", "ts_ns": ORIGIN, "host": "h", "interface": "eth0", "device": "tor",
                           "port": "p1", "origin": "lldp", "present": True})  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("feeds", "state"),
    [
        ([("g", "0", 1000, 0, 1.0)], "agree"),
        ([("g", "0", 1000, 0, 0.3), ("g", "1", 1000, 0, 0.7)], "agree"),
        ([("g", "0", 1000, 0, 0.3), ("g", "1", 1000, 20, 0.7)], "agree"),  # stamped one by one
        ([("g", "0", 1000, 0, 1.0), ("g", "1", 1000, 20, 0.0)], "agree"),
        ([("g", "0", 1000, 0, 1.0), ("h", "0", 1000, 400, 1.0)], "agree"),  # from two collectors
        ([("g", "0", 1000, 0, 1.0), ("h", "0", 10_000, 0, 1.0)], "agree"),
        ([("g", "0", 1000, 0, 1.0), ("g", "1", 10_000, 300, 0.0)], "agree"),
        ([("g", "0", 1000, 0, 0.3), ("g", "1", 1000, 400, 0.7)], "untested"),  # the bytes of a window are not known
        ([("g", "0", 1000, 0, 0.3), ("g", "1", 10_000, 0, 0.7)], "untested"),
        ([("g", "0", 1000, 0, 0.4), ("g", "1", 1000, 20, 0.9)], "disagree"),
    ],
)
def test_queues_with_different_windows(
    feeds: list[tuple[str, str, int, int, float]], state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bytes of a port's queues are compared for times in which all are known. Different windows alone never count
    as a disagreement."""
    assert main(["investigate", str(store_queues(tmp_path / "s", feeds)), "--json"]) == 0
    [row] = [row for row in json.loads(capsys.readouterr().out)["sources_agree"] if "queues" in row["what"]]
    assert row["state"] == state, row
    assert "differ from each other" in row["said"] if state == "untested" else row["windows"] > 70


def test_without_counters_there_is_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_case(tmp_path / "s", build("harmless", 4, Setting(seconds=4)))
    assert main(["investigate", str(tmp_path / "s")]) == 0
    assert "Nothing to compare" in capsys.readouterr().out

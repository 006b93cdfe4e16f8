"""Predictions of `mburst what-if` against packets that were simulated with that change (packet_port.py)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import latency_attacks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import Case, Setting
from latency_store import LANE, ORIGIN, write_probes
from packet_port import KINDS, Made, PacketCase, Traffic, case_of, drawn, evidence_of, fifo, waits
from storelib import write

from mburst.__main__ import main
from mburst.analysis.cause.arriving import FullStretches
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.port import port_from_bins
from mburst.analysis.whatif.frames import ByteSpans, queued
from mburst.analysis.whatif.moved_senders import STILL, in_waves, staggered
from mburst.analysis.whatif.read_senders import senders_while_full
from mburst.analysis.whatif.replay import Replay, WhatIfChange, calibrate, predict, usual_changes, what_if
from mburst.sql import StoreFolder

MS = 10**6
QUICK = Setting(seconds=4.0, rate=1000.0, load=0.05)


def model(case: PacketCase) -> Replay:
    found = calibrate(case.scene, evidence_of(case), case.rows)
    assert found is not None
    return found


frames = st.lists(st.tuples(st.floats(0, 1e6), st.floats(60, 9000)), min_size=1, max_size=60)


@settings(deadline=None, max_examples=60)
@given(frames, st.sampled_from([np.inf, 2e4]), st.lists(st.floats(0, 2e6), max_size=20))
def test_frames_leave_as_one_by_one(came: list[tuple[float, float]], limit: float, asked: list[float]) -> None:
    """Pieces that are single frames, against a loop over them."""
    came = [(at, size) for at, size in sorted(came) if size <= 1538]
    if not came:
        return
    at, size = (np.array(column) for column in zip(*came, strict=True))
    rows = np.arange(len(at))
    found = queued(ByteSpans(rows, rows, at, np.zeros(len(at)), size), 0.125, limit)
    left = fifo(Traffic(at, size, rows, rows), 1e9, limit)
    assert found.dropped.tolist() == np.isnan(left).tolist()
    assert found.left[~found.dropped] == pytest.approx(left[~found.dropped])
    probes = np.array(asked)
    assert found.wait(probes) == pytest.approx(waits(Traffic(at, size, rows, rows), left, probes), abs=1e-3)


pieces = st.lists(
    st.tuples(st.integers(0, 3), st.integers(STILL, 4), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 1e6)),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(pieces, st.floats(0, 1e8), st.integers(1, 4))
def test_what_a_sender_sends_stays_together(rows: list[tuple[int, int, float, float, float]], over: float,
                                            most: int) -> None:  # fmt: skip
    """Moved are starts of senders, all of one by the same; nobody before its time, what has no sender not at all."""
    columns = [np.array(column) for column in zip(*sorted(rows), strict=True)]
    given_ = ByteSpans(*columns)
    for moved in (staggered(given_, over, None), in_waves(given_, most, (0.125, 0.01), None)):
        by = moved.start - given_.start
        assert (by >= 0).all() and (by[given_.sender == STILL] == 0).all()
        for stretch, sender in set(zip(given_.stretch.tolist(), given_.sender.tolist(), strict=True)):
            own = by[(given_.stretch == stretch) & (given_.sender == sender)]
            assert own == pytest.approx(np.full(len(own), own[0]), abs=1e-3)
        assert (moved.bytes == given_.bytes).all() and (moved.length == given_.length).all()
    for stretch in set(given_.stretch.tolist()):  # the first is not moved, the last of several by the whole time
        of = (given_.stretch == stretch) & (given_.sender != STILL)
        by = (staggered(given_, over, None).start - given_.start)[of]
        count = len(set(given_.sender[of].tolist()))
        assert count == 0 or (by.min() == 0 and by.max() == pytest.approx(over if count > 1 else 0.0, abs=1e-3))


def test_predictions_are_those_of_packets() -> None:
    """One case of each kind of bench/bench_what_if.py: as the README promises, nine in ten are within a quarter."""
    near: dict[str, list[bool]] = {}
    for seed, kind in enumerate(KINDS):
        case = drawn(kind, 900 + seed, seconds=4.0)
        replay = model(case)
        for outcome in what_if(replay, [WhatIfChange("as is"), *usual_changes(replay)]):
            truth, predicted = case.p99(outcome.change), outcome.quantiles_ns[1]
            assert predicted is not None and outcome.p99_range is not None
            if not outcome.unsure:
                name = "fan-in" if outcome.change.fan_in else outcome.change.name
                near.setdefault(name, []).append(abs(predicted - truth) <= 0.25 * truth)
    assert len(near) == 7
    for name, right in near.items():
        assert len(right) >= 8 and np.mean(right) >= 0.8, (name, right)  # of a dozen, for nine in ten of many


def test_one_sender_cannot_be_staggered() -> None:
    case = case_of(Made(senders=1, setting=QUICK), 5)
    replay = model(case)
    staggered_ = predict(replay, WhatIfChange("", stagger_ns=5e7))
    assert staggered_.quantiles_ns == predict(replay, WhatIfChange("", fan_in=1)).quantiles_ns
    assert staggered_.quantiles_ns[1] == pytest.approx(replay.modelled.quantiles_ns[1], rel=0.02)
    assert staggered_.quantiles_ns[1] == pytest.approx(case.p99(WhatIfChange("", stagger_ns=5e7)), rel=0.1)


def test_bursts_of_two_speeds_at_a_faster_link() -> None:
    case = case_of(Made(speeds=(1.5, 12.0), setting=QUICK), 6)
    change = WhatIfChange("", link_bps=2.5e9)
    assert predict(model(case), change).quantiles_ns[1] == pytest.approx(case.p99(change), rel=0.15)


def test_unknown_senders_give_a_range() -> None:
    """The senders are unknown: anything from one sender that cannot be staggered to many that can."""
    case = case_of(Made(setting=QUICK), 7)
    replay = model(replace(case, rows=type(case.rows)(*(column[:0] for column in case.rows))))
    outcome = predict(replay, WhatIfChange("", stagger_ns=1e8))
    assert "not known who sent" in outcome.unsure and outcome.p99_range is not None
    low, high = outcome.p99_range
    assert low < case.p99(WhatIfChange("", stagger_ns=1e8)) < high and high > 10 * low
    assert not predict(replay, WhatIfChange("", link_bps=1e10)).unsure


@pytest.mark.parametrize("seed", [8, 9])
def test_a_full_buffer_is_noticed_by_its_waits(seed: int) -> None:
    """No source reports that the port dropped, but the waits end at one depth."""
    setting = replace(QUICK, seconds=8.0)
    case = case_of(Made(buffer_ns=8e6, setting=setting), seed)
    replay = model(case)
    assert "one depth" in replay.lost_bytes
    deeper = predict(replay, WhatIfChange("", buffer_bytes=1e8))
    assert "not known how much came" in deeper.unsure and deeper.p99_range is not None
    assert np.isinf(deeper.p99_range[1])
    for change in (WhatIfChange("", link_bps=2.5e9), WhatIfChange("", stagger_ns=1e7), WhatIfChange("", fan_in=4)):
        outcome = predict(replay, change)
        assert outcome.p99_range is not None and outcome.p99_range[1] >= 0.9 * case.p99(change)
    assert not model(case_of(Made(setting=setting), seed)).lost_bytes


def test_probes_repeated_by_tcp_are_in_the_model_and_in_the_measurement() -> None:
    """Dropped probes that were answered after a timeout make up the measured p99; a change may or may not save them."""
    case = latency_attacks.repeated("repeated", 3, Setting())
    evidence = gather(case.scene, np.random.default_rng(3))
    assert evidence.repeats.either.mean() > 0.02
    replay = calibrate(case.scene, evidence)
    assert replay is not None
    measured, modelled = (outcome.quantiles_ns[1] for outcome in (replay.recorded, replay.modelled))
    assert measured is not None and measured > 1.5e8 and modelled == pytest.approx(measured, rel=0.1)
    assert len(replay.met) == np.isfinite(evidence.delays.total).sum()
    faster = predict(replay, WhatIfChange("", link_bps=2.5 * replay.link_bps))
    assert faster.p99_range is not None and faster.p99_range[1] >= measured and "not known how much" in faster.unsure
    assert (predict(replay, WhatIfChange("", priority=True)).quantiles_ns[1] or 0) < 1e7


def test_probes_that_the_full_port_dropped_are_in_the_measurement(tmp_path: Path) -> None:
    case = case_of(Made(setting=QUICK), 8)
    probes = case.scene.probes
    took = probes.app_recv - probes.app_send
    lost = took > np.quantile(took, 0.95)
    gone = {
        name: np.where(lost, np.nan, getattr(probes, name)) for name in ("remote_rx", "remote_tx", "rx", "app_recv")
    }
    scene = replace(case.scene, probes=replace(probes, lost=lost, **gone))
    evidence = gather(scene, np.random.default_rng(8))
    assert evidence.tail.late_losses.sum() == lost.sum()
    replay = calibrate(scene, evidence, case.rows)
    assert replay is not None and replay.recorded.dropped == pytest.approx(lost.mean())
    late = (took > evidence.tail.threshold_ns).mean()  # every lost one was
    assert replay.recorded.slow == pytest.approx(late) and late > replay.recorded.dropped


def stored(folder: Path, case: PacketCase) -> Path:
    """Stores the case as a recorder would have."""
    store = StoreFolder.create(folder)
    port, rows = case.scene.crossings[0].port, case.rows
    bytes_ = np.diff(port.carried)
    write(store, "recordings", {**LANE, "link_bps": int(port.link_bps), "bin_ns": port.bin_ns, "start_ns": ORIGIN,
                                "source_bin_ns": case.made.source_bin_ns,
                                "end_ns": ORIGIN + port.bins * port.bin_ns})  # fmt: skip
    write(store, "bins", *({**LANE, "ts_ns": ORIGIN + int(at) * port.bin_ns, "wire_bytes": int(bytes_[at])}
                           for at in np.flatnonzero(bytes_)))  # fmt: skip
    write(store, "sources", *(
        {**LANE, "ts_ns": ORIGIN + int(last) // case.made.source_bin_ns * case.made.source_bin_ns,
         "source": f"10.0.0.{sender + 1}", "bytes": int(volume) * 1514 // 1538, "packets": int(volume) // 1538,
         "first_ns": ORIGIN + int(first), "last_ns": ORIGIN + int(last)}
        for sender, first, last, volume, _, _ in zip(*rows, strict=True)
    ))  # fmt: skip
    write_probes(store, Case("packets", case.scene, "bursts", 0, case.made.setting))
    return folder


def test_through_the_store_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(Made(senders=4, uneven=0.7, own_pace=True, setting=QUICK), 11)
    folder = str(stored(tmp_path / "s", case))
    arguments = ["what-if", folder, "--link", "2.5G", "--stagger", "40ms", "--fan-in", "2"]
    assert main([*arguments, "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    assert payload["model"]["senders"] == 4 and payload["model"]["known_senders"] > 0.95
    changes = [WhatIfChange("", link_bps=2.5e9), WhatIfChange("", stagger_ns=4e7), WhatIfChange("", fan_in=2)]
    for change, outcome in zip(changes, payload["changes"], strict=False):
        assert outcome["p99_ns"] == pytest.approx(case.p99(change), rel=0.25), change
        assert outcome["p99_low_ns"] <= outcome["p99_ns"] <= outcome["p99_high_ns"]
    assert main(["what-if", folder, "--buffer", "100GB"]) == 0
    assert "Cannot be predicted" not in capsys.readouterr().out


def test_an_unpredictable_change_is_stated_with_its_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(Made(buffer_ns=8e6, setting=QUICK), 9)
    folder, page = str(stored(tmp_path / "s", case)), tmp_path / "page.html"
    assert main(["what-if", folder, "--buffer", "100MB"]) == 0
    predicted = capsys.readouterr().out
    assert "Cannot be predicted, since it is not known how much came (waits end at one depth" in predicted
    assert " or more" in predicted
    assert main(["what-if", folder, "--buffer", "100MB", "--json"]) == 0
    [change] = json.loads(capsys.readouterr().out)["changes"]
    assert change["p99_high_ns"] is None and change["p99_low_ns"] > 0 and "not known" in change["unsure"]
    assert main(["investigate", folder, "-o", str(page), "--json"]) == 0
    payload = json.loads(capsys.readouterr().out)
    unsure = [change for change in payload["what_if"]["changes"] if change["unsure"]]
    text = page.read_text(encoding="utf-8")
    assert unsure and "Cannot be predicted, since it is not known how much came" in text
    assert all(f" with {change['change']}" in text.replace("&#x27;", "'") for change in unsure)


def test_senders_count_from_the_first_full_bin_on(tmp_path: Path) -> None:
    """Their bins are wider: the first one begins before the first bin of the port."""
    store, begin = StoreFolder.create(tmp_path / "s"), ORIGIN + MS // 2
    sent = {"recording_id": "r", "bytes": 12_476, "first_ns": begin, "last_ns": begin + MS // 10 - 1}
    write(store, "sources", {**sent, "ts_ns": ORIGIN, "packets": 1})
    chunk = (np.array([MS / 2]), np.array([12_500]))
    port = port_from_bins(("h", "eth0", "in"), 1e9, MS // 10, [chunk], [(MS / 2, MS / 2 + MS / 10)])
    full = FullStretches(np.array([MS / 2]), np.array([MS / 2 + MS / 10]), 0.125, 0.0)
    run = {"recording_id": "r", "clock_epoch": 0, "from_ns": -(2**63), "end_ns": begin + MS // 10}
    with store.connect() as con:
        rows = senders_while_full(con, port, full, [run], [], ORIGIN)
    assert rows.bytes.tolist() == [12_500.0]


def test_senders_count_from_the_first_bin_of_a_part_on(tmp_path: Path) -> None:
    """Their bins are wider: of a bin in which a part of a recording begins, what was sent in that part counts."""
    store, begin = StoreFolder.create(tmp_path / "s"), ORIGIN + MS // 2
    sent = {"recording_id": "r", "bytes": 2 * 12_476, "first_ns": begin - MS // 10, "last_ns": begin + MS // 10 - 1}
    write(store, "sources", {**sent, "ts_ns": ORIGIN, "packets": 2})
    chunk = (np.array([MS / 2]), np.array([12_500]))
    port = port_from_bins(("h", "eth0", "in"), 1e9, MS // 10, [chunk], [(MS / 2, MS / 2 + MS / 10)])
    full = FullStretches(np.array([MS / 2]), np.array([MS / 2 + MS / 10]), 0.125, 0.0)
    run = {"recording_id": "r", "clock_epoch": 0, "from_ns": begin, "end_ns": begin + MS // 10}
    with store.connect() as con:
        rows = senders_while_full(con, port, full, [run], [], ORIGIN)
    assert (rows.bytes.tolist(), rows.beside.tolist()) == ([12_500.0], [0.0])

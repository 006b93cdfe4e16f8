"""How much lateness pause frames can account for: against plain counting, in a queue that is simulated frame by frame,
and in labelled cases."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import latency_cases as cases
import latency_pauses as pauses
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import MS, Case, Setting
from latency_pauses import ALL, signals_of

from mburst.analysis.cause.evidence.pauses import Stops
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.port import Port, port_from_bins
from mburst.analysis.cause.scene import Evidence
from mburst.analysis.cause.signals import Signals, stopped
from mburst.analysis.cause.verdict import Verdict, decide

BIN = 10  # ns
BINS = 40
ROOM = 10_000  # bytes of a bin


class Row(NamedTuple):
    """A bin of the other direction: number, requested time, classes, and frames of each kind."""

    number: int
    asked: int
    classes: int
    pauses: int
    resumes: int


ROWS = st.lists(
    st.builds(Row, st.integers(0, BINS - 1), st.integers(0, 90), st.sampled_from([8, 16, ALL]), st.integers(0, 2),
              st.integers(0, 1)),
    max_size=8, unique_by=lambda row: row.number,
).map(sorted)  # fmt: skip
LOAD = st.lists(st.integers(0, ROOM), min_size=BINS, max_size=BINS)


def signals_from(rows: list[Row]) -> Signals:
    rows = [row._replace(classes=row.classes if row.pauses else 0) for row in rows]
    columns = [np.array([row[k] for row in rows], dtype=float) for k in range(5)]
    counts = [column.astype(np.int64) for column in columns[2:]]
    return Signals(BIN, columns[0] * BIN, columns[1] * (columns[3] > 0), *counts, np.zeros(len(rows), dtype=np.int64))


def port_of(loads: list[int], spans: tuple[tuple[float, float], ...] = ((0.0, BIN * BINS),)) -> Port:
    rate = ROOM * 8e9 / BIN
    return port_from_bins(("h", "e", "in"), rate, BIN, [(np.arange(BINS) * float(BIN), np.array(loads))], list(spans))


def may_be_stopped(rows: list[Row], tick: int) -> bool:
    """Returns whether a pause frame can be in force at TICK, for any moment within its bin."""
    asking = [row for row in rows if row.pauses]
    sets = {row.classes for row in asking}
    clear = len(sets) == 1 and next(iter(sets)) in (8, 16, ALL)
    for row in asking:
        ended = [one for one in rows if clear and one.resumes and one.number > row.number]
        end = (row.number + 1) * BIN + row.asked
        if ended:
            end = min(end, (ended[0].number + 1) * BIN)
        if row.number * BIN <= tick < end:
            return True
    return False


@settings(deadline=None)
@given(ROWS, LOAD)
def test_no_port_is_stopped_for_longer_than_it_was_asked_to_and_its_link_was_idle(
    rows: list[Row], loads: list[int]
) -> None:
    port, signals = port_of(loads), signals_from(rows)
    whole = [row.classes == ALL for row in rows if row.pauses]
    expected = [0.0]
    for k in range(BINS):
        inside = sum(may_be_stopped(rows, tick) for tick in range(k * BIN, (k + 1) * BIN))
        idle = BIN * (1 - loads[k] / ROOM)
        expected.append(expected[-1] + (min(inside, idle) if whole and all(whole) else inside))
    assert stopped(port, signals) == pytest.approx(np.array(expected))


@settings(deadline=None)
@given(ROWS)
def test_time_between_recorded_stretches_is_no_stopped_time(rows: list[Row]) -> None:
    """Of two stretches, each counts what it has of the pauses."""
    rows = [row._replace(classes=8) for row in rows]
    spans = ((0.0, 100.0), (250.0, 400.0))
    port = port_of([0] * BINS, spans)
    ticks = [tick for begin, end in spans for tick in range(int(begin), int(end))]
    expected = sum(may_be_stopped(rows, tick) for tick in ticks)
    assert stopped(port, signals_from(rows))[-1] == pytest.approx(expected)


def served(arrivals: list[int], stops: list[bool]) -> list[int]:
    """Returns when each frame has left a port that sends one frame a tick unless it is stopped."""
    left, tick, found = sorted(arrivals), 0, []
    while left:
        if left[0] <= tick and not (tick < len(stops) and stops[tick]):
            left.pop(0)
            found.append(tick + 1)
        tick += 1
    return found


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 230), st.integers(1, 40)), max_size=5),
    st.sampled_from([8, ALL]),
)
def test_a_frame_is_delayed_by_no_more_than_the_pauses_since_the_port_had_no_backlog(
    trains: list[int], spans: list[tuple[int, int]], classes: int
) -> None:
    """Against the same frames, nine in a row, at a port that nobody stops. A bin and a frame of error at each end."""
    stops = [any(begin <= tick < begin + long for begin, long in spans) for tick in range(BIN * BINS)]
    arrivals = sorted(begin + k for begin in trains for k in range(9))
    left, free = served(arrivals, stops), served(arrivals, [])
    frame = ROOM // BIN
    loads = np.bincount(np.minimum((np.array(left) - 1) // BIN, BINS - 1), minlength=BINS) * frame
    rows: dict[int, Row] = {}
    for begin, long in spans:
        before = rows.get(begin // BIN, Row(begin // BIN, 0, classes, 0, 0))
        rows[begin // BIN] = before._replace(asked=before.asked + long, pauses=before.pauses + 1)
    signals = signals_from(sorted(rows.values()))
    port = port_of(loads.tolist())
    if not signals.pauses.any() or max(left) > BIN * BINS:
        return
    bound = Stops(0, port, signals).held_up(*(port.position(np.array(at, dtype=float)) for at in (arrivals, left)))
    assert (np.array(left) - np.array(free) <= bound + 2 * BIN).all()


BASE = Setting(seconds=12)


def answered(case: Case) -> tuple[Evidence, Verdict]:
    evidence = gather(case.scene, np.random.default_rng(1))
    return evidence, decide(evidence)


def unasked(case: Case) -> Case:
    """Returns the case without a recording of the other direction."""
    crossings = [one._replace(port=replace(one.port, signals=None)) for one in case.scene.crossings]
    return replace(case, scene=replace(case.scene, crossings=crossings))


@pytest.mark.parametrize("kind", [*pauses.BURSTS, *pauses.NEGATIVE])
def test_ports_that_were_asked_to_stop(kind: str) -> None:
    case = cases.build(kind, 0, BASE)
    evidence, verdict = answered(case)
    assert case.accepts(verdict.cause), (verdict, evidence.paused)


def test_a_queue_left_by_a_pause_is_not_attributed_to_a_burst() -> None:
    """Without the pause frames, no evidence contradicts the bursts."""
    case = cases.build("paused-paced", 1, BASE)
    assert answered(unasked(case))[1].cause == "bursts"
    _, verdict = answered(case)
    assert verdict.cause == "undetermined"
    [reason] = verdict.reasons
    assert reason.startswith("h asked the switch to stop sending to eth0 (pause frames, all classes)")
    assert "can account for up to 100 % of the excess" in reason
    assert "why h sends pause frames" in verdict.missing[0]


@pytest.mark.parametrize(
    ("kind", "cause", "said"),
    [
        ("paused-host", "host", "an idle port while h asked the switch to stop sending to eth0 (pause frames, all"),
        ("paused-switch", "elsewhere", "an idle port while the switch asked h to stop sending on eth0 (pause frames"),
    ],
)
def test_the_host_that_asked_for_the_pause_is_the_cause_if_the_port_was_idle(kind: str, cause: str, said: str) -> None:
    evidence, verdict = answered(cases.build(kind, 0, BASE))
    assert (verdict.cause, verdict.paused) == (cause, True) and said in verdict.reasons[0]
    assert evidence.paused is not None and evidence.paused.stood is not None and evidence.paused.stood.low > 0.5


def test_a_cause_by_pauses_needs_five_episodes_and_a_p_of_0_005() -> None:
    evidence, _ = answered(cases.build("paused-host", 0, BASE))
    assert evidence.paused is not None
    found = [
        decide(replace(evidence, paused=evidence.paused._replace(episodes=episodes, p_value=p))).paused
        for episodes, p in ((5, 0.005), (4, 0.005), (5, 0.00501), (5, None))
    ]
    assert found == [True, False, False, False]


def test_a_host_that_was_asked_to_stop_is_not_the_cause() -> None:
    """Probes wait in the host, but only because the switch asked it to stop."""
    found = [cases.build("paused-switch", seed, BASE) for seed in range(8)]
    inside = [case for case in found if answered(unasked(case))[1].cause == "host"]
    assert inside and all(answered(case)[1].cause == "elsewhere" for case in inside)


def test_pauses_of_a_class_are_a_doubt_and_never_a_cause() -> None:
    _, verdict = answered(cases.build("paused-class", 0, BASE))
    assert verdict.cause == "undetermined" and "(pause frames, class 3)" in verdict.reasons[0]
    assert "whether these classes are those of the probes is not known" in verdict.reasons
    assert any("DSCP" in item for item in verdict.missing)


def test_pauses_at_other_times_do_not_change_the_verdict() -> None:
    case = cases.build("incast-between", 0, BASE)
    evidence, verdict = answered(case)
    assert verdict == answered(unasked(case))[1] and verdict.cause == "bursts"
    assert evidence.paused is not None and evidence.paused.could.value < 0.01


def test_a_mirror_does_not_show_who_asked_for_a_pause() -> None:
    case = cases.build("paused-host", 0, BASE)
    [crossing] = case.scene.crossings
    mirror = crossing._replace(port=replace(crossing.port, direction="mirror"))
    evidence, verdict = answered(replace(case, scene=replace(case.scene, crossings=[mirror])))
    assert verdict.cause == "undetermined"
    assert "one end of the link of h eth0 mirror asked the other" in verdict.reasons[0]
    assert evidence.paused is not None and evidence.paused.stood is None


def test_pauses_of_a_port_that_probes_may_not_cross_name_no_cause() -> None:
    case = cases.build("paused-host", 0, BASE)
    scene = replace(case.scene, crossings=[one._replace(assumed=True) for one in case.scene.crossings])
    evidence, verdict = answered(replace(case, scene=scene))
    assert verdict.cause == "undetermined" and evidence.paused is not None and evidence.paused.stood is None


def test_lateness_and_pauses_with_the_same_period_name_no_cause() -> None:
    """Both are strictly periodic, so a shift by a period meets the waits as well."""
    case = cases.build("paused-host", 0, BASE)
    spans = np.arange(0.1, 11.9, 0.25) * 1e9, np.arange(0.1, 11.9, 0.25) * 1e9 + 20 * MS
    setting = replace(BASE, load=0.1)
    model = pauses.silenced(np.random.default_rng(1), setting, spans)
    scene = cases.scene_of(model, cases.send(np.random.default_rng(2), setting, model, {}), setting)
    scene = pauses.asked(scene, signals_of(setting, pauses.pause_frames(setting, spans)))
    evidence, verdict = answered(replace(case, scene=scene))
    assert evidence.paused is not None and (evidence.paused.p_value or 0) > 0.005
    assert verdict.cause == "undetermined" and "can account for up to" in verdict.reasons[0]


def test_notifications_are_stated_and_do_not_change_the_verdict() -> None:
    case = cases.build("incast-notified", 0, BASE)
    evidence, verdict = answered(case)
    assert verdict == answered(unasked(case))[1] and evidence.paused is None
    assert evidence.notified is not None and evidence.notified.packets == evidence.notified.in_bursts > 100
    begin, end = case.scene.bursts[0]
    widened = float((end - begin + 2 * BASE.bin_ns).sum()) / (BASE.seconds * 1e9)
    assert evidence.notified.usual == pytest.approx(widened, rel=0.02)

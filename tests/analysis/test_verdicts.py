"""Verdicts on simulated cases with a known truth. bench/bench_verdicts.py runs many more."""

from __future__ import annotations

from dataclasses import replace

import latency_attacks as attacks
import latency_cases as cases
import latency_networks as networks
import latency_variants as variants
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from latency_cases import Case, Setting, measured

from mburst.__main__ import main
from mburst.analysis.cause.gather import gather
from mburst.analysis.cause.ledger import Crossing
from mburst.analysis.cause.port import port_from_bins
from mburst.analysis.cause.scene import Evidence, Scene, Unrecorded
from mburst.analysis.cause.tail import Probes
from mburst.analysis.cause.verdict import Verdict, decide
from mburst.analysis.model.stats import Estimate, join_runs, runs

KINDS = cases.KINDS["bursts"] + cases.KINDS["negative"]
BASE = Setting(seconds=12)
SIDES = ("in", "out", "mirror")
STAMPS = ("app_send", "tx", "remote_rx", "remote_tx", "rx", "app_recv")


def verdict_of(scene: Scene, seed: int = 1) -> tuple[Evidence, Verdict]:
    evidence = gather(scene, np.random.default_rng(seed))
    return evidence, decide(evidence)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cause_is_identified(kind: str) -> None:
    case = cases.build(kind, 0, BASE)
    evidence, verdict = verdict_of(case.scene)
    assert case.accepts(verdict.cause), (verdict, evidence.shares, evidence.p_value)
    assert sum(share.value for share in evidence.shares.values()) == pytest.approx(1) or not evidence.ledger.late.size


@pytest.mark.parametrize("kind", [*attacks.BURSTS, *attacks.NEGATIVE])
def test_imitations_of_bursts_are_distinguished_from_bursts(kind: str) -> None:
    case = cases.build(kind, 0, BASE)
    evidence, verdict = verdict_of(case.scene)
    assert case.accepts(verdict.cause), (verdict, evidence.shares, evidence.fifo)


@pytest.mark.parametrize(
    "kind", ["neighbour", "misread-faster", "misread-twice", "lossy-hop", "trains-mixed", "proportional", "microbursts"]
)
def test_recordings_that_differ_from_their_description(kind: str) -> None:
    case = {**variants.BURSTS, **variants.NEGATIVE}[kind](kind, 0, BASE)
    evidence, verdict = verdict_of(case.scene)
    assert case.accepts(verdict.cause), (verdict, evidence.shares, evidence.soundness)


def test_a_port_that_carries_more_than_its_rate_is_a_doubt() -> None:
    case = cases.build("incast", 0, BASE)
    port = case.scene.crossings[0].port
    evidence, verdict = verdict_of(changed_port(case, link_bps=port.link_bps / 1.5))
    assert evidence.soundness is not None and evidence.soundness.above == pytest.approx(1.5, abs=0.05)
    assert verdict.cause == "undetermined" and any("of its rate" in reason for reason in verdict.reasons)
    assert any("--link" in item for item in verdict.missing)


def test_a_port_that_is_in_bursts_all_the_time_needs_a_higher_threshold() -> None:
    """Beside other traffic of 63 % every bin is hot, so no probe is outside bursts, however long the recording."""
    case = cases.drawn("loaded", 2026112852)
    evidence, verdict = verdict_of(case.scene)
    assert evidence.exposed and not evidence.unexposed and evidence.relative_risk is None
    assert verdict.cause == "undetermined"
    assert verdict.reasons == ["every probe met a burst: none is left to compare with"]
    assert len(verdict.missing) == 1 and "`--threshold`" in verdict.missing[0]
    port = case.scene.crossings[0].port
    first, last = runs(np.diff(port.carried) >= 0.9 * port.bin_bytes)
    bursts = join_runs(first * float(port.bin_ns), last * float(port.bin_ns), 5.0 * port.bin_ns)
    _, verdict = verdict_of(replace(case.scene, bursts=[bursts]))
    assert verdict.cause == "bursts"


def test_a_port_that_is_in_bursts_most_of_the_time_needs_a_higher_threshold() -> None:
    """The few probes outside bursts make the risk uncertain."""
    evidence, verdict = verdict_of(variants.BURSTS["loaded"]("loaded", 1, BASE).scene)
    assert evidence.relative_risk is not None and evidence.relative_risk.low <= 1
    assert evidence.exposed > 100 * evidence.unexposed > 0
    assert "a probe in a burst is not surely more at risk than one outside" in verdict.reasons
    assert any("`--threshold`" in item for item in verdict.missing)


def test_packets_that_the_capture_lost_are_stated_and_a_doubt_if_they_matter() -> None:
    case = cases.build("incast", 0, BASE)
    port = case.scene.crossings[0].port
    _, verdict = verdict_of(changed_port(case, dropped=7))
    assert verdict.cause == "bursts" and "lost 7 packets" in verdict.reasons[1]
    starts, ends = port.busy_periods()
    lossy = np.zeros(port.bins + 1, dtype=np.int32)
    lossy[((starts + ends) / 2).astype(int)] = 1
    _, verdict = verdict_of(changed_port(case, dropped=10**7, lossy=np.cumsum(lossy, dtype=np.int32)))
    assert verdict.cause == "undetermined" and any("capture lost" in reason for reason in verdict.reasons)
    _, verdict = verdict_of(changed_port(case, dropped=7, is_least=True))
    assert verdict.cause == "bursts" and "lost at least 7 packets" in verdict.reasons[1]
    _, verdict = verdict_of(changed_port(case, is_least=True, lossy=np.cumsum(lossy, dtype=np.int32)))
    assert verdict.cause == "undetermined", "a recorder that did not end marked bins, and stored no number"
    for known in (1, 7):
        _, verdict = verdict_of(
            changed_port(case, is_least=True, dropped=known, lossy=np.cumsum(lossy, dtype=np.int32))
        )
        assert verdict.cause == "undetermined", "of at least so many, the most is as unknown as of no number"
    lossy[np.flatnonzero(lossy)[10:]] = 0
    few = np.cumsum(lossy, dtype=np.int32)
    for number, said in ((0, "lost packets, not known how many"), (7, "lost at least 7 packets")):
        _, verdict = verdict_of(changed_port(case, is_least=True, dropped=number, lossy=few))
        assert verdict.cause == "bursts" and said in verdict.reasons[1], "one that runs has marked few of the stretches"


@pytest.mark.parametrize("kind", ["cut-short", "shallow-windows", "policer", "fast-repeated"])
def test_networks_that_imitate_a_queue(kind: str) -> None:
    case = {**networks.BURSTS, **networks.NEGATIVE}[kind](kind, 0, replace(BASE, seconds=8))
    _, verdict = verdict_of(case.scene)
    assert case.accepts(verdict.cause), verdict


def test_a_strict_rhythm_is_undetermined_and_the_hint_names_a_valid_option(capsys: pytest.CaptureFixture[str]) -> None:
    """All bursts are alike and strictly periodic, so any shift by a period fits as well."""
    case = cases.build("short-rhythm", 1, BASE)
    evidence, verdict = verdict_of(case.scene)
    assert evidence.p_value is not None and evidence.p_value > 0.05 and verdict.cause == "undetermined"
    [advice] = [item for item in verdict.missing if "rhythm" in item]
    assert "a longer recording" in advice and "`mburst probe --spacing poisson`" in advice
    with pytest.raises(SystemExit):
        main(["probe", "--help"])
    assert "--spacing {poisson,fixed}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "setting",
    [
        Setting(seconds=12, link_bps=100e9, bin_ns=20_000, drain_ns=4e6, period_ns=60e6),
        Setting(seconds=12, link_bps=100e6, bin_ns=1_000_000),
        Setting(seconds=12, stamps="rtt"),
        Setting(seconds=12, stamps="one-way", skew_ns=-3e9, drift=-5e-5),
        Setting(seconds=12, stamps="no-app", end="src", skew_ns=5e9),
        Setting(seconds=20, periodic=True, period_ns=100e6),
        Setting(seconds=24, loss=0.01, load=0.4),
        Setting(seconds=60, rate=20),
    ],
)
@pytest.mark.parametrize("kind", ["incast", "hop", "host", "retries", "periodic-near"])
def test_links_stamps_clocks_and_rates(kind: str, setting: Setting) -> None:
    case = cases.build(kind, 3, setting)
    _, verdict = verdict_of(case.scene)
    assert case.accepts(verdict.cause), (case.truth, verdict)


def changed_port(case: Case, **fields: object) -> Scene:
    port = replace(case.scene.crossings[0].port, _busy=[], **fields)  # type: ignore[arg-type]
    return replace(case.scene, crossings=[Crossing(port, case.setting.end, False)])


def test_a_lossy_capture_gives_no_verdict() -> None:
    case = cases.build("incast", 0, BASE)
    bytes_ = np.diff(case.scene.crossings[0].port.carried)
    bad = (bytes_ > 10_000) & (np.arange(len(bytes_)) // 50 % 3 == 0)
    bytes_[bad] //= 2
    scene = changed_port(
        case,
        carried=np.concatenate(([0], np.cumsum(bytes_))),
        lossy=np.concatenate(([0], np.cumsum(bad))).astype(np.int32),
    )
    _, verdict = verdict_of(scene)
    assert verdict.cause == "undetermined"
    assert any("without losses" in item for item in verdict.missing)


def test_a_link_that_is_slower_than_stated() -> None:
    case = cases.build("incast", 0, BASE)
    _, verdict = verdict_of(changed_port(case, link_bps=1e10))
    assert verdict.cause == "undetermined"
    assert any("--link" in item for item in verdict.missing)


def test_a_clock_offset_without_stamps_that_show_it() -> None:
    case = cases.build("incast", 0, replace(BASE, stamps="rtt"))
    probes = case.scene.probes
    _, verdict = verdict_of(replace(case.scene, probes=replace(probes, tx=probes.tx + 4e6)))
    assert verdict.cause == "undetermined"
    assert any("clocks" in item for item in verdict.missing)


def test_the_lag_of_bursts_that_follow_latency_is_found() -> None:
    case = next(
        c for c in (cases.build("retries", seed, BASE) for seed in range(20)) if c.scene.bursts[0][0][0] > 2.2e8
    )
    evidence, verdict = verdict_of(case.scene)
    assert verdict.cause == "elsewhere"
    assert evidence.lag_ns is None or evidence.lag_ns < -100e6  # latency precedes its bursts by an RTO


def test_bursts_that_drop_probes_instead_of_delaying_them() -> None:
    """The buffer is too shallow for a millisecond of delay: answered probes are on time, and the tail consists of lost
    ones."""
    case = cases.build("incast", 0, replace(BASE, buffer_ns=4e5, overload=4.0))
    evidence, verdict = verdict_of(case.scene)
    assert evidence.tail.late_losses.sum() > 50
    assert verdict.cause == "bursts"


def test_an_effect_on_a_path_that_does_not_cross_the_port_contradicts_bursts() -> None:
    case = cases.build("incast", 0, BASE)
    unharmed = cases.build("harmless", 0, BASE).scene.probes
    clean = replace(case.scene, others=[replace(unharmed, dst="other")])
    evidence, verdict = verdict_of(clean)
    assert verdict.cause == "bursts" and any(c.name.startswith("path") for c in evidence.controls)
    shared = replace(case.scene, others=[replace(case.scene.probes, dst="other")])
    _, verdict = verdict_of(shared)
    assert verdict.cause == "undetermined" and "cannot act" in verdict.reasons[0]


def test_coarse_bins_are_reported() -> None:
    case = cases.build("incast", 1, replace(BASE, bin_ns=50_000_000, drain_ns=8e6, period_ns=400e6, seconds=40))
    _, verdict = verdict_of(case.scene)
    assert verdict.cause == "undetermined"


def test_the_same_seed_gives_the_same_evidence() -> None:
    case = cases.build("incast", 2, BASE)
    first, second = verdict_of(case.scene, 5)[0], verdict_of(case.scene, 5)[0]
    assert first.p_value == second.p_value and first.shares == second.shares
    assert first.relative_risk == second.relative_risk


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(0, 10**6), st.sets(st.sampled_from(STAMPS)), st.sampled_from(SIDES))
def test_any_stamps_may_be_missing(n: int, seed: int, gone: set[str], direction: str) -> None:
    """Few probes, holes in every stamp, probes beyond the recording: an answer, and every nanosecond accounted for."""
    rng = np.random.default_rng(seed)
    steps = rng.exponential(1e6, (6, n)) * rng.choice([0.01, 1, 10], (6, n))
    tx = np.sort(rng.uniform(-1e7, 5e7, n))
    times = dict(zip(STAMPS, tx - steps[0] + np.cumsum(steps, axis=0), strict=True))
    times["rtt"] = steps.sum(axis=0)
    for name in sorted(set(times) - {"tx"}):
        times[name][(rng.random(n) < 0.2) | (name in gone)] = np.nan
    times["tx"], lost = tx, rng.random(n) < 0.2
    probes = measured(Probes("p", "h", str(rng.choice(["udp", "tcp"])), **times, lost=lost))
    bins = rng.choice([0, 100, 12_500], 400)
    port = port_from_bins(("h", "e", direction), 1e9, 100_000, [(np.arange(400) * 1e5, bins)], [(0.0, 4e7)])
    first, last = runs(bins > 6000)
    ends = [Crossing(port, end, True) for end in ("dst", "src")]
    scene = Scene(probes, ends, [(first * 1e5, last * 1e5)] * 2, [None, None], [probes])
    evidence, verdict = verdict_of(scene)
    assert verdict.cause in ("bursts", "host", "elsewhere", "none", "undetermined")
    ledger = evidence.ledger
    assert ledger.accounts.sum(axis=1) == pytest.approx(ledger.excess, rel=1e-6)
    assert (ledger.accounts >= 0).all()


# --- the numbers that docs/investigate.md promises: both sides of each, as literals ----------------------------------


@pytest.fixture(scope="module")
def of_incast() -> Evidence:
    """The evidence of bursts that cause a tail. A queue explains most of the waiting, but not in surely more than half
    of each stretch, so that the coincidence must be shown at p <= 0.005."""
    evidence, verdict = verdict_of(cases.build("incast", 0, BASE).scene)
    assert verdict.cause == "bursts" and evidence.fifo is not None
    return replace(evidence, fifo=evidence.fifo._replace(explained=Estimate(0.6, 0.4, 0.8, 40)))


@pytest.mark.parametrize(
    ("fewer", "enough", "reason"),
    [
        ({"episodes": 2}, {"episodes": 3}, "only 2 separate episodes of lateness"),
        ({"burst_episodes": 4}, {"burst_episodes": 5}, "only 4 episodes of lateness fall into bursts"),
        ({"q_value": 0.00501}, {"q_value": 0.005}, "the coincidence with bursts could be chance (p = 0.00501)"),
        ({"pairing_p": 0.00501}, {"pairing_p": 0.005}, "delays fit other bursts as well as their own (p = 0.00501)"),
    ],
    ids=["episodes", "episodes in bursts", "chance", "pairing"],
)
def test_what_bursts_need(of_incast: Evidence, fewer: dict[str, float], enough: dict[str, float], reason: str) -> None:
    found = decide(replace(of_incast, **fewer))  # type: ignore[arg-type]
    assert (found.cause, found.reasons) == ("undetermined", [reason])
    assert decide(replace(of_incast, **enough)).cause == "bursts"  # type: ignore[arg-type]


@pytest.mark.parametrize(("p", "cause"), [(0.05, "bursts"), (0.0501, "undetermined")])
def test_what_bursts_need_if_a_queue_surely_explains_most(of_incast: Evidence, p: float, cause: str) -> None:
    assert of_incast.fifo is not None
    clear = Estimate(0.9, 0.51, 0.99, 40)
    fifo = of_incast.fifo._replace(standing=clear._replace(high=1.0), explained=clear)
    assert decide(replace(of_incast, fifo=fifo, q_value=p)).cause == cause


@pytest.mark.parametrize(("episodes", "cause"), [(2, "bursts"), (3, "undetermined")])
def test_lateness_outside_of_the_recordings_counts_from_three_episodes_on(
    of_incast: Evidence, episodes: int, cause: str
) -> None:
    most, few = Estimate(0.9, 0.8, 0.95, 1000), Estimate(0.01, 0.005, 0.02, 10_000)
    outside = Unrecorded(most, few, True, episodes, 0, False)
    assert decide(replace(of_incast, unrecorded=outside)).cause == cause

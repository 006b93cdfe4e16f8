"""A FIFO queue at a port and its imitations: which probes wait, how long, and the evidence of the switch and of a
shared rhythm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mburst.analysis.cause.evidence.chance import shifted_apart
from mburst.analysis.cause.evidence.exchange import exchange_p, lay
from mburst.analysis.cause.evidence.fifo import (
    LEAST,
    StretchProbes,
    explained,
    fitted,
    probes_in_stretches,
    resolution,
    share_of_cases,
    standing,
)
from mburst.analysis.cause.evidence.switch import PortQueue, deepest, word
from mburst.analysis.cause.port import Port, port_from_bins
from mburst.analysis.cause.tail import Probes
from mburst.analysis.model.stats import wilson

MS = 1e6
RNG = np.random.default_rng(1)


def port_full_at(spans: list[tuple[int, int]], bins: int) -> Port:
    """A port of 1 Gb/s with bins of 100 µs that is full in these spans and silent otherwise."""
    bytes_ = np.zeros(bins, dtype=np.int64)
    for begin, end in spans:
        bytes_[begin:end] = 12_500
    return port_from_bins(("h", "e", "in"), 1e9, 100_000, [(np.arange(bins) * 1e5, bytes_)], [(0.0, bins * 1e5)])


def met_by(port: Port, waits: object, every: float = 0.5 * MS) -> StretchProbes:
    """Returns probes at even distances; each waits for the result of `waits` for (since, left)."""
    at = np.arange(0, port.bins * port.bin_ns, every)
    blank = probes_in_stretches(port, at, np.zeros(len(at)), np.zeros(len(at), dtype=bool))
    return blank._replace(waited=waits(blank.since, blank.left))  # type: ignore[operator]


SPANS = [(1000 * k, 1000 * k + 150 + 13 * (k % 9)) for k in range(40)]  # 15 to 25 ms
QUEUES = {
    "a burst at eight times the rate": lambda since, left: np.minimum(7 * since, left),
    "a slow one": lambda since, left: np.minimum(0.2 * since, left),
    "a buffer of 4 ms": lambda since, left: np.minimum(np.minimum(3 * since, 4 * MS), left),
}
IMITATIONS = {
    "a stall of 5 ms from the onset": lambda since, left: np.maximum(5 * MS - since, 0),
    "a stall in the middle": lambda since, left: np.where((since > 4 * MS) & (since < 9 * MS), 9 * MS - since, 0),
}


@pytest.mark.parametrize("name", [*QUEUES, *IMITATIONS])
def test_a_queue_is_distinguished_from_a_stall_in_a_full_stretch(name: str) -> None:
    port = port_full_at(SPANS, 40_000)
    seen = met_by(port, {**QUEUES, **IMITATIONS}[name])
    late = seen.waited > MS
    model = fitted(seen, late, 1.0)
    waiting, explained_part = standing(seen, late, 1.2 * MS), explained(seen, late, model, 1e5)
    assert waiting is not None and explained_part is not None
    if name in QUEUES:
        assert waiting.low > 0.9 and explained_part.low > 0.8
    else:
        assert waiting.high < 0.1 and explained_part.high < 0.1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60))
def test_a_share_of_stretches_is_as_uncertain_as_they_are_few(cases: list[tuple[bool, int]]) -> None:
    """Also where they are all alike."""
    found = share_of_cases(np.array([case for case, _ in cases], dtype=bool), np.array([at for _, at in cases], float))
    stretches = len({at for _, at in cases})
    assert (found is None) == (stretches < LEAST)
    if found is not None:
        low, high = wilson(found.value * stretches, stretches)
        assert found.n == stretches and found.value == pytest.approx(np.mean([case for case, _ in cases]))
        assert found.low <= low + 1e-9 and high <= found.high + 1e-9 and high - low > 0.05


def test_too_few_stretches_give_no_result() -> None:
    port = port_full_at(SPANS[:3], 4000)
    seen = met_by(port, QUEUES["a slow one"])
    late = seen.waited > MS
    assert standing(seen, late, 1.2 * MS) is None
    assert explained(seen, late, fitted(seen, late, 1.0), 1e5) is None


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(0, 9)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(-5, 300), st.integers(0, 60)), min_size=1, max_size=8),
)
def test_the_deepest_window_of_an_interval(windows: list[tuple[int, int, int]], spans: list[tuple[int, int]]) -> None:
    begin, rows = 0, []
    for gap, length, depth in windows:
        rows.append((begin + gap, begin + gap + length, depth))
        begin = rows[-1][1]
    queue = PortQueue("q", *(np.array(side, dtype=float) for side in zip(*rows, strict=True)))
    starts, ends = (np.array(side, dtype=float) for side in zip(*((a, a + n) for a, n in spans), strict=True))
    for a, b, found in zip(starts, ends, deepest(queue, starts, ends), strict=True):
        depths = [depth for low, high, depth in rows if low <= b and high >= a]
        assert found == max(depths) if depths else np.isnan(found)


@pytest.mark.parametrize("width", [1, 10, 100, 1000])
def test_a_window_of_any_width_bounds_the_wait(width: int) -> None:
    """A wait of 15 ms at 1 Gb/s needs 1.9 MB in the queue."""
    begin = np.arange(0, 10_000, width) * MS
    met, waited = np.arange(5, 10_000, 400) * MS, np.full(25, 15 * MS)
    shallow = word(PortQueue("q", begin, begin + width * MS, np.full(len(begin), 20e3)), 1e9, met, waited, 1e5)
    deep = word(PortQueue("q", begin, begin + width * MS, np.full(len(begin), 1.9e6)), 1e9, met, waited, 1e5)
    assert shallow is not None and shallow.agreement < 0.05 and not shallow.seen
    assert deep is not None and deep.agreement == pytest.approx(1, abs=0.1) and deep.seen and deep.fits
    mixed = np.where(np.arange(25) % 2, 15 * MS, 3 * MS)  # 400 kB explain only the short ones
    part = word(PortQueue("q", begin, begin + width * MS, np.full(len(begin), 400e3)), 1e9, met, mixed, 1e5)
    assert part is not None and part.agreement > 0.5 and part.allowed < 0.5 and not part.fits and not shallow.fits


def test_a_rhythm_continues_across_the_end_of_the_recording() -> None:
    """Eight strictly periodic bursts, a wait in each, and part of a period after them: shifts by whole periods also
    fit."""
    spans = [(2500 * k + 200, 2500 * k + 400) for k in range(8)]
    port = port_full_at(spans, 2500 * 8 + 150)
    arrival = np.array([begin + 50.0 for begin, _ in spans])
    shifts = np.array([2500.0, 5000.0, port.bins - 2500.0, 1250.0])
    fits = shifted_apart(port, arrival, arrival + 60, np.ones(8), shifts)
    assert fits.tolist() == pytest.approx([1, 1, 1, 0], abs=0.01)


@pytest.mark.parametrize("own", [True, False])
def test_an_exchange_compares_waits_that_both_bursts_allow(own: bool) -> None:
    """Waits that end with their burst fit no other burst. Waits of independent lengths fit any, although all end in
    time."""
    spans = [(1000 * k, 1000 * k + 100 + 7 * (11 * k % 17)) for k in range(40)]
    port = port_full_at(spans, 40_000)
    begin, end = (np.array(side, dtype=float) for side in zip(*spans, strict=True))
    arrival = begin + 10
    departure = end if own else arrival + 20 + np.arange(40) % 7 * 9
    laid = lay((begin, end), arrival, departure, np.ones(40))
    assert laid is not None
    p = exchange_p(port, laid, np.random.default_rng(3))
    assert p <= 0.005 if own else p > 0.05


def test_the_resolution_of_the_stamps() -> None:
    none = np.full(500, np.nan)
    tx, rtt = np.sort(RNG.uniform(0, 1e9, 500)), RNG.lognormal(11, 1, 500)
    fine = Probes("p", "h", "udp", none, tx, none, none, tx + rtt, none, none, np.zeros(500, dtype=bool))
    assert resolution(fine) < 1e4
    coarse = Probes("p", "h", "udp", none, tx // MS * MS, none, none, (tx + 40 * rtt) // MS * MS, none, none, fine.lost)
    assert resolution(coarse) == MS

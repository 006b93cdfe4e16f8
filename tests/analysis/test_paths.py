"""Facts about probed paths, against stores with known clocks, delays and hosts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import write

from mburst.analysis.answers import paths
from mburst.analysis.answers.minutes import by_minute, persistence
from mburst.analysis.answers.paths import MEASURES, PathProbes, ProbeSelection, extremes, read_met, together
from mburst.analysis.model import distributions
from mburst.dashboards.report.path_words import clock_note
from mburst.sql import StoreFolder
from mburst.units import NS_PER_MINUTE

START = 1_795_228_440_000_000_000  # a whole minute
S, US, MS = 10**9, 1000, 10**6


def exchanges(
    n: int = 2000,
    *,
    offset: float = 0,
    drift: float = 0,
    forward: int = 30 * US,
    back: int = 10 * US,
    gap: int = 5 * MS,
    seed: int = 1,
    **columns: object,
) -> list[dict[str, object]]:
    """Probes with partly exponential delays. The clock of the reflector is ahead by offset + drift × time."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        means = 20 * US, 20 * US, 5 * US, 2 * US, 3 * US
        out, home, turn, here, there = (int(rng.exponential(mean)) for mean in means)
        due = START + i * gap
        tx = due + here
        rx_there = tx + forward + out
        tx_there = rx_there + turn
        rx = tx_there + back + home
        ahead = int(offset + drift * (i * gap))
        found.append(
            {
                "seq": i,
                "app_send_ns": due,
                "tx_ns": tx,
                "remote_rx_ns": rx_there + ahead,
                "remote_tx_ns": tx_there + ahead,
                "rx_ns": rx,
                "app_recv_ns": rx + there,
                **columns,
            }
        )
    return found


def met_in(folder: Path, *rows: dict[str, object], **selection: object) -> list[PathProbes]:
    store = StoreFolder.create(folder / "store")
    write(store, "probes", *rows)
    return read_met(store.connect(), ProbeSelection(**selection))  # type: ignore[arg-type]


def set_back(row: dict[str, object], by_ns: int = 3600 * S) -> dict[str, object]:
    """Returns the row as if the sender's clock had been set back while the probe was under way."""
    stamps = {name: value - by_ns for name, value in row.items() if name in ("rx_ns", "app_recv_ns")}  # type: ignore[operator]
    return {**row, **stamps}


def test_probes_across_a_clock_step_do_not_affect_the_others(tmp_path):
    """A single one once made the difference of two clocks wrong by half an hour."""
    rows = exchanges(offset=7 * MS)
    turned = [set_back(row) if row["seq"] % 500 == 77 else row for row in rows]
    [true], [met] = met_in(tmp_path / "true", *rows), met_in(tmp_path / "turned", *turned)
    assert (met.sent, met.lost, met.by_measure.n, true.by_measure.n) == (2000, 0, 1996, 2000)
    sound = np.array([row["seq"] % 500 != 77 for row in rows])
    for name in MEASURES:
        at, there = met.values[name], true.values[name]
        assert np.abs(at - there)[sound].max() < 10 * US, name
    assert met.clocks.offset_ns == pytest.approx(true.clocks.offset_ns, abs=10 * US)


def test_measures_equal_the_simulated_delays(tmp_path):
    rows = exchanges()
    [met] = met_in(tmp_path, *rows)
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}
    network = columns["rx_ns"] - columns["tx_ns"] - (columns["remote_tx_ns"] - columns["remote_rx_ns"])
    assert np.allclose(met.values["round_trip"], network)
    assert np.allclose(met.values["application"], columns["app_recv_ns"] - columns["app_send_ns"])
    here = (columns["tx_ns"] - columns["app_send_ns"]) + (columns["app_recv_ns"] - columns["rx_ns"])
    assert np.allclose(met.values["host_here"], here)
    assert np.allclose(met.values["host_there"], columns["remote_tx_ns"] - columns["remote_rx_ns"])
    assert met.measured["round_trip"].n == 2000 and met.measured["round_trip"].least == network.min()
    assert met.measured["round_trip"].levels[3] == np.sort(network)[1979]  # p99, nearest rank
    assert met.measured["round_trip"].levels[5] is None  # 2,000 cannot separate p99.99 from the largest


@pytest.mark.parametrize("offset, drift", [(0, 0), (37e9, 0), (-5e6, 40e-6), (1e5, -100e-6)])
def test_offset_and_drift_are_removed_within_the_stated_uncertainty(tmp_path, offset, drift):
    [met] = met_in(tmp_path, *exchanges(4000, offset=offset, drift=drift))
    true = [met_true(row) for row in exchanges(4000)]
    assert met.clocks is not None and not met.clocks.kept
    assert met.clocks.drift_ppm == pytest.approx(drift * 1e6, abs=1)
    assert 20 * US <= met.clocks.uncertainty_ns <= 30 * US  # half of 40 µs, and the wait of the fastest probe
    wrong = met.values["forward"] - np.array([forward for forward, _ in true])
    assert np.abs(np.median(wrong)) <= met.clocks.uncertainty_ns
    assert np.median(wrong) == pytest.approx(-10 * US, abs=4 * US)
    assert np.std(wrong) < 6 * US  # the excess of a delay beyond the least one stays
    assert np.allclose(met.values["forward"] + met.values["back"], met.values["round_trip"], atol=1)


def test_a_clock_that_was_set_is_stated_and_its_drift_is_known(tmp_path):
    rows = exchanges(4000, drift=40e-6)
    for row in rows[2500:]:
        row |= {name: row[name] + 3600 * S for name in ("remote_rx_ns", "remote_tx_ns")}
    [met] = met_in(tmp_path, *rows)
    assert met.clocks.steps == 1 and met.clocks.drift_ppm == pytest.approx(40, abs=1)
    assert met.measured["forward"].largest < 1e6 and met.measured["back"].largest < 1e6
    assert "drifts by 40" in clock_note(met.clocks) and "one of the two was set once meanwhile" in clock_note(
        met.clocks
    )


@pytest.mark.parametrize("drift", [230e-6, -500e-6, 900e-6])
def test_a_slewed_clock_is_not_taken_for_a_step(tmp_path, drift):
    [met] = met_in(tmp_path, *exchanges(4000, drift=drift))
    assert met.clocks.steps == 0 and met.clocks.drift_ppm == pytest.approx(drift * 1e6, abs=1)


def met_true(row: dict[str, object]) -> tuple[int, int]:
    """Returns (forward, back) of a row that was made without an offset."""
    return row["remote_rx_ns"] - row["tx_ns"], row["rx_ns"] - row["remote_tx_ns"]  # type: ignore[operator]


def test_accurate_clocks_are_trusted(tmp_path):
    rows = exchanges(clock_error_ns=2 * US)
    [met] = met_in(tmp_path, *rows)
    assert met.clocks is not None and met.clocks.kept and met.clocks.uncertainty_ns == 2 * US
    assert np.allclose(met.values["forward"], [met_true(row)[0] for row in rows])


@pytest.mark.parametrize("offset, error", [(1e6, 2 * US), (0, MS)])
def test_clocks_that_are_contradicted_or_less_accurate_are_not_trusted(tmp_path, offset, error):
    [met] = met_in(tmp_path, *exchanges(offset=offset, clock_error_ns=error))
    assert met.clocks is not None and not met.clocks.kept
    assert met.measured["back"].least is not None and met.measured["back"].least > 0


def test_without_the_reflectors_stamps_there_is_only_the_round_trip(tmp_path):
    [met] = met_in(tmp_path, *({**row, "remote_rx_ns": None, "remote_tx_ns": None} for row in exchanges(100)))
    assert met.clocks is None
    assert [
        met.measured[name].n for name in ("application", "round_trip", "forward", "back", "host_here", "host_there")
    ] == [100, 100, 0, 0, 100, 0]


def test_imported_round_trips_are_measures(tmp_path):
    [met] = met_in(tmp_path, *({"seq": i, "tx_ns": START + i, "rtt_ns": 1000 + i} for i in range(100)))
    assert met.measured["round_trip"].n == 100 and met.measured["round_trip"].largest == 1099


def test_lost_probes_have_no_delay(tmp_path):
    rows = [*exchanges(50), {"seq": 50, "tx_ns": START + S, "lost": True}]
    [met] = met_in(tmp_path, *rows)
    assert (met.sent, met.lost, met.measured["application"].n, met.lost_at.tolist()) == (51, 1, 50, [50])


def test_a_path_with_all_probes_lost_has_no_measures(tmp_path):
    [met] = met_in(tmp_path, *({"seq": i, "tx_ns": START + i, "lost": True, "stamp_kind": ""} for i in range(5)))
    assert met.lost == 5 and all(measured.n == 0 for measured in met.measured.values()) and met.stamps == ""


def test_some_of_many_probes_are_read_and_all_are_counted(tmp_path, monkeypatch):
    rows = [*exchanges(1000), {"seq": 1000, "tx_ns": START + 6 * S, "lost": True}]
    monkeypatch.setattr(paths, "MOST_PROBES", 300)
    [met] = met_in(tmp_path, *rows)
    assert (met.sent, met.lost, met.every, met.measured["application"].n) == (1001, 1, 4, 250)


def test_paths_and_selections(tmp_path):
    rows = [
        *exchanges(10, src="a", batch="one"),
        *exchanges(20, src="b", batch="two"),
        *exchanges(30, src="b", protocol="tcp", batch="two"),
    ]
    found = met_in(tmp_path, *rows)
    assert [(met.src, met.protocol, met.sent) for met in found] == [
        ("a", "udp", 10),
        ("b", "tcp", 30),
        ("b", "udp", 20),
    ]
    con = StoreFolder.open(tmp_path / "store").connect()
    assert [met.sent for met in read_met(con, ProbeSelection(batch="two", protocol="udp"))] == [20]
    assert [met.sent for met in read_met(con, ProbeSelection(src="a", since_ns=START + 25 * MS))] == [5]
    assert read_met(con, ProbeSelection(dst="nobody")) == []


def minutes(p99s: list[int]) -> list[dict[str, object]]:
    """Returns 200 probes a minute, some of which take as long as given for that minute."""
    return [
        {
            "seq": i,
            "tx_ns": START + number * NS_PER_MINUTE + i * 10 * MS,
            "rx_ns": START + number * NS_PER_MINUTE + i * 10 * MS + (p99 if i > 195 else 1000),
        }
        for number, p99 in enumerate(p99s)
        for i in range(200)
    ]


def test_minutes_begin_at_whole_minutes_of_the_clock(tmp_path):
    [met] = met_in(
        tmp_path, *minutes([5000, 7000, 9000]), {"seq": 9, "tx_ns": START + 2 * NS_PER_MINUTE + S, "lost": True}
    )
    found = by_minute(met)
    assert [entry.start_ns for entry in found] == [START, START + NS_PER_MINUTE, START + 2 * NS_PER_MINUTE]
    assert [(entry.n, entry.lost, entry.least, entry.p50, entry.p99) for entry in found] == [
        (200, 0, 1000, 1000, 5000),
        (200, 0, 1000, 1000, 7000),
        (200, 1, 1000, 1000, 9000),
    ]
    assert persistence(found) is None


def test_series_and_alternation_of_slow_minutes_are_detected(tmp_path):
    slow = [10_000, 11_000, 12_000, 13_000, 50_000, 60_000, 55_000, 52_000, 9000, 9500, 9600, 9700]
    [met] = met_in(tmp_path / "recordings", *minutes(slow))
    assert persistence(by_minute(met)) > 0.5
    [met] = met_in(tmp_path / "turns", *minutes([10_000, 50_000] * 6))
    assert persistence(by_minute(met)) < -0.5


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(st.just(float("nan")), st.floats(1, 1e9)), min_size=1, max_size=200), st.integers(1, 20))
def test_steps_keep_every_largest_value(values, steps):
    values = np.array(values)
    found = extremes(np.arange(len(values)) * 7.0, values, steps)
    known = values[np.isfinite(values)]
    if len(known):
        assert found.largest.max() == known.max() and len(found.at_ns) <= steps
        assert (found.median <= found.largest).all() and (np.diff(found.at_ns) > 0).all()
        for at, value in zip(found.at_ns, found.largest, strict=True):
            assert values[int(at // 7)] == value
    else:
        assert len(found.at_ns) == 0


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=600))
def test_nines_count_what_is_larger(given_values):
    values, depth = distributions.nines(given_values, 100)
    n, ordered = len(given_values), sorted(given_values)
    assert values[0] == ordered[0] and values[-1] == ordered[-1] and len(values) <= 101
    assert (np.diff(values) >= 0).all() and (np.diff(depth) >= 0).all()
    for value, nines in zip(values, depth, strict=True):
        larger = 10**-nines * n
        assert larger == pytest.approx(0.5) or sum(v > value for v in ordered) <= round(larger, 6) <= n - 1


def test_paths_from_several_ports_to_a_target_are_joined(tmp_path):
    """Only paths from several ports of one host to one target are joined: not paths of other hosts or targets, and not
    a single path."""
    slow = exchanges(900, seed=2, gap=7 * MS, back=2 * MS, src="api:40002", dst="cache")
    slow[3] |= {"lost": True, "rx_ns": None, "app_recv_ns": None, "remote_rx_ns": None, "remote_tx_ns": None}
    found = met_in(
        tmp_path,
        *exchanges(1000, src="api:40001", dst="cache"),
        *slow,
        *exchanges(10, src="api:40001", dst="other"),
        *exchanges(10, src="db:40001", dst="cache"),
        *exchanges(10, src="plain", dst="cache"),
    )
    [met] = together(found)
    parts = [part for part in found if (part.src[:4], part.dst) == ("api:", "cache")]
    assert (met.src, met.dst, met.paths, met.sent, met.lost, met.stamps) == ("api", "cache", 2, 1900, 1, "sw")
    assert (met.start_ns, met.end_ns) == (min(p.start_ns for p in parts), max(p.end_ns for p in parts))
    assert (np.diff(met.tx) >= 0).all()
    assert met.tx[met.lost_at[0]] == parts[1].tx[3] + (parts[1].start_ns - met.start_ns)
    for name in MEASURES:
        both = np.sort(np.concatenate([part.values[name] for part in parts]))
        assert np.array_equal(np.sort(met.values[name]), both, equal_nan=True)
        assert met.measured[name] == paths.distribution(both)
    assert met.measured["round_trip"].largest == max(part.measured["round_trip"].largest for part in parts)
    assert met.clocks and met.clocks.uncertainty_ns == max(part.clocks.uncertainty_ns for part in parts)


def test_joined_paths_with_different_round_trips_are_not_mixed(tmp_path):
    """A round trip of one path includes the time in the host that answers, that of the other does not."""
    bare = [
        {**row, "remote_rx_ns": None, "remote_tx_ns": None, "app_send_ns": None, "app_recv_ns": None}
        for row in exchanges(300, seed=3, src="api:40002", dst="cache")
    ]
    found = met_in(tmp_path, *exchanges(500, src="api:40001", dst="cache"), *bare)
    assert [part.round_trip for part in found] == ["network round trip", "round trip"]
    [met] = together(found)
    assert (met.round_trip, met.measured["round_trip"].n) == ("network round trip", 500)
    assert met.measured["round_trip"] == found[0].measured["round_trip"]

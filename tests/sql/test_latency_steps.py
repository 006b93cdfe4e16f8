"""Compaction replaces probes by sums of seconds, from which latencies are known within 1 % for years."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from compactionlib import DAY, NOW, S, compacted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storelib import rows

import mburst
from mburst.agent.metrics.meter import Meter
from mburst.analysis.bursts.find import BurstDefinition
from mburst.sql import StoreFolder, limits
from mburst.sql.format import filenames
from mburst.sql.format.filenames import Segment
from mburst.units import NS_PER_DAY

ERROR = 0.01
PROBE = st.fixed_dictionaries(
    {
        "dst": st.sampled_from(["b", "c"]),
        "at_ns": st.integers(0, 5 * S),
        # of application probes: negative if a clock was set back between the stamps, which then measure nothing
        "latency_ns": st.one_of(st.none(), st.integers(-1000, 1000), st.integers(1, 10**12)),
    }
)
ALL = "SELECT * FROM path_quantiles ORDER BY src, dst"


def probed(store: StoreFolder, probes: list[dict[str, Any]], begun_ns: int = DAY) -> None:
    """Writes probes of the store's first day, which arrived at BEGUN_NS; a latency_ns of None is a lost probe."""
    begin = lambda host, writer, number: Segment(host, begun_ns, writer, number)  # noqa: E731
    with mock.patch.object(filenames, "new_segment", begin), store.writer("probes") as writer:
        writer.append(
            rows(
                "probes",
                *(
                    {
                        "batch": f"batch-{number % 2}",
                        "seq": number,
                        "src": "a",
                        "dst": one["dst"],
                        "protocol": "udp",
                        "tx_ns": DAY + one["at_ns"],
                        "app_send_ns": DAY + one["at_ns"],
                        "app_recv_ns": None if one["latency_ns"] is None else DAY + one["at_ns"] + one["latency_ns"],
                        "lost": one["latency_ns"] is None,
                        "stamp_kind": "app",
                    }
                    for number, one in enumerate(probes)
                ),
            )
        )


def asked(store: StoreFolder, query: str) -> list[dict[str, Any]]:
    with store.connect() as con:
        return con.sql(query).to_arrow_table().to_pylist()


def nearest_rank(ordered: list[int], share: float) -> int | None:
    """Returns the quantile by the rule of known_quantile."""
    if share > 0.5 and len(ordered) * (1 - share) < 1 - 1e-9:
        return None
    return ordered[max(math.ceil(round(len(ordered) * share, 9)), 1) - 1]


def check(found: list[dict[str, Any]], probes: list[dict[str, Any]]) -> None:
    """Compares the rows found with sorted lists."""
    paths: dict[str, list[int | None]] = defaultdict(list)
    for one in probes:
        paths[one["dst"]].append(one["latency_ns"])
    assert [row["dst"] for row in found] == sorted(paths)
    for row in found:
        known = sorted(value for value in paths[row["dst"]] if value is not None and value >= 0)
        assert (row["sent"], row["measured"]) == (len(paths[row["dst"]]), len(known))
        assert row["lost"] == paths[row["dst"]].count(None)
        assert (row["min_ns"], row["max_ns"]) == ((known[0], known[-1]) if known else (None, None))
        assert row["mean_ns"] == (pytest.approx(sum(known) / len(known)) if known else None)
        for name, share in (("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)):
            exact = nearest_rank(known, share) if known else None
            assert row[name] == (None if exact is None else pytest.approx(exact, rel=ERROR + 1e-9, abs=0)), name


@pytest.mark.costly
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(probes=st.lists(PROBE, min_size=1, max_size=300))
def test_latencies_are_within_a_hundredth_before_and_after(probes: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = StoreFolder.create(Path(folder) / "store")
        probed(store, probes)
        seconds = asked(store, "FROM latency_counts ORDER BY ALL")
        check(asked(store, ALL), probes)
        compacted(store, everything_ns=0, bursts_ns=0)
        assert asked(store, "FROM probes") == [] and asked(store, "FROM latency_counts ORDER BY ALL") == seconds
        check(asked(store, ALL), probes)
        part = f"FROM path_quantiles_in('latency_counts', {DAY}, {DAY + 2 * S}) ORDER BY src, dst"
        check(asked(store, part), [one for one in probes if one["at_ns"] < 2 * S])
        assert compacted(store, everything_ns=0, bursts_ns=0).days == []


def test_probes_that_come_later_are_added(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    first = [{"dst": "b", "at_ns": i * 10**7, "latency_ns": 1000 + i} for i in range(200)]
    later = [{"dst": "b", "at_ns": i * 10**7 + 5, "latency_ns": 9000 + i} for i in range(300)]
    for probes in (first, later):
        probed(store, probes)
        compacted(store, everything_ns=0, bursts_ns=0)
    check(asked(store, ALL), first + later)
    compacted(store, everything_ns=0, bursts_ns=0, steps_ns=0)
    assert asked(store, "FROM latency_counts") == []


def test_probes_that_are_imported_late_are_kept_from_then_on(tmp_path: Path) -> None:
    store, imported_ns = StoreFolder.create(tmp_path / "store"), DAY + 200 * NS_PER_DAY
    probed(store, [{"dst": "b", "at_ns": i, "latency_ns": 1000} for i in range(9)], imported_ns)
    for days, left in ((1, 9), (89, 9), (91, 0)):
        compacted(store, now_ns=imported_ns + days * NS_PER_DAY)
        assert len(asked(store, "FROM probes")) == left


def test_sums_of_probes_that_are_imported_late_are_kept_from_then_on(tmp_path: Path) -> None:
    store, imported_ns = StoreFolder.create(tmp_path / "store"), DAY + 200 * NS_PER_DAY
    probed(store, [{"dst": "b", "at_ns": i, "latency_ns": 1000} for i in range(9)], imported_ns)
    rules = {"everything_ns": NS_PER_DAY, "bursts_ns": 7 * NS_PER_DAY, "steps_ns": 30 * NS_PER_DAY}
    for days, left in ((8, 1), (9, 1), (29, 1), (31, 0)):
        compacted(store, imported_ns + days * NS_PER_DAY, **rules)
        assert len(asked(store, "FROM latency_steps")) == left


def test_buckets_keep_values_within_the_stated_error(tmp_path: Path) -> None:
    """The values are powers of ten and their neighbours, over the whole range."""
    values = [0, *(sign * (10**k + d) for k in range(18) for d in (0, 1) for sign in (-1, 1))]
    store = StoreFolder.create(tmp_path / "store")
    listed = ", ".join(f"({value})" for value in values)
    found = asked(store, f"SELECT v, bucket_latency(latency_bucket(v)) AS ns FROM (VALUES {listed}) AS t(v) ORDER BY v")
    assert [row["ns"] for row in found] == [pytest.approx(row["v"], rel=ERROR + 1e-9, abs=0) for row in found]
    assert [row["ns"] for row in found] == sorted(row["ns"] for row in found)


def test_python_warns_which_probes_are_left_out(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    probed(store, [{"dst": "b", "at_ns": i, "latency_ns": 1000} for i in range(9)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mburst.open(str(store.path)).latency().num_rows == 1
    compacted(store, now_ns=NOW, everything_ns=0, bursts_ns=0)
    with pytest.warns(mburst.CompactedWarning, match="probes until 2024-10-05 00:00:00 UTC are left out"):
        assert mburst.open(str(store.path)).latency().num_rows == 0


def test_metrics_begin_at_zero_if_not_every_probe_is_kept(tmp_path: Path) -> None:
    """Prometheus takes a lower counter for a reset, and all of it for new."""
    store, said = StoreFolder.create(tmp_path / "store"), list[str]()
    for day in (0, 200):
        probed(store, [{"dst": "b", "at_ns": day * NS_PER_DAY, "latency_ns": 5}], DAY + day * NS_PER_DAY)

    def sent(since_ns: int) -> int:
        with limits.noting(said.append), closing(Meter(store, BurstDefinition(), since_ns)) as meter:
            return sum(path.sent for path in meter.paths.values())

    assert (sent(DAY), sent(DAY + NS_PER_DAY)) == (2, 1)
    compacted(store, NOW + 200 * NS_PER_DAY)
    assert (sent(DAY), len(said), sent(DAY + NS_PER_DAY)) == (0, 1, 1)

"""Questions that a compacted store could answer wrongly are refused, answered with a note, or answered correctly."""

from __future__ import annotations

import dataclasses
import warnings
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from compactionlib import DAY, MS, NOW, S, bursts, compacted, counted, days_of_bursts, incast, recorded, rows_of
from storelib import rows

import mburst
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.errors import MburstError, UsageError
from mburst.sql import StoreFolder, limits, replacing
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import SETTLED_NS, KeepRules
from mburst.sql.format import filenames
from mburst.sql.format.filenames import Segment
from mburst.units import NS_PER_DAY


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of three days of two hosts."""
    made = StoreFolder.create(tmp_path / "store")
    days_of_bursts(made)
    return made


def test_senders_without_bins(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    recorded(store, "a", [], incast(DAY + S)[1])
    compacted(store)
    assert rows_of(store, "sources") == rows_of(store, "steps") == 0 and rows_of(store, "thinned") == 1


def test_late_rows_of_a_compacted_day_count_once(store: StoreFolder) -> None:
    # A clock was set back by days: more rows of a recording arrive for a day that is already compacted.
    compacted(store)
    sums = counted(store)
    late_ns = NOW + 5 * NS_PER_DAY
    writer = f"{zlib.crc32(b'r0'):012x}"
    late = {"recording_id": "r0", "host": "host-r0", "wire_bytes": 84, "bytes": 60, "packets": 1}
    begin = lambda host, writer, number: Segment(host, late_ns, writer, number)  # noqa: E731
    with mock.patch.object(filenames, "new_segment", begin), store.writer("bins", "host-r0", "r1", writer) as to:
        to.append(rows("bins", *({**late, "ts_ns": DAY + S + k} for k in (0, MS))))
    for now_ns in (late_ns + NS_PER_DAY, late_ns + NS_PER_DAY + SETTLED_NS, late_ns + 2 * NS_PER_DAY):
        compacted(store, now_ns)
    assert [row[1] for row in counted(store)] == [sums[0][1] + 2, sums[1][1]]


def test_a_day_that_is_removed_at_once_is_reported_as_compacted(store: StoreFolder) -> None:
    compacted(store, NOW + 800 * NS_PER_DAY)
    assert counted(store) == [] and rows_of(store, "thinned") == 6
    with store.connect() as con, pytest.raises(UsageError, match="this store was compacted"):
        find_bursts(con, since_ns=DAY)


def test_a_commit_that_fails_changes_nothing(store: StoreFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    # The rename is done, and the folder cannot be synced: the new files must not be removed while they count.
    before, write, seen = (bursts(store), counted(store)), replacing._write, []

    def failing(path: Path, replaced: Any, aside: bool = False) -> None:
        write(path, replaced, aside)
        if replaced is not None:
            raise OSError(5, "Input/output error")

    def watched(paths: Any) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            seen.append((bursts(store), counted(store)))

    monkeypatch.setattr(replacing, "_write", failing)
    monkeypatch.setattr(replacing, "_remove", watched)
    with pytest.raises(MburstError, match="Input/output error"):
        compact(store, KeepRules(), now_ns=NOW)
    assert seen and all(found == before for found in seen)


def test_python_warns_of_times_that_are_left_out(store: StoreFolder) -> None:
    compacted(store)
    opened = mburst.open(store.path)
    with pytest.warns(mburst.CompactedWarning, match="bursts before 2024-10-06 00:00:00 UTC are left out") as caught:
        opened.bursts(threshold=0.1)
    assert Path(caught[0].filename).name == "test_compaction_said.py"
    with pytest.warns(mburst.CompactedWarning, match="a report of hosts leaves out the time before 2024-10-06"):
        opened.report()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(opened.bursts()) == 6


def test_hours_after_midnight_count_once_and_are_refused(store: StoreFolder) -> None:
    # The facts about a compacted day are stored with the time of its beginning, and hold for all of it.
    noon = DAY + 12 * 3600 * S
    opened = mburst.open(store.path)
    before = opened.rack_report("r1", since=noon - 60 * S, until=noon + 60 * S).to_dict()
    compacted(store)
    assert opened.rack_report("r1", since=noon - 60 * S, until=noon + 60 * S).to_dict() == before
    with pytest.raises(UsageError, match="compacted"):
        opened.bursts(threshold=0.1, since=noon - 60 * S, until=noon + 60 * S)
    with pytest.raises(UsageError, match="compacted"):
        opened.report(since=noon - 60 * S, until=noon + 60 * S)
    assert (
        len(opened.bursts(threshold=0.1, host="host-r0", since=noon, until=noon + 5 * MS)) == 1
    )  # within the kept bins


def test_metrics_begin_at_zero_if_not_every_bin_is_kept(store: StoreFolder) -> None:
    """Prometheus takes a lower counter for a reset, and all of it for new."""
    from mburst.agent.metrics.meter import Meter

    def sums() -> list[int]:
        with closing(Meter(store, BurstDefinition(), DAY)) as meter:
            meter.take()
            return [sum(getattr(lane, name) for lane in meter.lanes.values()) for name in ("packets", "wire_bytes")]

    before = sums()
    assert sums() == before and min(before) > 0
    compacted(store)
    said: list[str] = []
    with limits.noting(said.append):
        assert sums() == [0, 0]
    whole = "the store was compacted, and has every row from 2024-10-06 00:00:00 UTC on only"
    assert said == [f"metrics begin at zero: {whole}"]


def test_canary_bursts_of_a_compacted_day_are_not_read(store: StoreFolder) -> None:
    from mburst.sent_burst import SentBurst
    from mburst.services import canary

    compacted(store)
    fields = {field.name: 0 for field in dataclasses.fields(SentBurst)}
    sent = SentBurst(**{**fields, "start_ns": DAY + S, "end_ns": DAY + S + MS})
    run = mock.Mock(bursts=[sent])
    with pytest.raises(UsageError, match="compacted"):
        canary.connected(store, run)


def test_shipping_names_rows_that_were_compacted_before(store: StoreFolder, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    from mburst.fleet.ship import ShipSettings, ship
    from mburst.fleet.target import open_target

    compacted(store)
    target = open_target(str(tmp_path / "archive"))
    first = ship(store, target, ShipSettings())
    assert [str(trouble) for trouble in first.troubles] == [
        f"{store.path}: rows until 2024-10-06 12:00:29.990000 were compacted: what had not been shipped of them is not"
    ]
    assert ship(store, target, ShipSettings()).troubles == []

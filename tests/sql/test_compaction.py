"""A compacted store gives the same answers as before to every question that it can still answer."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import compactionlib
import pyarrow.parquet as pq
import pytest
from compactionlib import (
    DAY,
    LINK,
    MS,
    NOW,
    S,
    bursts,
    compacted,
    counted,
    days_of_bursts,
    hours_merged,
    incast,
    quiet,
    recorded,
    rows_of,
    same,
    stores,
    together,
    traffic,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storelib import rows, sealed_files, write

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition, find_bursts
from mburst.errors import UsageError
from mburst.sql import StoreFolder, replacing
from mburst.sql.compaction.compact import compact
from mburst.sql.compaction.rules import SETTLED_NS, KeepRules
from mburst.sql.follow import TableFollower
from mburst.sql.format import filenames
from mburst.sql.limits import noting
from mburst.sql.shipped import ledger_text
from mburst.units import NS_PER_DAY

# --- random stores --------------------------------------------------------------------------------------------------

QUESTIONS = st.builds(
    lambda threshold, release, width, joined, least: (threshold, release, width, joined, least),
    st.sampled_from([0.25, 0.3, 0.5, 0.9]),
    st.sampled_from([None, 0.25, 0.28]),
    st.sampled_from([None, 1, 2, 3, 5, 10, 14, 20, 50, 100, 200, 500, 1000]),
    st.sampled_from([None, 0, 2, 5]),
    st.sampled_from([None, 3]),
)


def answerable(question: tuple[Any, ...], bin_ns: int) -> BurstDefinition | None:
    """Returns the definition that a question asks for; None if its width is invalid for a store of BIN_NS."""
    threshold, release, width, joined, least = question
    width_ns = bin_ns if width is None else width * MS
    if width_ns % bin_ns or (7 * width_ns > 100 * MS and width is None and bin_ns != width_ns):
        return None
    return BurstDefinition(
        threshold=threshold,
        release=None if release is None else min(release, threshold),
        bin_ns=None if width is None else width_ns,
        join_ns=None if joined is None else joined * width_ns,
        min_duration_ns=None if least is None else least * width_ns,
    )


# One-second sums, the slow way: from all bins.
SUMS = f"""
WITH windows AS (
    SELECT recording_id, clock_epoch, width, ts_ns // width * width AS ts_ns, sum(wire_bytes) AS wire_bytes
    FROM bins, (SELECT unnest([{MS}, {10 * MS}, {100 * MS}]) AS width) GROUP BY ALL),
peaks AS (
    SELECT recording_id, clock_epoch, ts_ns // {S} * {S} AS ts_ns, max(wire_bytes) FILTER (width = {MS}) AS of_1ms,
           max(wire_bytes) FILTER (width = {10 * MS}) AS of_10ms,
           max(wire_bytes) FILTER (width = {100 * MS}) AS of_100ms
    FROM windows GROUP BY ALL)
SELECT recording_id, ts_ns, min(bins.ts_ns), max(bins.ts_ns), count(*), sum(bytes), sum(wire_bytes), sum(packets),
       sum(ce_packets), sum(retransmits), sum(pause_quanta), bit_or(pause_classes), bit_or(quality),
       count(*) FILTER (quality & 32 <> 0), max(wire_bytes), CASE WHEN {MS} % bin_ns = 0 THEN of_1ms END,
       CASE WHEN {10 * MS} % bin_ns = 0 THEN of_10ms END, CASE WHEN {100 * MS} % bin_ns = 0 THEN of_100ms END
FROM (SELECT *, bins.ts_ns // {S} * {S} AS second FROM bins) AS bins
JOIN peaks ON peaks.recording_id = bins.recording_id AND peaks.clock_epoch = bins.clock_epoch AND peaks.ts_ns = second
JOIN (SELECT recording_id, bin_ns FROM recordings) AS r ON r.recording_id = bins.recording_id
GROUP BY ALL ORDER BY ALL
""".replace("recording_id, ts_ns, min", "bins.recording_id, peaks.ts_ns, min")
STEPS = """
SELECT recording_id, ts_ns, first_ns, last_ns, bins, bytes, wire_bytes, packets, ce_packets, retransmits, pause_quanta,
       pause_classes, quality, losing_bins, peak_bytes, peak_1ms_bytes, peak_10ms_bytes, peak_100ms_bytes
FROM steps ORDER BY ALL
"""


def answers(store: StoreFolder, query: str) -> list[tuple[Any, ...]]:
    with store.connect() as con:
        return con.execute(query).fetchall()


@pytest.mark.costly
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(case=stores(), questions=st.lists(QUESTIONS, min_size=8, max_size=12), by_hours=st.booleans())
def test_same_bursts_before_and_after(case: dict[str, Any], questions: list[tuple[Any, ...]], by_hours: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = StoreFolder.create(Path(folder) / "store")
        for index, pieces in enumerate(case["recordings"]):
            widths = {name: case[name] for name in ("bin_ns", "source_bin_ns")}
            recorded(store, f"r{index}", *traffic(case, pieces), **widths)
        definitions = [BurstDefinition(threshold=0.25)]
        definitions += [found for asked in questions if (found := answerable(asked, case["bin_ns"]))]
        before, sums = bursts(store, *definitions), answers(store, SUMS)
        if by_hours:
            hours_merged(store)
            assert answers(store, SUMS) == sums
        compacted(store)
        assert answers(store, STEPS) == sums
        for definition, was, found in zip(definitions, before, bursts(store, *definitions), strict=True):
            assert same(was, found), definition


# --- known stores ---------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store of three days of two hosts."""
    made = StoreFolder.create(tmp_path / "store")
    days_of_bursts(made)
    return made


def test_join_of_wide_bins_and_senders_before(tmp_path: Path) -> None:
    # Bins of 100 ms are joined over 5 of them; senders from before the burst are kept.
    store = StoreFolder.create(tmp_path / "store")
    noon = DAY + NS_PER_DAY // 2
    rows = together(
        quiet(noon - 2 * S, 200),
        incast(noon, 60),
        quiet(noon + 65 * MS, 50),
        incast(noon + 600 * MS, 60),
        quiet(noon + S, 200),
    )
    recorded(store, "a", *rows)
    asked = [BurstDefinition(threshold=0.25, bin_ns=width * MS) for width in (1, 14, 20, 100, 200, 1000)]
    before = bursts(store, *asked)
    assert [len(found) for found in before] == [2, 2, 2, 1, 1, 0]
    held = rows_of(store, "bins")
    compacted(store)
    assert bursts(store, *asked) == before
    assert rows_of(store, "bins") < held


def test_few_files_and_few_rows(store: StoreFolder) -> None:
    before, sums = bursts(store), counted(store)
    done = compacted(store)
    assert [day.detail.name for day in done.days] == ["BURSTS", "BURSTS", "ALL"]
    assert bursts(store) == before and counted(store) == sums
    assert len(sealed_files(store, "bins")) == 3  # one a day
    # 5 bins of each burst; there are no quiet bins within 50 ms of it.
    assert rows_of(store, "bins") == 2 * (2 * 5 + 2000 + 5)
    assert rows_of(store, "steps") == 2 * 2 * (10 + 10 + 1)
    assert compacted(store).days == []
    files = [path for table in ("bins", "sources", "steps", "kept") for path in sealed_files(store, table)]
    assert {pq.ParquetFile(path).num_row_groups for path in files} == {1}


def test_rows_of_a_recording_that_later_days_have_again_go(tmp_path: Path) -> None:
    # A row each day of a recorder that runs for weeks, and the one row of another one.
    store = StoreFolder.create(tmp_path / "store")
    row = {"boot_id": "boot", "complete": False, "ended": "", "host": "a", "rack": "r1"}
    for name, days in (("a" * 12, range(1, 30)), ("b" * 12, range(1, 2))):
        of = {"recording_id": name, "capture_id": name, "writer_id": name, **row}
        for day in days:
            more = {"written_ns": DAY + day * NS_PER_DAY, "counted_segments": day, "bytes": day}
            with store.writer("recordings", "a", "r1", name) as writer:
                writer.append(rows("recordings", {**of, **more}))
    asked = "SELECT recording_id, bytes, written_ns FROM recordings ORDER BY ALL"
    before = answers(store, asked)
    compacted(store, DAY + 40 * NS_PER_DAY)
    dates = {path.parent.parent.name for path in sealed_files(store, "recordings")}
    assert answers(store, asked) == before and len(dates) == 1 + 9
    assert compacted(store, DAY + 40 * NS_PER_DAY).days == []
    sealed_files(store, "recordings")[-1].write_bytes(b"damaged")
    assert answers(store, asked)[0][1] == 28


def test_later_ages_keep_sums_then_nothing(store: StoreFolder) -> None:
    sums = counted(store)
    compacted(store)
    compacted(store, NOW + 90 * NS_PER_DAY)
    assert counted(store) == sums and rows_of(store, "bins") == rows_of(store, "sources") == rows_of(store, "kept") == 0
    compacted(store, NOW + 731 * NS_PER_DAY)
    assert counted(store) == [] and rows_of(store, "recordings") == 2


def test_sums_do_not_depend_on_the_steps_of_compaction(store: StoreFolder) -> None:
    # The sums are the same whether a day is reduced to them at once or step by step.
    before = counted(store)
    compacted(store, NOW + 100 * NS_PER_DAY)
    assert counted(store) == before


def test_unanswerable_questions_are_refused_or_noted(store: StoreFolder) -> None:
    compacted(store)
    low, sentences = BurstDefinition(threshold=0.1), []
    with noting(sentences.append):
        [found] = bursts(store, low)
    whole = DAY + 2 * NS_PER_DAY
    assert {burst["start_ns"] // NS_PER_DAY * NS_PER_DAY for burst in found} == {whole}
    [sentence] = sentences
    assert "bursts before 2024-10-06" in sentence and "left out" in sentence
    with store.connect() as con:
        with pytest.raises(UsageError, match="before 2024-10-06 00:00:00 UTC this store was compacted"):
            find_bursts(con, low, since_ns=DAY)
        noon = DAY + 12 * 3600 * S
        assert find_bursts(con, low, recording="r0", since_ns=noon, until_ns=noon + 5 * MS)  # within the kept bins
        for question in ({"bin_ns": 30 * MS}, {"join_ns": S}, {"link_bps": LINK // 4}):
            with pytest.raises(UsageError, match="compacted"):
                find_bursts(con, BurstDefinition(**question), since_ns=DAY)
        assert len(find_bursts(con, BurstDefinition(link_bps=LINK * 2, threshold=0.25), since_ns=DAY)) == 6


def test_uncounted_values_stay_null(tmp_path: Path) -> None:
    # Retransmissions of one recording are NULL (--backend ebpf), those of the other 0 or 3 a bin.
    store = StoreFolder.create(tmp_path / "store")
    for name, repeated in (("a", None), ("b", 3)):
        bins, senders = together(quiet(DAY + S, 20), incast(DAY + 3 * S))
        full = [{**row, "retransmits": repeated and repeated * (row["packets"] > 1)} for row in bins]
        recorded(store, name, full, senders)
    compacted(store)
    assert rows_of(store, "steps") == 4
    with store.connect() as con:
        sums = "SELECT recording_id, ts_ns, retransmits, packets FROM counts ORDER BY ALL"
        assert con.execute(sums).fetchall() == [
            *[("a", DAY + S, None, 20), ("a", DAY + 3 * S, None, 400)],
            *[("b", DAY + S, 0, 20), ("b", DAY + 3 * S, 15, 400)],
        ]


def test_bins_out_of_order_give_the_same_sums(tmp_path: Path) -> None:
    # Segments of a later time come first, and a merged day has several recordings in one row group.
    sums = []
    for name, is_late in (("early", False), ("late", True)):
        store = StoreFolder.create(tmp_path / name)
        for host in ("a", "b", "c"):
            bins, senders = together(quiet(DAY + S, 300), incast(DAY + 5 * S), quiet(DAY + 900 * S, 30))
            recorded(store, host, bins[::-1] if is_late else bins, senders)
        compacted(store, DAY + NS_PER_DAY + SETTLED_NS)
        compacted(store)
        sums.append((answers(store, STEPS), answers(store, "FROM bins ORDER BY ALL"), answers(store, "FROM kept")))
    assert sums[0] == sums[1] and len(sums[0][0]) == 3 * 5


def test_recordings_of_unknown_speed_are_merged_and_not_thinned(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    recorded(store, "a", *incast(DAY + S), link_bps=None)
    compacted(store)
    assert rows_of(store, "bins") == 5 and rows_of(store, "thinned") == 0 and len(sealed_files(store, "bins")) == 1


# --- what is left alone ---------------------------------------------------------------------------------------------


def test_files_of_writers_that_may_continue_are_left_alone(tmp_path: Path) -> None:
    store = StoreFolder.create(tmp_path / "store")
    recorded(store, "whole", *incast(DAY + S))
    recorded(store, "uncounted", *incast(DAY + S), complete=False, ended="", counted_segments=1)
    recorded(store, "file", *incast(DAY + S), complete=False, ended="", boot_id=None)
    before = bursts(store)
    compacted(store)
    assert bursts(store) == before
    left = {path.name.split("-")[1] for path in sealed_files(store, "sources") if not path.name.startswith("-")}
    assert left == {"uncounted", "file"}


def test_a_damaged_day_is_left_alone_and_named(store: StoreFolder) -> None:
    path = sealed_files(store, "bins")[0]
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    done = compact(store, KeepRules(), now_ns=NOW)
    done_folders = {
        f"date={filenames.date_of(day.name.day)}/rack={day.name.rack}" for day in done.days if "bins" in day.tables
    }
    assert not any(folder in str(path) for folder in done_folders)
    assert any(path.name in trouble for trouble in done.troubles)
    assert path.exists()


def test_files_that_were_not_shipped_are_left_alone(store: StoreFolder) -> None:
    ledger = store.path / "shipped" / "0123456789abcdef.json"
    ledger.parent.mkdir()
    ledger.write_text(ledger_text({"receipt": set()}))
    assert compacted(store).days == []
    keys = {"/".join(path.parts[-4:]) for path in store.path.glob("*/date=*/rack=*/*.parquet")}
    ledger.write_text(ledger_text({"receipt": keys})[:-5])  # torn
    assert compacted(store).days == []
    ledger.write_text(ledger_text({"receipt": keys}))
    assert len(compacted(store).days) == 3


def test_a_target_that_days_wait_for_is_named_after_a_while(store: StoreFolder) -> None:
    """Otherwise the store would grow without a reason that can be seen, for a target that is no longer used."""
    ledger = store.path / "shipped" / "0123456789abcdef.json"
    ledger.parent.mkdir()
    ledger.write_text(ledger_text({"receipt": set(), "tables": {"bins"}, "target": {"s3://old"}}))
    assert not compacted(store, NOW + NS_PER_DAY - S).waits
    for _ in range(2):
        [line] = compacted(store, NOW + NS_PER_DAY).waits
        assert f"{store.path}: days from 2024-10-04 on keep every row until s3://old has them" in line
        assert f"remove {ledger})" in line
    ledger.unlink()
    assert not (found := compacted(store, NOW + NS_PER_DAY)).waits and len(found.days) == 3


def test_the_age_of_late_imports_counts_from_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rows of 2024 that were written 100 days later: they are kept for a day from then on.
    store, imported_ns = StoreFolder.create(tmp_path / "store"), DAY + 100 * NS_PER_DAY
    begin = filenames.Segment
    late = lambda host, _, *rest: begin(host, imported_ns, *rest)  # noqa: E731
    monkeypatch.setattr(compactionlib, "Segment", late)
    recorded(store, "a", *together(incast(DAY + S), quiet(DAY + 20 * S, 100)))
    found = [compacted(store, imported_ns + at).days for at in (NS_PER_DAY, NS_PER_DAY + SETTLED_NS)]
    assert [[day.detail.name for day in days] for days in found] == [["ALL"], ["BURSTS"]]


def test_a_clock_that_is_far_ahead_is_believed_after_a_day(store: StoreFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def compacted_at(now_ns: int) -> tuple[set[str], list[str]]:
        monkeypatch.setattr("time.time_ns", lambda: now_ns)
        done = compact(store, KeepRules())
        return {day.detail.name for day in done.days}, done.troubles

    begun_ns, ahead_ns = DAY + NS_PER_DAY + SETTLED_NS, DAY + 5000 * NS_PER_DAY
    assert compacted_at(begun_ns) == ({"ALL"}, [])
    sums = counted(store)
    line = (
        "the clock has gone from 2024-10-05 02:00 UTC, when the store was compacted last, to 2038-06-13 00:00 UTC: "
        "nothing is removed by age before 2038-06-14 00:00 UTC (set the clock if it is wrong)"
    )
    assert compacted_at(ahead_ns) == ({"ALL"}, [line])
    assert compacted_at(ahead_ns + NS_PER_DAY // 2) == (set(), [line]) and counted(store) == sums
    assert compacted_at(begun_ns + NS_PER_DAY // 2) == (set(), [])  # it was set right
    assert compacted_at(DAY - 9000 * NS_PER_DAY) == (set(), [])  # nothing is old by a clock that is behind
    for at_ns in (ahead_ns, ahead_ns - NS_PER_DAY, ahead_ns - 1):
        assert compacted_at(at_ns)[1]
    assert compacted_at(ahead_ns) == ({"NONE"}, [])  # a day later: it was left alone for so long
    assert compacted_at(ahead_ns + 30 * NS_PER_DAY) == (set(), [])
    for text in ("", "{", "[]", '{"believed_ns": 1e30, "doubted_ns": []}', '{"believed_ns": -1, "doubted_ns": 1}'):
        (store.path / "replaced" / "clock").write_text(text)
        assert compacted_at(ahead_ns + 90 * NS_PER_DAY) == (set(), [])


def test_dry_run_writes_nothing(store: StoreFolder) -> None:
    before = sorted(store.path.rglob("*"))
    done = compact(store, KeepRules(), dry_run=True, now_ns=NOW)
    assert [day.after_files for day in done.days] == [None] * 3
    assert sorted(store.path.rglob("*")) == before


def test_dry_run_says_that_nothing_is_to_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    StoreFolder.create(tmp_path / "store")
    assert main(["compact", "--dry-run", str(tmp_path / "store")]) == 0
    assert capsys.readouterr().out == "there is nothing to compact\n"


def test_size_takes_the_oldest_detail_first(store: StoreFolder) -> None:
    compacted(store)
    whole = compacted(store).bytes
    ring = store.path / "packets" / "host-r0" / "eth0"  # which has a size of its own
    ring.mkdir(parents=True)
    (ring / "0000000000-0000000000000000000.pcapng").write_bytes(bytes(10**6))
    assert compacted(store, size=whole).days == []
    done = compact(store, KeepRules(size=whole - 1), now_ns=NOW)
    assert [(day.name.day * NS_PER_DAY, day.detail.name, day.for_size) for day in done.days] == [(DAY, "STEPS", True)]
    days = {(burst["start_ns"] - DAY) // NS_PER_DAY for burst in bursts(store)[0]}
    assert done.bytes < whole and days == {1, 2}
    done = compact(store, KeepRules(size=1), now_ns=NOW)
    assert counted(store) == [] and done.bytes > 1


# --- while others run -----------------------------------------------------------------------------------------------


def test_open_readers_keep_their_files(store: StoreFolder) -> None:
    with store.connect() as con:
        before = find_bursts(con)
        done = compact(store, KeepRules(), now_ns=NOW)
        assert done.waiting > 0
        assert find_bursts(con) == before  # from the files that were listed then
        assert bursts(store) == [before]  # from the new ones
    del con
    assert replacing.finish(store.path) == 0
    assert len(sealed_files(store, "bins")) == 3 and not list((store.path / "replaced").glob("*.json"))


def test_several_compactions_at_once(store: StoreFolder) -> None:
    before = bursts(store)
    found = []
    threads = [threading.Thread(target=lambda: found.append(compact(store, KeepRules(), now_ns=NOW))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(len(done.days) for done in found) == 3 and any(done.is_busy for done in found)
    assert bursts(store) == before


def test_followers_report_no_rows_of_compaction(store: StoreFolder) -> None:
    follower = TableFollower(store.path, "bins", look_for_sealed_s=0)
    compacted(store)
    assert follower.poll() == []
    follower.close()


def test_writers_continue_during_compaction(store: StoreFolder) -> None:
    before = counted(store)
    stop, wrote = threading.Event(), 0

    def write_on() -> None:
        nonlocal wrote
        while not stop.is_set():
            write(store, "bins", {"recording_id": "r0", "host": "host-r0", "ts_ns": NOW + wrote * MS, "packets": 1})
            wrote += 1

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        compacted(store)
    finally:
        stop.set()
        writer.join()
    assert wrote and sum(row[1] for row in counted(store)) == sum(row[1] for row in before) + wrote


def test_check_reports_a_sound_store_before_and_after_readers_end(store: StoreFolder) -> None:
    from mburst.sql.repair.checking import check
    from mburst.sql.repair.sums import compare_sums

    with store.connect() as con:
        compact(store, KeepRules(), now_ns=NOW)
        con.execute("FROM bins LIMIT 1")
        for found in (check(store.path), check(store.path)):
            compare_sums(store.path, found)
            assert found.is_sound and not found.remarks and found.recordings_compared == 2, found


def test_a_reader_without_the_right_to_write(store: StoreFolder) -> None:
    compacted(store)
    assert os.access(store.path / "replaced" / "readers", os.R_OK)
    reading = replacing.begin_reading(store.path)
    assert reading is not None
    os.close(reading)

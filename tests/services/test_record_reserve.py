"""If the disk has little room, senders are summed up, and nothing else changes."""

from __future__ import annotations

import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storelib import rows

from mburst.errors import MburstError
from mburst.lab.simulate import Scenario, simulate
from mburst.services.record import recording, reserve
from mburst.services.record.recorder import record
from mburst.services.record.recording import InterfaceSettings, RecordSettings
from mburst.sql import StoreFolder
from mburst.sql.repair.checking import check
from mburst.sql.repair.sums import compare_sums

SENDER = st.fixed_dictionaries(
    {
        "ts_ns": st.integers(0, 3),
        "direction": st.sampled_from(["in", "out"]),
        "source": st.sampled_from("abc"),
        "bytes": st.integers(0, 2**40),
        "packets": st.integers(0, 1000),
        "members": st.integers(1, 5),
        "first_ns": st.integers(0, 100),
        "last_ns": st.integers(100, 200),
    }
)


@settings(max_examples=60)
@given(st.lists(SENDER, min_size=1, max_size=20))
def test_sums_are_those_of_the_senders(given: list[dict[str, object]]) -> None:
    [batch] = rows("sources", *given).combine_chunks().to_batches()
    found = {(row["direction"], row["ts_ns"]): row for row in reserve.summed_up(batch).to_pylist()}
    groups: dict[tuple[object, object], list[dict[str, object]]] = {}
    for row in given:
        groups.setdefault((row["direction"], row["ts_ns"]), []).append(row)
    assert found.keys() == groups.keys()
    for key, of in groups.items():
        for name in ("bytes", "packets", "members"):
            assert found[key][name] == sum(row[name] for row in of)  # type: ignore[misc]
        assert found[key]["source"] == "other" and found[key]["first_ns"] == min(row["first_ns"] for row in of)  # type: ignore[type-var]
        assert found[key]["last_ns"] == max(row["last_ns"] for row in of)  # type: ignore[type-var]


def test_senders_are_summed_up_while_room_is_short_and_kept_again_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = namedtuple("size", "f_bavail f_frsize")
    rooms = iter((100, 99, 124, 125, 50))
    monkeypatch.setattr(reserve, "LOOK_S", 0.0)
    monkeypatch.setattr(reserve.os, "statvfs", lambda _: size(next(rooms), 1))
    said: list[MburstError] = []
    kept = reserve.DiskReserve(tmp_path, 100, said.append)
    [batch] = rows("sources", {"source": "a"}, {"source": "b"}).to_batches()
    lengths = [kept.within(batch).num_rows for _ in range(5)]
    assert lengths == [2, 1, 1, 2, 1] and kept.notes() == ["3 rows of senders summed up for lack of disk"]
    assert [str(error).partition(": ")[2] for error in said] == [
        "less than 100 B of the disk are free (--reserve): senders are summed up as `other`, bins go on",
        "there is room on the disk: senders are stored again",
        "less than 100 B of the disk are free (--reserve): senders are summed up as `other`, bins go on",
    ]


def test_a_trouble_takes_the_place_of_the_progress_line_and_has_escaped_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = simulate(Scenario(seed=1, senders=10)).write(tmp_path)
    wanted = RecordSettings([str(case["cache"])], host="cache-1", live=InterfaceSettings(reserve_bytes=1 << 62))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    record(StoreFolder.create(tmp_path / "short\x1b[31m"), wanted)
    said = capsys.readouterr().err
    assert said.startswith("\r\x1b[Kmburst: ") and "short\\x1b[31m" in said and "senders are summed up" in said


def test_a_recording_without_room_for_senders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = simulate(Scenario(seed=1, senders=10)).write(tmp_path)
    wanted = RecordSettings([str(case["cache"])], link_bps=10**9, host="cache-1")
    store, full = StoreFolder.create(tmp_path / "short"), StoreFolder.create(tmp_path / "full")
    record(full, wanted)
    record(store, replace(wanted, live=InterfaceSettings(reserve_bytes=1 << 62)))
    assert "senders are summed up" in capsys.readouterr().err
    with store.connect() as con, full.connect() as other:
        assert con.execute("SELECT DISTINCT source FROM sources").fetchall() == [("other",)]
        assert "senders are summed up" in con.execute("SELECT notes FROM recordings").fetchone()[0]
        sums = "SELECT direction, ts_ns, sum(bytes), sum(packets) FROM sources GROUP BY ALL ORDER BY ALL"
        assert con.execute(sums).fetchall() == other.execute(sums).fetchall()
        bins = "SELECT ts_ns, bytes, wire_bytes, packets FROM bins ORDER BY ALL"
        assert con.execute(bins).fetchall() == other.execute(bins).fetchall()
    found = check(store.path)
    compare_sums(store.path, found)
    assert found.is_sound and found.recordings_compared


def test_a_recording_of_months_has_no_more_notes_than_a_page() -> None:
    """Each says how long it took, so that none is like another."""
    notes = recording.Notes("more on standard error")
    for at in range(10_000):
        for _ in range(2):
            notes.add(f"the disk was slow for {at} s")
    assert list(notes) == [*(f"the disk was slow for {at} s" for at in range(20)), "more on standard error"]

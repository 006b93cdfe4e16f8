"""`--sources busy`: what is recorded, and what is reported to its readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from frames import START_NS, Frame, write_pcap

import mburst
from mburst.__main__ import main
from mburst.api.recording import recording_of
from mburst.services.record.recording import fingerprint

MS = 10**6


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two packets a ms from ten senders, and in the middle 60 % of 1 Gb/s for 3 ms."""
    quiet = [Frame(START_NS + i * 500_000, i % 10, 100) for i in range(400)]
    burst = [Frame(START_NS + 100 * MS + i * 20_000, i % 7, 1490) for i in range(150)]
    return write_pcap(tmp_path / "cache.pcap", sorted(quiet + burst, key=lambda frame: frame.ts_ns))


def recorded(capture: Path, name: str, **options: Any) -> mburst.Store:
    return mburst.record(capture, capture.parent / name, link="1G", local="192.0.2.1", **options).store


def bytes_by_bin(store: mburst.Store) -> list[Any]:
    return store.sql("SELECT ts_ns, sum(bytes), sum(packets) FROM sources GROUP BY ts_ns ORDER BY ts_ns").to_pylist()


def test_files_keep_all_senders_by_default_and_sums_are_the_same(capture: Path) -> None:
    everybody, busy = recorded(capture, "all"), recorded(capture, "busy", sources="busy")
    assert [store.sql("SELECT sources_above_ppb FROM recordings").to_pylist() for store in (everybody, busy)] == [
        [{"sources_above_ppb": None}],
        [{"sources_above_ppb": 100_000_000}],
    ]
    assert bytes_by_bin(everybody) == bytes_by_bin(busy)
    assert everybody.bursts().to_pylist()[0] == {**busy.bursts().to_pylist()[0]} | {
        "recording_id": everybody.bursts().to_pylist()[0]["recording_id"]
    }
    [[rows], [kept]] = [store.sql("SELECT count(*) AS n FROM sources").to_pylist() for store in (everybody, busy)]
    assert rows["n"] > 400 and kept["n"] < 300


def test_the_list_of_bursts_states_where_senders_may_be_missing(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(capture, "busy", sources="busy", sources_above="20%")
    expected = {
        "": False, "--threshold 10%": True, "--bin 10ms": True, "--release 0.1": True, "--threshold 20%": False,
        "--link 10G": False, "--link 300M": True,
    }  # fmt: skip
    said = {}
    for options in expected:
        assert main(["bursts", str(capture.parent / "busy"), *options.split()]) == 0
        said[options] = "senders are kept near bins of 20 % of line rate or more" in capsys.readouterr().err
    assert said == expected


def test_a_report_states_which_senders_were_kept(capture: Path) -> None:
    store = recorded(capture, "busy", sources="busy")
    assert main(["report", str(capture.parent / "busy"), "-o", str(capture.parent / "out")]) == 0
    [page] = (capture.parent / "out").glob("*.html")
    assert "kept near bins of 10 % of line rate or more, and summed up as `other` elsewhere" in page.read_text("utf-8")
    assert store.sql("SELECT count(*) AS n FROM sources WHERE source = 'other'").to_pylist()[0]["n"] > 0


def test_an_investigation_states_where_senders_may_be_missing(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(recorded(capture, "busy", sources="busy").path)
    said = "cache in: senders are kept near bins of 10 % of line rate or more"
    assert main(["investigate", store, "--threshold", "5%"]) == 0 and said in capsys.readouterr().out
    assert main(["investigate", store]) == 0 and said not in capsys.readouterr().out


def test_the_same_file_with_all_senders_is_the_same_recording_as_before(capture: Path) -> None:
    """The file must not be recorded again into stores of earlier versions."""
    one = write_pcap(capture.parent / "one.pcap", [Frame(START_NS, 1, 60)])
    everybody, busy = (recording_of([str(one)], sources=word) for word in ("all", "busy"))
    assert fingerprint(everybody) == fingerprint(recording_of([str(one)])) == "fa152e9a6dcf" != fingerprint(busy)


def test_without_a_link_speed_all_senders_are_kept_and_a_note_states_it(capture: Path) -> None:
    done = mburst.record(capture, capture.parent / "s", local="192.0.2.1", sources="busy")
    [row] = done.rows
    assert row["sources_above_ppb"] is None
    assert "all senders are kept, as the speed of the link is not known" in row["notes"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sources_above": "5%"}, "--sources-above is for --sources busy"),
        ({"sources": "busy", "sources_above": "0%"}, "share of line rate"),
        ({"sources": "busy", "sources_above": 1.5}, "not a share of line rate"),
    ],
)
def test_invalid_shares_are_refused(capture: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(mburst.UsageError, match=reason):
        recording_of([str(capture)], **options)


def test_an_interface_keeps_senders_near_busy_bins(capture: Path) -> None:
    assert recording_of(["lo"]).sources_above_ppb == 100_000_000
    assert recording_of(["lo"], sources="all").sources_above_ppb is None
    assert recording_of([str(capture)]).sources_above_ppb is None

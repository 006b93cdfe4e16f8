"""`mburst bursts`: its table, JSON and CSV, filters and errors, over stores with a known answer."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from burstlib import MS, T0, full_bins, starts
from storelib import write

from mburst.__main__ import main
from mburst.analysis.bursts.find import COLUMNS, find_bursts
from mburst.sql import StoreFolder


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    return StoreFolder.create(tmp_path / "store")


Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(store: StoreFolder, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["bursts", str(store.path), *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def recorded(store: StoreFolder) -> StoreFolder:
    """Two bursts in a recording of 100 ms."""
    write(store, "recordings", {"start_ns": T0, "end_ns": T0 + 100 * MS, "quality": 32, "dropped": 4, "late": 1})
    write(store, "bins", *full_bins(10, 11, 12), *full_bins(50, quality=32))
    write(
        store,
        "sources",
        *(
            {
                "ts_ns": T0 + at * MS,
                "source": source,
                "bytes": count,
                "first_ns": T0 + at * MS,
                "last_ns": T0 + at * MS + 9,
            }
            for at, source, count in ((10, "10.0.0.1", 300_000), (11, "10.0.0.2", 100_000), (50, "a", 9))
        ),
    )
    return store


def test_the_table_states_the_definition_and_the_recording(ask: Ask, recorded: StoreFolder) -> None:
    code, out, err = ask("--threshold", "80%", "--join", "5ms", "--release", "0.6")
    head, names, first, second, foot = out.splitlines()
    assert (code, err) == (0, "")
    assert head == (
        "cache-1 eth0 in: 1 Gb/s, bins of 1 ms, stamps: file, 1 ns; a burst is 80 % of line rate or more, goes on at"
        " 60 % or more, joined over gaps up to 5 ms, 1 ms or longer"
    )
    assert re.split(r"  +", names) == [
        "burst",
        "start (UTC)",
        "duration",
        "mean",
        "peak",
        "bytes",
        "fan-in",
        "pattern",
        "top senders",
        "quality",
    ]
    assert re.split(r"  +", first.strip()) == [
        "1",
        "2023-11-14 22:13:20.010000",
        "3 ms",
        "100 %",
        "100 %",
        "372 kB",
        "2",
        "many-sources",
        "10.0.0.1 75 %, 10.0.0.2 25 %",
    ]
    assert re.split(r"  +", second.strip())[7:] == ["single-source", "a 100 %", "drops"]
    assert foot == (
        "2 bursts in 101 ms, 3.96 % of the time; 4 packets were dropped: counts are lower bounds;"
        " 1 packet in no bin: outside the reorder window, or the years 1970 to 2100"
    )
    later = ask("--since", "2023-11-14T22:13:20.05")[1].splitlines()[-1]
    assert later.startswith("1 burst in 51 ms, 1.96 % of the time")


def test_a_recording_that_was_killed_is_summed_from_its_bins(ask: Ask, store: StoreFolder) -> None:
    write(store, "recordings", {"complete": False})
    write(store, "bins", *full_bins(0, 10), {"ts_ns": T0 + 40 * MS, "wire_bytes": 9})
    assert ask()[1].splitlines()[-1] == (
        "2 bursts in 41 ms, 4.88 % of the time; the recording has not ended, or was killed: what was lost is not known"
        " yet"
    )


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (None, "the recording broke off (killed): what came after that is not known"),
        (
            {"end_ns": None},
            "the recording broke off (power): what came after that is not known until the interface is recorded again",
        ),
        ({"packets": 1234}, "the recording broke off (power): 1,234 packets were missed in the 2 s after that"),
        ({"packets": 0}, "the recording broke off (power): 0 packets were missed in the 2 s after that"),
        (
            {},
            "the recording broke off (power): packets were missed in the 2 s after that, not known how many packets: x",
        ),
    ],
)
def test_the_gap_of_an_interrupted_recording_states_what_it_missed(
    ask: Ask, store: StoreFolder, gap: dict[str, Any] | None, expected: str
) -> None:
    end_ns = T0 + 50 * MS
    write(store, "recordings", {"complete": False, "ended": "killed", "start_ns": T0, "end_ns": end_ns})
    write(store, "bins", *full_bins(0, 10))
    lost = {"start_ns": T0, "end_ns": T0 + MS, "reason": "dropped", "detail": "", "packets": 9}
    write(store, "gaps", lost)
    if gap is not None:
        write(
            store,
            "gaps",
            {
                "start_ns": end_ns,
                "end_ns": end_ns + 2000 * MS,
                "reason": "power",
                "detail": "not known how many packets: x",
                **gap,
            },
        )
    dropped = (
        "at least 9 packets were dropped: counts are lower bounds"  # the row of a killed recorder has none of them
    )
    assert ask()[1].splitlines()[-1].split("; ")[1:] == [dropped, expected]


def test_json_and_csv_have_the_same_rows(ask: Ask, recorded: StoreFolder) -> None:
    found = json.loads(ask("--json")[1])
    assert found == find_bursts(recorded.connect()) and len(found) == 2 and tuple(found[0]) == COLUMNS
    table = list(csv.DictReader(io.StringIO(ask("--csv")[1])))
    assert [json.loads(row["top_sources"]) for row in table] == [burst["top_sources"] for burst in found]
    assert [int(row["start_ns"]) for row in table] == [burst["start_ns"] for burst in found]


def test_no_burst_is_reported(ask: Ask, recorded: StoreFolder) -> None:
    code, out, _ = ask("--min-duration", "1s")
    assert code == 0 and "no burst in 101 ms, 0 % of the time" in out
    assert json.loads(ask("--min-duration", "1s", "--json")[1]) == []
    assert ask("--min-duration", "1s", "--csv")[1] == ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize("when", [["--since", "2001-01-01", "--until", "2001-01-02"], ["--since", "2024-01-01"]])
def test_time_without_a_recording_is_not_reported_as_time_without_bursts(
    ask: Ask, recorded: StoreFolder, when: list[str]
) -> None:
    code, out, _ = ask(*when)
    assert code == 0 and out.splitlines()[1:] == ["not recorded in this time"]
    write(recorded, "recordings", {"recording_id": "silent", "host": "other", "start_ns": None, "end_ns": None})
    assert ask(*when)[1].splitlines()[-1] == "no burst; no packet was lost", "it may have been recorded then"


def test_hosts_with_the_same_name_are_distinguished_by_rack(ask: Ask, recorded: StoreFolder) -> None:
    write(recorded, "recordings", {"recording_id": "b", "rack": "r2", "start_ns": T0, "end_ns": T0 + 100 * MS})
    write(recorded, "bins", {"recording_id": "b", "rack": "r2", "ts_ns": T0, "wire_bytes": 100})
    heads = [line for line in ask()[1].splitlines() if ": 1 Gb/s" in line]
    assert sorted(re.findall(r" \(rack (.*?)\) ", line) for line in heads) == [["r1"], ["r2"]]
    assert "(rack" not in ask("--rack", "r1")[1]


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_a_filter_that_no_recording_matches_fails(ask: Ask, recorded: StoreFolder, form: list[str]) -> None:
    code, out, err = ask("--host", "nobody", "--interface", "eth9", *form)
    assert (code, out) == (1, "") and "no recording of host nobody and interface eth9 (" in err


def test_since_counts_back_from_the_newest_data(ask: Ask, recorded: StoreFolder) -> None:
    assert starts(json.loads(ask("--since", "1ms", "--json")[1])) == [50]
    assert starts(json.loads(ask("--until", "2023-11-14T22:13:20.02", "--json")[1])) == [10]
    assert starts(json.loads(ask("--since", "2023-11-14", "--until", "2023-11-15", "--json")[1])) == [10, 50]


def test_overlapping_recordings_are_reported_on_stderr(ask: Ask, recorded: StoreFolder) -> None:
    write(recorded, "recordings", {"recording_id": "run-2", "start_ns": T0, "end_ns": T0 + MS})
    code, out, err = ask("--json")
    assert code == 0 and len(json.loads(out)) == 2
    assert re.fullmatch(
        r"mburst: recordings run-1 and run-2 recorded the same interface and time: .*--recording.*\n", err
    )
    assert ask("--json", "--recording", "run-1")[2] == ""


@pytest.mark.parametrize(
    ("words", "code", "error_text"),
    [
        (["--bin", "1.5ms"], 2, "is not a multiple"),
        (["--bin", "0ms"], 2, "longer than 0"),
        (["--bin", "10"], 2, "invalid duration"),
        (["--threshold", "0"], 2, "invalid share"),
        (["--release", "0.9"], 2, "at most the threshold"),
        (["--link", "fast"], 2, "invalid link"),
        (["--since", "never"], 2, "invalid time"),
        (["--since", "1h", "--until", "2h"], 2, "not before"),
        (["--direction", "up"], 2, "invalid choice"),
        (["--json", "--csv"], 2, "not allowed with"),
        (["--colour"], 2, "unrecognized arguments: --colour (see `mburst bursts --help`)"),
        (["--treshold=0.6"], 2, "--treshold=0.6 (did you mean --threshold?) (see `mburst bursts --help`)"),
        (["--direction", "inn"], 2, "invalid choice: 'inn' (did you mean in?)"),
    ],
)
def test_errors_of_the_call_are_one_line(
    ask: Ask, recorded: StoreFolder, words: list[str], code: int, error_text: str
) -> None:
    got, out, err = ask(*words)
    [line] = err.splitlines()
    assert (got, out) == (code, "") and error_text in line

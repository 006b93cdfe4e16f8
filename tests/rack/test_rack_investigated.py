"""`mburst investigate` on the rack: real packets, a real queue, real probes, and a known cause."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from calm import Attempts
from pyarrow.csv import write_csv
from rackdata import BY_GNMI, probes_of, stored

from mburst.__main__ import main
from mburst.lab.rack import RecordedExperiment

SENDERS = 40
WANTED = {"busy": "bursts", "second": "none", "quiet": "none"}


def one_way(recording: RecordedExperiment, which: str) -> Path:
    """Writes the probes with only the kernel's stamps of the way out: processes on a busy machine do stall, and a
    verdict that reports this would be right."""
    kept = recording.truth.with_name(f"{which}.csv")
    rows = getattr(probes_of(recording), which).select(["seq", "src", "dst", "tx_ns", "remote_rx_ns", "lost"])
    write_csv(rows.set_column(5, "lost", rows.column("lost").cast("int8")), kept)
    return kept


def depths(recording: RecordedExperiment) -> Path:
    """Writes the depths that the switch reported of its queue."""
    kept, rows = recording.truth.with_name("queues.csv"), stored(recording.store, "queues").sort_by("ts_ns")
    rows = rows.filter(pc.equal(rows.column("semantics"), BY_GNMI))
    rows = rows.filter(rows.column("max_bytes").is_valid())
    names = ["device", "port", "queue", "window_start_ns", "ts_ns", "max_bytes", "semantics"]
    write_csv(rows.select(names), kept)
    return kept


def investigated(recording: RecordedExperiment, probes: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Returns the answer about one file of probes, from the capture and the switch's windows. Rounds are 300 ms apart:
    a pause of some milliseconds of the machine, which plays all hosts, does not end one."""
    capsys.readouterr()
    words = ["investigate", str(recording.capture), f"--link={recording.link_bps}bps", "--host", "cache", "--probes",
             str(one_way(recording, probes)), "--queues", str(depths(recording)), "--join", "5ms",
             "--json"]  # fmt: skip
    assert main(words) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def check(recording: RecordedExperiment, probes: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Returns the answer if it is the true one."""
    answer = investigated(recording, probes, capsys)
    assert answer["cause"] == WANTED[probes], answer["summary"]
    if probes == "busy":
        evidence, whose = answer["evidence"], answer["fan_in"][0]
        # At 100 Mb/s the answer of a sender is so small that the probes count as another sender.
        assert whose["fan_in"] in (SENDERS, SENDERS + 1) and whose["port"] == 9000
        assert len(whose["senders"]) in (SENDERS, SENDERS + 1)
        assert evidence["shares"]["bursts"]["value"] > 0.9 and evidence["excess_share"] > 0.9
        assert evidence["correlation"]["queue"] > 0.9 and evidence["lag_ns"] == 0
        assert answer["what_if"]["model"]["relative_error"] < 0.2
        priority = next(c for c in answer["what_if"]["changes"] if "priority" in c["change"])
        assert priority["p99_ns"] < answer["tail"]["p99_ns"] / 5
    return answer


@pytest.mark.parametrize("probes", list(WANTED))
def test_the_cause_on_the_rack(
    recorded_rack: Attempts[RecordedExperiment], probes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_found(recording: RecordedExperiment) -> None:
        check(recording, probes, capsys)

    recorded_rack.held(is_found)


def test_the_cause_by_samples_of_the_switch_alone(
    recorded_rack: Attempts[RecordedExperiment], capsys: pytest.CaptureFixture[str]
) -> None:
    """The investigation has the probes and the OTLP samples that the switch exported of its port; no host was
    recorded."""

    def is_found(recording: RecordedExperiment) -> None:
        capsys.readouterr()
        assert main(["investigate", str(recording.store), "--join", "5ms", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        [path] = [path for path in answer["paths"] if path["dst"] == "cache"]
        assert path["cause"] == "bursts", (path["cause"], path["reasons"])
        [depth] = [row for row in answer["sources_agree"] if row["what"] == "depth of the queue"]
        assert depth["state"] == "agree" and not answer["fan_in"]

    recorded_rack.held(is_found)

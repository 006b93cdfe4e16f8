"""Investigations of a port that only the switch recorded: its bins and the depth of its queue, by OTLP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from latency_switch import switch_case
from otlplib import OUT_BYTES

from mburst.__main__ import main
from mburst.sql import StoreFolder

SAYS = {
    "bursts": "Who sends them is not known, since a switch's port counts bytes alone: `mburst record` on h (eth0)",
    "neighbour": "Needed: which host is behind the switch's port (`links` of `mburst collect`, or `--alias NAME`).",
    "shallow": "the switch's queue was too short for these delays",
    "small": "the delays begin in bursts, but the link was not full while they lasted",
    "hop": "in the network, towards the destination while that port had room",
    "host": "The hosts, not the network, cause",
    "harmless": "There is no latency tail on p → h (udp)",
}


def investigated(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["investigate", *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize("kind", list(SAYS))
def test_the_cause_by_a_switch_alone(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = switch_case(kind)
    store = case.store(tmp_path)
    answer = investigated([str(store)], capsys)
    assert answer["cause"] == case.truth and SAYS[kind] in answer["summary"], answer["summary"]
    assert not answer["fan_in"]
    if kind == "bursts":
        check_the_bursts(answer, store, case.points(), capsys)
    if kind == "neighbour":
        assert investigated([str(store), "--alias", "h"], capsys)["cause"] == "bursts"


def check_the_bursts(
    answer: dict[str, Any], store: Path, points: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The depth is evidence, every byte that the switch counted is in a bin or a gap, and unknown facts are stated."""
    assert answer["summary"].startswith(
        "Bursts into h (switch port tor1 Ethernet0, 1 Gb/s) cause the latency tail of p → h"
    )
    assert "was at this port or at one of its speed before it" not in answer["summary"]  # the depth shows which
    assert answer["evidence"]["correlation"]["queue"] > 0.95
    [depth] = [row for row in answer["sources_agree"] if row["what"] == "depth of the queue"]
    assert depth["state"] == "agree" and depth["agreeing"] == depth["windows"] > 100
    [counted] = [row for row in answer["sources_agree"] if row["what"] != "depth of the queue"]
    assert counted["state"] == "untested" and "h itself was not recorded" in counted["said"]
    assert any("record the host itself, h (`mburst record`)" in item for item in answer["not_assessed"])
    assert "`mburst record --backend afpacket` counts them on the host behind it" in answer["notes"][-1]
    with StoreFolder.open(store).connect() as con:
        [(in_bins,)] = con.execute("SELECT sum(bytes) FROM bins").fetchall()
        [(missed, gaps)] = con.execute("SELECT sum(bytes), count(*) FROM gaps WHERE reason = 'not sampled'").fetchall()
    totals = [value for metric, _, _, value in points if metric == OUT_BYTES]
    assert gaps > 10 and in_bins + missed == totals[-1] - totals[0]
    assert main(["investigate", str(store), "-o", str(store.parent / "page.html")]) == 0
    printed = capsys.readouterr().out
    assert "No burst has a known sender." in printed
    assert "tor1 Ethernet0 queue 3, of tor1 Ethernet0 out: up to " in printed

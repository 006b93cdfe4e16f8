"""Pause frames and congestion notifications from scapy, recorded with the traffic that they concern: how the
investigation states them, on its page and in JSON."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import latency_cases as cases
import latency_pauses as pauses
import numpy as np
import pytest
from flow_control_frames import HERE, PACKET, THERE, by_class, captured, notification, pause
from latency_cases import Case, Setting
from latency_pauses import LONGEST
from latency_store import ORIGIN, store_case, write_probes
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from mburst.__main__ import main
from mburst.sql import StoreFolder

FULL = 1514  # bytes of a frame, 1538 on the wire
SLOW = Setting(seconds=8, link_bps=1e8, bin_ns=1_000_000, load=0.15, drain_ns=30e6)  # few frames a second


def paused_case(seed: int = 1) -> tuple[Case, pauses.Sent]:
    """The recorded host asks the switch to stop now and then, and probes to the host wait."""
    rng = np.random.default_rng(seed)
    spans = pauses.spans_of(rng, SLOW)
    model = pauses.silenced(rng, SLOW, spans)
    probes = cases.send(rng, SLOW, model, {})
    return Case("paused", cases.scene_of(model, probes, SLOW), "host", seed, SLOW), pauses.pause_frames(SLOW, spans)


def traffic(case: Case) -> list[tuple[int, bytes, int]]:
    """Frames into the host that make up the bins of the case."""
    kept = bytes(Ether(src=THERE, dst=HERE) / PACKET.payload / Raw(bytes(20)))
    port = case.scene.crossings[0].port
    counts = np.diff(port.carried) // cases.FRAME
    return [
        (ORIGIN + number * port.bin_ns + k * port.bin_ns // int(count), kept, FULL)
        for number, count in enumerate(counts)
        for k in range(int(count))
    ]


def recorded(folder: Path, case: Case, asking: list[tuple[int, Packet]]) -> Path:
    """A store with the traffic of the case, the frames that the host sent, and the probes."""
    frames = traffic(case) + [(at, bytes(one), len(one)) for at, one in asking]
    path = captured(folder / "h.pcap", frames)
    names = ["--host", "h", "--interface", "eth0", "--local", HERE, "--link", "100M", "--bin", "1ms"]
    assert main(["record", str(path), "-o", str(folder / "store"), *names]) == 0
    write_probes(StoreFolder.open(folder / "store"), case)
    return folder / "store"


def investigated(store: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["investigate", str(store), "--json", *options]) == 0
    return dict(json.loads(capsys.readouterr().out))


def page_text(store: Path, page: Path) -> str:
    assert main(["investigate", str(store), "-o", str(page)]) == 0
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page.read_text())))


def test_a_host_that_asks_for_pauses_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, sent = paused_case()
    store = recorded(tmp_path, case, [(ORIGIN + int(at), pause(LONGEST if asked else 0)) for at, asked, _ in sent])
    facts = investigated(store, capsys)
    assert facts["cause"] == "host"
    assert facts["summary"].startswith("h causes the latency tail of p → h (udp) by pause frames: ")
    found = facts["evidence"]["paused"]
    stops = sum(asked > 0 for _, asked, _ in sent)
    assert (found["pause_frames"], found["resume_frames"]) == (stops, len(sent) - stops)
    assert (found["port"], found["asked_by"], found["classes"]) == ("h eth0 in", "host", list(range(8)))
    assert found["could"]["value"] > found["stood"]["value"] > found["stood"]["low"] > 0.5
    assert found["p_value"] <= 0.005
    assert any(item.startswith("why h sends pause frames") for item in facts["missing"])
    text = page_text(store, tmp_path / "page.html")
    assert "excess that pause frames can account for at most (h eth0 in, all classes)" in text
    assert "A host causes the tail: it asked the switch to stop sending to it" in text
    assert "excess spent at that port while it was idle and asked to stop" in text
    assert "paused: of elsewhere, at an idle port that was asked to stop" in text
    assert facts["what_if"]["pauses"] == found["could"]
    assert main(["what-if", str(store), "--link", "10G"]) == 0
    assert "The model has no pause frames, which can account for up to 100 %" in capsys.readouterr().out
    assert "The model has no pause frames" in text
    assert "at an idle port while h asked the switch to stop sending to eth0 (pause frames, all classes)" in text


def test_a_pause_of_one_class_is_a_doubt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case, sent = paused_case()
    asking = [(ORIGIN + int(at), by_class({3: LONGEST if asked else 0})) for at, asked, _ in sent]
    facts = investigated(recorded(tmp_path, case, asking), capsys)
    assert facts["cause"] == "undetermined" and facts["evidence"]["paused"]["classes"] == [3]
    assert facts["evidence"]["paused"]["stood"] is None
    assert "h asked the switch to stop sending to eth0 (pause frames, class 3)" in " ".join(facts["reasons"])


def test_notifications_are_counted_in_and_outside_bursts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = Setting(seconds=8, link_bps=1e8, bin_ns=1_000_000, load=0.05, drain_ns=30e6)
    case = cases.build("incast", 0, setting)
    begin, end = case.scene.bursts[0]
    times = [float(a + b) / 2 for a, b in zip(begin, end, strict=True)]
    longest = np.argsort(end[:-1] - begin[1:])[:3]
    quiet = [float(end[k] + begin[k + 1]) / 2 for k in longest]
    store = recorded(tmp_path, case, [(ORIGIN + int(at), notification()) for at in times + quiet])
    facts = investigated(store, capsys)
    assert facts["cause"] == "bursts" and facts["evidence"]["paused"] is None
    found = facts["evidence"]["notified"]
    assert (found["port"], found["cnp_packets"], found["in_bursts"]) == ("h eth0 in", len(times) + 3, len(times))
    assert 0 < found["time_in_bursts"] < 0.5
    text = page_text(store, tmp_path / "page.html")
    assert "congestion notifications (CNP) about what h eth0 in carried that came in its bursts" in text
    assert f"{len(times) + 3} notifications" in text


def test_frames_that_were_not_counted_are_stated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An older mburst recorded bins with NULL for these counters."""
    case, _ = paused_case()
    store = store_case(tmp_path / "older", case)
    assert store.connect().execute("SELECT count(*) FROM bins WHERE pause_frames IS NOT NULL").fetchall() == [(0,)]
    evidence = investigated(store.path, capsys)["evidence"]
    assert evidence["paused"] is None and evidence["notified"] is None
    text = page_text(store.path, tmp_path / "page.html")
    assert text.count("pause frames") == text.count("pause frames were not counted (") > 0

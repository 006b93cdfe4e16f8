"""The investigation through the store and the command line: labelled cases written as rows, and the recorded case."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from latency_cases import Case, Setting, build
from storelib import DEFAULTS, write

from mburst.__main__ import main
from mburst.analysis.bursts import BurstDefinition
from mburst.analysis.investigate import Question, investigate, same_name
from mburst.sql import Store

ORIGIN = 1_800_000_000_000_000_000
LANE = {"run": "r", "host": "h", "rack": "a", "interface": "eth0", "direction": "in"}
KEYS = {"cause", "summary", "tail", "evidence", "bursts", "fan_in", "missing"}
EVIDENCE = {
    "relative_risk",
    "p_value",
    "lag_ns",
    "excess_share",
    "dose_response",
    "correlation",
    "host_share",
    "controls",
}


def store_case(folder: Path, case: Case) -> Store:
    """A simulated case as rows; every burst comes from the same eight senders."""
    store = Store.create(folder)
    port, probes = case.scene.crossings[0].port, case.scene.probes
    bytes_ = np.diff(port.carried)
    used = np.flatnonzero(bytes_)
    write(
        store,
        "runs",
        {
            **LANE,
            "link_bps": int(port.link_bps),
            "bin_ns": port.bin_ns,
            "start_ns": ORIGIN,
            "end_ns": ORIGIN + port.bins * port.bin_ns,
        },
    )
    n = len(used)
    rows = {
        **{key: [value] * n for key, value in LANE.items()},
        "ts_ns": ORIGIN + used * port.bin_ns,
        "wire_bytes": bytes_[used],
        "bytes": bytes_[used] - bytes_[used] // 70,
    }
    numbers = ("packets", "ce_packets", "retransmits", "epoch", "quality")
    with store.writer("bins", "h", "a") as writer:
        writer.append(
            pa.table({**rows, **{name: np.full(n, DEFAULTS[name]) for name in numbers}})
            .select(schema("bins").names)
            .cast(schema("bins"))
        )
    write(store, "sources", *burst_sources(case))
    write_probes(store, case)
    assert len(probes)
    return store


def schema(table: str) -> pa.Schema:
    from mburst.sql.tables import arrow_schema

    return arrow_schema(table)


def burst_sources(case: Case) -> list[dict[str, object]]:
    found = []
    for begin, end in zip(*case.scene.bursts[0], strict=True):
        for ms in range(int(begin // 1e6), int(end // 1e6) + 1):
            first = max(begin, ms * 1e6)
            last = min(end, (ms + 1) * 1e6) - 1
            if last > first:
                found += [
                    {
                        **LANE,
                        "ts_ns": ORIGIN + ms * 10**6,
                        "source": f"10.0.0.{k + 1}",
                        "bytes": 9_000,
                        "packets": 6,
                        "first_ns": ORIGIN + int(first),
                        "last_ns": ORIGIN + int(last),
                    }
                    for k in range(8)
                ]
    return found


def write_probes(store: Store, case: Case) -> None:
    probes = case.scene.probes
    names = {
        "app_send_ns": probes.app_send,
        "tx_ns": probes.tx,
        "remote_rx_ns": probes.remote_rx,
        "remote_tx_ns": probes.remote_tx,
        "rx_ns": probes.rx,
        "app_recv_ns": probes.app_recv,
    }
    n = len(probes)
    table = {
        name: pa.array(np.nan_to_num(values).astype(np.int64) + ORIGIN, mask=np.isnan(values))
        for name, values in names.items()
    }
    table["rtt_ns"] = pa.array(np.nan_to_num(probes.rtt).astype(np.int64), mask=np.isnan(probes.rtt))
    words = {"batch": "b", "src": probes.src, "dst": probes.dst, "protocol": "udp", "stamp_kind": "sw"}
    table |= {
        "seq": pa.array(np.arange(n)),
        "lost": pa.array(probes.lost),
        **{key: pa.array([value] * n) for key, value in words.items()},
    }
    with store.writer("probes") as writer:
        writer.append(pa.table(table))


@pytest.mark.parametrize("kind", ["incast", "hop", "host", "harmless", "too-little"])
def test_a_case_through_the_store(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = build(kind, 4, Setting(seconds=8))
    store_case(tmp_path / "store", case)
    assert main(["investigate", str(tmp_path / "store"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["cause"] == case.truth
    assert set(answer) >= KEYS and set(answer["evidence"]) >= EVIDENCE
    assert set(answer["evidence"]["correlation"]) == {"bin", "second", "queue"}
    assert set(answer["tail"]) >= {"n", "lost", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"}
    assert answer["bursts"]["count"] > 0
    assert answer["fan_in"][0]["fan_in"] == 8 and len(answer["fan_in"][0]["senders"]) == 8
    if case.truth == "undetermined":
        assert answer["missing"]


def test_every_form_of_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_case(tmp_path / "store", build("incast", 4, Setting(seconds=8)))
    page = tmp_path / "out" / "page.html"
    assert main(["investigate", str(tmp_path / "store"), "-o", str(page), "--markdown"]) == 0
    ticket = capsys.readouterr().out
    assert ticket.startswith("## Bursts cause the tail") and "### What would help?" in ticket
    text = page.read_text(encoding="utf-8")
    assert "Bursts cause the tail" in text and not re.search(r'(src|href)="https?:', text)
    assert main(["investigate", str(tmp_path / "store"), "-o", str(page)]) == 0
    assert "WHOSE BURSTS?" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == text


def test_what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_case(tmp_path / "store", build("incast", 4, Setting(seconds=8)))
    assert main(["what-if", str(tmp_path / "store"), "--link", "10G", "--priority", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [change["change"] for change in answer["changes"]][-1] == "all of these" and len(answer["changes"]) == 3
    recorded, modelled = answer["recorded"]["p99_ns"], answer["modelled"]["p99_ns"]
    assert abs(modelled - recorded) < 0.25 * recorded
    assert answer["changes"][1]["p99_ns"] < 1e6 < recorded
    assert main(["what-if", str(tmp_path / "store"), "--stagger", "50ms", "--fan-in", "2", "--buffer", "100kB"]) == 0
    assert capsys.readouterr().out.startswith("The model repeats the recorded situation with")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["investigate", "nowhere"], 1, "no mburst store"),
        (["investigate", "{store}", "--tail", "1"], 2, "no duration"),
        (["investigate", "{store}", "--tail-factor", "0.5"], 2, "below the median"),
        (["investigate", "{store}", "--probes", "x.csv"], 2, "go with a capture"),
        (["investigate", "{store}", "-o", "{store}"], 2, "is a folder"),
        (["what-if", "{store}", "--buffer", "big"], 2, "no size"),
        (["what-if", "{store}", "--fan-in", "0"], 2, "somebody must send"),
        (["what-if", "{store}"], 1, "nothing to replay"),
    ],
)
def test_mistakes_end_in_one_line(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_case(tmp_path / "store", build("harmless", 1, Setting(seconds=4)))
    assert main([argument.format(store=tmp_path / "store") for argument in arguments]) == code
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_an_empty_store_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.create(tmp_path / "empty")
    assert main(["investigate", str(tmp_path / "empty")]) == 1
    assert "neither recordings nor probes" in capsys.readouterr().err


def test_probes_without_a_recording_and_the_other_way_round(tmp_path: Path) -> None:
    case = build("incast", 2, Setting(seconds=6))
    alone = Store.create(tmp_path / "probes")
    write_probes(alone, case)
    answer = investigate(alone.connect(), Question(BurstDefinition()))
    assert answer.cause == "undetermined" and any("record" in item for item in answer.missing)
    with_host = Store.create(tmp_path / "host")
    write_probes(with_host, build("host", 2, Setting(seconds=12)))
    assert investigate(with_host.connect(), Question(BurstDefinition())).cause == "host"


def test_names_of_hosts() -> None:
    assert same_name("Cache-1", "cache-1.example.net") and same_name("10.0.0.1", "10.0.0.1")
    assert not same_name("cache", "cache-nic2") and not same_name("10.0.0.1", "10.0.0")


def test_the_recorded_end_is_found_by_name_address_or_by_what_is_said(tmp_path: Path) -> None:
    case = build("incast", 6, Setting(seconds=8))
    for number, (src, dst, options, assumed) in enumerate(
        [
            ("p", "h.example.net", {}, False),
            ("p", "10.9.9.9", {}, False),
            ("p", "vip", {"known_as": ("vip",)}, False),
            ("p", "vip", {}, True),
        ]
    ):
        named = replace(case, scene=replace(case.scene, probes=replace(case.scene.probes, src=src, dst=dst)))
        store = store_case(tmp_path / str(number), named)
        write(store, "runs", {**LANE, "run": "o", "direction": "out", "bin_ns": 100_000, "end_ns": ORIGIN})
        write(store, "sources", {**LANE, "run": "o", "direction": "out", "source": "10.9.9.9", "ts_ns": ORIGIN,
                                 "bytes": 500, "first_ns": ORIGIN, "last_ns": ORIGIN})  # fmt: skip
        answer = investigate(store.connect(), Question(BurstDefinition(), **options))
        assert answer.cause == "bursts"
        assert any("names a recorded host" in note for note in answer.notes) is assumed


def test_a_second_path_to_a_host_that_was_not_recorded_is_a_control(tmp_path: Path) -> None:
    case = build("incast", 6, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    other = build("harmless", 6, Setting(seconds=8))
    write_probes(store, replace(other, scene=replace(other.scene, probes=replace(other.scene.probes, dst="other"))))
    answer = investigate(store.connect(), Question(BurstDefinition()))
    assert answer.cause == "bursts" and len(answer.findings) == 1
    control = next(c for c in answer.findings[0].evidence.controls if "other" in c.name)
    assert control.spikes == 0 and control.risk.n > 100


@pytest.fixture(scope="module")
def recorded(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded case as a store: capture, probes and queue windows."""
    store, folder = tmp_path_factory.mktemp("recorded") / "store", captures / "cache-server"
    assert main(["record", str(folder / "cache.pcap"), "-o", str(store), "--link", "1G"]) == 0
    assert main(["import", "probes", str(folder / "probes.csv"), "-o", str(store)]) == 0
    assert main(["import", "queues", str(folder / "queues-1ms.csv"), "-o", str(store)]) == 0
    return store


def test_the_recorded_case(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["investigate", str(recorded), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    evidence = answer["evidence"]
    assert answer["cause"] == "bursts" and answer["bursts"]["count"] == 78
    assert evidence["correlation"]["bin"] > 0.8 and evidence["correlation"]["queue"] > 0.99
    assert abs(evidence["correlation"]["second"]) < 0.1
    assert evidence["excess_share"] > 0.9 and evidence["host_share"] < 0.05
    assert evidence["relative_risk"]["low"] > 100 and evidence["p_value"] < 0.001 and evidence["lag_ns"] == 0
    assert evidence["dose_response"]["slope"] == pytest.approx(1, abs=0.05) and evidence["dose_response"]["r"] > 0.99
    assert answer["fan_in"][0]["fan_in"] == 40 and len(answer["fan_in"][0]["senders"]) == 40
    assert answer["what_if"]["model"]["relative_error"] < 0.05
    priority = next(c for c in answer["what_if"]["changes"] if "priority" in c["change"])
    assert priority["p99_ns"] < 500_000  # the second NIC measured 121 µs


@pytest.mark.parametrize("name", ["probes-quiet.csv", "probes-second-nic.csv"])
def test_no_tail_is_none_whatever_the_bursts(name: str, captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = captures / "cache-server"
    arguments = ["investigate", str(folder / "cache.pcap"), "--link", "1G", "--probes", str(folder / name), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "none"

"""The investigation through the store and the command line: labelled cases that are written as rows, and the recorded
case."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from captures import CASES, RECORDED, SAMPLE, CacheServer
from latency_cases import Case, FluidPort, Setting, build, plain_incast, scene_of, send
from latency_store import LANE, ORIGIN, add_case, burst_sources, store_case, write_probes
from storelib import write

from mburst.__main__ import main
from mburst.analysis.answers.investigate import investigate, same_name
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.cause.read import Question
from mburst.dashboards.common.words import period
from mburst.dashboards.investigation.facts import facts
from mburst.dashboards.investigation.figures import aligned
from mburst.dashboards.investigation.page import plain
from mburst.sql import StoreFolder
from mburst.units import format_time

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


def test_every_form_states_the_examined_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It states the times of the first and last row and of the slowest probe, as the store's SQL has them."""
    folder, page = store_case(tmp_path / "store", build("incast", 4, Setting(seconds=8))).path, tmp_path / "page.html"
    assert main(["investigate", str(folder), "-o", str(page), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    with StoreFolder.open(folder).connect() as con:
        runs = con.execute("SELECT min(ts_ns), max(ts_ns) + max(bin_ns) FROM bins, recordings").fetchone()
        probed = con.execute("SELECT min(tx_ns), max(tx_ns), arg_max(tx_ns, latency_ns) FROM latency").fetchone()
    assert runs and probed
    assert answer["start_ns"] == min(runs[0], probed[0]) and answer["end_ns"] == max(runs[1], probed[1])
    examined = f"Examined: {period(answer['start_ns'], answer['end_ns'])}."
    slowest = f"The slowest probe was sent at {format_time(probed[2])} UTC."
    for form in ([], ["--markdown"]):
        assert main(["investigate", str(folder), *form]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines.count(examined) == lines.count(slowest) == 1
    text = page.read_text(encoding="utf-8")
    assert examined[10:-1] in text and slowest in text


def test_every_form_has_the_same_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_case(tmp_path / "store", build("incast", 4, Setting(seconds=8)))
    page = tmp_path / "out" / "page.html"
    assert main(["investigate", str(tmp_path / "store"), "-o", str(page), "--markdown"]) == 0
    ticket = capsys.readouterr().out
    assert ticket.startswith("## Bursts cause the tail") and "### What would help?" in ticket
    text = page.read_text(encoding="utf-8")
    assert "Bursts cause the tail" in text and not re.search(r'(src|href)="https?:', text)
    assert main(["investigate", str(tmp_path / "store"), "-o", str(page)]) == 0
    assert "WHICH SENDERS?" in capsys.readouterr().out
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
    of_what, model, *_ = capsys.readouterr().out.splitlines()
    with StoreFolder.open(tmp_path / "store").connect() as con:
        [(src, dst)] = con.execute("SELECT DISTINCT src, dst FROM probes").fetchall()
    assert (answer["path"]["src"], answer["path"]["dst"]) == (src, dst) and answer["port"].startswith(dst)
    assert of_what.startswith(f"Path: {src} → {dst} (udp), into {dst} (")
    assert of_what.endswith(f" Examined: {period(answer['start_ns'], answer['end_ns'])}.")
    assert model.startswith("The model repeats the recorded situation with")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["investigate", "nowhere"], 1, "not an mburst store"),
        (["investigate", "{store}", "--tail", "1"], 2, "invalid duration"),
        (["investigate", "{store}", "--tail-factor", "0.5"], 2, "below the median"),
        (["investigate", "{store}", "--probes", "x.csv"], 2, "go with a capture"),
        (["investigate", "{store}", "-o", "{store}"], 2, "is a folder"),
        (["what-if", "{store}", "--buffer", "big"], 2, "invalid size"),
        (["what-if", "{store}", "--fan-in", "0"], 2, "--fan-in must be at least 1"),
        (["what-if", "{store}"], 1, "nothing to replay"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_case(tmp_path / "store", build("harmless", 1, Setting(seconds=4)))
    assert main([argument.format(store=tmp_path / "store") for argument in arguments]) == code
    payload = capsys.readouterr().err
    assert message in payload and payload.count("\n") == 1


def test_the_error_of_an_empty_store_states_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    StoreFolder.create(tmp_path / "empty")
    assert main(["investigate", str(tmp_path / "empty")]) == 1
    assert "no recording and no probe to investigate (" in capsys.readouterr().err
    assert main(["investigate", str(tmp_path / "empty"), "--since", "2026-01-01"]) == 1
    assert "no recording and no probe to investigate in this time (" in capsys.readouterr().err


def test_a_recording_of_unknown_speed_requires_the_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = StoreFolder.create(tmp_path / "s")
    write(store, "recordings", {**LANE, "link_bps": None})
    write(store, "bins", {**LANE, "ts_ns": ORIGIN, "wire_bytes": 100})
    assert main(["investigate", str(tmp_path / "s")]) == 1
    assert "--link" in capsys.readouterr().err


def test_another_interface_of_unknown_speed_is_left_out(tmp_path: Path) -> None:
    store = store_case(tmp_path / "s", build("incast", 4, Setting(seconds=8)))
    other = {**LANE, "recording_id": "o", "interface": "eth1"}
    write(store, "recordings", {**other, "link_bps": None})
    write(store, "bins", {**other, "ts_ns": ORIGIN, "wire_bytes": 100})
    answer = investigate(store.connect(), Question(BurstDefinition()))
    assert answer.cause == "bursts" and any("the speed of h eth1 in" in item for item in answer.missing)


def divided(folder: Path, case: Case, stretches: list[tuple[float, float]]) -> StoreFolder:
    """Stores a case as several recordings, each with the bins that begin in one of these stretches of the time. If one
    recording ends and the next begins within a bin, each has half of its bytes."""
    with store_case(folder / "whole", case).connect() as con:
        found = con.sql("SELECT ts_ns - $origin AS at, wire_bytes FROM bins ORDER BY 1", params={"origin": ORIGIN})
        at, wire = (np.asarray(column) for column in found.fetchnumpy().values())
    port = case.scene.crossings[0].port
    store = StoreFolder.create(folder / "divided")
    for number, (begin, end) in enumerate(stretches):
        first, last = (int(share * port.bins) * port.bin_ns for share in (begin, end))
        lane = {**LANE, "recording_id": f"r{number}"}
        half = port.bin_ns // 2
        ends = {"start_ns": ORIGIN + first + half * (number > 0), "end_ns": ORIGIN + last + half - 1}
        write(store, "recordings", {**lane, **ends, "link_bps": int(port.link_bps), "bin_ns": port.bin_ns})
        edges = {last, *([first] if number else [])}
        mine = (at >= first) & (at <= last)
        pairs = zip(at[mine].tolist(), wire[mine].tolist(), strict=True)
        rows = [{"ts_ns": ORIGIN + ns, "wire_bytes": n // 2 if ns in edges else n} for ns, n in pairs]
        write(store, "bins", *({**lane, **row, "bytes": row["wire_bytes"]} for row in rows))
        write(store, "sources", *({**row, **lane} for row in burst_sources(case)
                                  if first <= int(row["ts_ns"]) - ORIGIN <= last))  # fmt: skip
    write_probes(store, case)
    return store


def test_consecutive_files_are_one_recording(tmp_path: Path) -> None:
    """Each file begins in the bin in which the one before ends."""
    case = build("incast", 4, Setting(seconds=8))
    cuts = [0.0, 0.21, 0.4, 0.61, 0.8, 0.999]
    store = divided(tmp_path, case, list(pairwise(cuts)))
    answer = investigate(store.connect(), Question(BurstDefinition()))
    assert answer.cause == "bursts" and not any("overlaps" in note for note in answer.notes)
    whole, port = case.scene.crossings[0].port, answer.ports[0]
    assert port.carried[-1] == pytest.approx(whole.carried[int(0.999 * whole.bins) + 1], abs=1e4)


def test_each_moment_of_overlapping_recordings_counts_once(tmp_path: Path) -> None:
    case = build("incast", 4, Setting(seconds=8))
    store = divided(tmp_path, case, [(0.0, 0.3), (0.27, 0.999), (0.5, 0.6)])
    bins, bin_ns = case.scene.crossings[0].port.bins, case.scene.crossings[0].port.bin_ns
    for share in (0.28, 0.5):  # in the excluded part of the second recording, and in the included part
        lane = {**LANE, "recording_id": "r1", "ts_ns": ORIGIN + int(share * bins) * bin_ns}
        write(store, "bins", {**lane, "wire_bytes": 0, "bytes": 0, "packets": 0, "retransmits": 1})
    answer = investigate(store.connect(), Question(BurstDefinition()))
    assert answer.cause == "bursts"
    assert [note.partition(": recording ")[2] for note in answer.notes if "overlaps" in note] == [
        "r1 overlaps another for 240 ms; what it has of that time is left out",
        "r2 overlaps another or has other bins; it is left out",
    ]
    whole, port = case.scene.crossings[0].port, answer.ports[0]
    assert port.carried[-1] == pytest.approx(whole.carried[int(0.999 * whole.bins) + 1], abs=1e4)
    assert port.repeated is not None and [round(place / bins, 2) for place in port.repeated] == [0.5]
    starts = [burst["start_ns"] for burst in answer.bursts]
    assert all(after - before > 10**6 for before, after in pairwise(sorted(starts)))


def test_a_recorded_host_that_probes_from_several_ports_is_the_same_host(tmp_path: Path) -> None:
    case = build("incast", 6, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    with store.connect() as con:
        probes = con.sql("FROM probes ORDER BY seq").to_arrow_table().to_pylist()
    turned = StoreFolder.create(tmp_path / "turned")
    add_case(turned, replace(case, scene=replace(case.scene, probes=replace(case.scene.probes, src="x", dst="y"))))
    ports = StoreFolder.open(tmp_path / "turned")
    write(
        ports,
        "probes",
        *({**row, "batch": "ports", "src": f"h:{40_000 + row['seq'] % 4}", "dst": "p"} for row in probes),
    )
    answer = investigate(ports.connect(), Question(BurstDefinition()))
    assert not any("names a recorded host" in note for note in answer.notes)
    assert {finding.scene.probes.src for finding in answer.findings} == {f"h:{40_000 + k}" for k in range(4)}


def test_a_prediction_without_the_speed_of_the_recorded_link_names_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--link is the predicted speed, and `--recorded-link` is the speed of the recording, which a capture does not
    state."""
    sample = [str(SAMPLE.file("cache.pcap")), "--link", "10G"]
    assert main(["what-if", *sample]) == 1
    assert "--recorded-link" in capsys.readouterr().err
    assert main(["what-if", *sample, "--probes", str(SAMPLE.file("probes.csv"))]) == 1
    assert capsys.readouterr().err == (
        "mburst: there is nothing to replay: the link speed of unknown cache in, unknown cache out is not known "
        "(give it with --recorded-link)\n"
    )
    with pytest.raises(SystemExit):
        main(["what-if", "--help"])
    assert "a capture file (with --recorded-link)" in " ".join(capsys.readouterr().out.split())


def test_probes_without_a_recording_of_the_port(tmp_path: Path) -> None:
    case = build("incast", 2, Setting(seconds=6))
    alone = StoreFolder.create(tmp_path / "probes")
    write_probes(alone, case)
    answer = investigate(alone.connect(), Question(BurstDefinition()))
    assert answer.cause == "undetermined" and any("record" in item for item in answer.missing)
    with_host = StoreFolder.create(tmp_path / "host")
    write_probes(with_host, build("host", 2, Setting(seconds=12)))
    assert investigate(with_host.connect(), Question(BurstDefinition())).cause == "host"


def test_equal_names_of_hosts() -> None:
    assert same_name("Cache-1", "cache-1.example.net") and same_name("10.0.0.1", "10.0.0.1")
    assert not same_name("cache", "cache-nic2") and not same_name("10.0.0.1", "10.0.0")


def test_the_recorded_end_is_found_by_name_address_or_alias(tmp_path: Path) -> None:
    case = build("incast", 6, Setting(seconds=8))
    for number, (src, dst, options, assumed) in enumerate(
        [
            ("p", "h.example.net", {}, False),
            ("p", "10.9.9.9", {}, False),
            ("p", "vip", {"aliases": ("vip",)}, False),
            ("p", "vip", {}, True),
        ]
    ):
        named = replace(case, scene=replace(case.scene, probes=replace(case.scene.probes, src=src, dst=dst)))
        store = store_case(tmp_path / str(number), named)
        write(
            store, "recordings", {**LANE, "recording_id": "o", "direction": "out", "bin_ns": 100_000, "end_ns": ORIGIN}
        )
        write(store, "sources", {**LANE, "recording_id": "o", "direction": "out", "source": "10.9.9.9", "ts_ns": ORIGIN,
                                 "bytes": 500, "first_ns": ORIGIN, "last_ns": ORIGIN})  # fmt: skip
        answer = investigate(store.connect(), Question(BurstDefinition(), **options))
        assert answer.cause == ("undetermined" if assumed else "bursts")
        assert any("names a recorded host" in note for note in answer.notes) is assumed
        assert any("--alias" in item for item in answer.findings[0].verdict.missing) is assumed


@pytest.mark.parametrize(
    ("sent", "recording", "cause"),
    [
        (0.0, {}, "undetermined"),  # the port of a neighbour, or the other member of a bond: full at the same times
        (0.1, {}, "undetermined"),  # the prober does talk to this host, but these are not its probes
        (1.0, {}, "bursts"),
        (0.0, {"filter": "udp port 53"}, "bursts"),  # the capture cannot show that
    ],
)
def test_a_port_that_the_probes_never_crossed_is_not_the_cause(
    sent: float, recording: dict[str, str], cause: str, tmp_path: Path
) -> None:
    case = build("incast", 6, Setting(seconds=8))
    probes = replace(case.scene.probes, src="10.7.7.7")
    store = store_case(tmp_path / "s", replace(case, scene=replace(case.scene, probes=probes)), **recording)
    packets = int(sent * len(probes)) // 8
    write(store, "sources", *({**LANE, "source": "10.7.7.7", "ts_ns": ORIGIN + second * 10**9, "bytes": 100,
                               "packets": packets, "first_ns": ORIGIN, "last_ns": ORIGIN}
                              for second in range(8) if packets))  # fmt: skip
    answer = investigate(store.connect(), Question(BurstDefinition()))
    assert answer.cause == cause
    assert any("does not cross" in note for note in answer.notes) is (cause == "undetermined")
    assert any("that the probes cross" in item for item in answer.missing) is (cause == "undetermined")


def test_a_second_path_to_a_host_that_was_not_recorded_is_a_control(tmp_path: Path) -> None:
    case = build("incast", 6, Setting(seconds=8))
    store = store_case(tmp_path / "s", case)
    other = build("harmless", 6, Setting(seconds=8))
    write_probes(store, replace(other, scene=replace(other.scene, probes=replace(other.scene.probes, dst="other"))))
    answer = investigate(store.connect(), Question(BurstDefinition()))
    assert answer.cause == "bursts" and len(answer.findings) == 1
    control = next(c for c in answer.findings[0].evidence.controls if "other" in c.name)
    assert control.spikes == 0 and control.risk.n > 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_case_of_the_cache_server(case: CacheServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "store")
    assert main(["record", str(case.file("cache.pcap")), "-o", store, "--link", "1G"]) == 0
    assert main(["import", "probes", str(case.file("probes.csv")), "-o", store]) == 0
    assert main(["import", "queues", str(case.file("queues-1ms.csv")), "-o", store]) == 0
    capsys.readouterr()
    assert main(["investigate", store, *case.definition, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    evidence = answer["evidence"]
    assert answer["cause"] == "bursts" and answer["bursts"]["count"] == case.rounds
    assert evidence["correlation"]["bin"] > 0.8 and evidence["correlation"]["queue"] > 0.99
    assert abs(evidence["correlation"]["second"]) < 0.1
    assert evidence["excess_share"] > 0.9 and evidence["host_share"] < 0.05
    assert (
        evidence["relative_risk"]["low"] > 100 and evidence["p_value"] < 0.05 / case.rounds and evidence["lag_ns"] == 0
    )
    assert evidence["dose_response"]["slope"] == pytest.approx(1, abs=0.05) and evidence["dose_response"]["r"] > 0.99
    assert answer["fan_in"][0]["fan_in"] == 40 and len(answer["fan_in"][0]["senders"]) == 40
    assert answer["what_if"]["model"]["relative_error"] < 0.05
    priority = next(c for c in answer["what_if"]["changes"] if "priority" in c["change"])
    assert priority["p99_ns"] < 500_000  # the second NIC measured 121 µs


def test_bursts_that_explain_the_tail_are_laid_over_each_other(tmp_path: Path) -> None:
    """By the default definition most bursts of the sample are single frames; 20 bursts of 32 ms each delay probes."""
    store = tmp_path / "store"
    assert main(["record", str(SAMPLE.file("cache.pcap")), "-o", str(store), "--link", "1G", "--host", "cache"]) == 0
    assert main(["import", "probes", str(SAMPLE.file("probes.csv")), "-o", str(store)]) == 0
    answer = investigate(StoreFolder.open(store).connect(), Question(BurstDefinition()))
    figure = aligned(answer, answer.findings[0])
    assert figure and answer.cause == "bursts"
    said = f"The bursts that late probes met, {SAMPLE.rounds} of {len(answer.bursts)}, laid over each other by onset, "
    assert figure.title.startswith(said)
    traces = {trace["name"]: trace for trace in figure.drawing["data"]}
    x = np.array(traces["utilization, % (median)"]["x"], dtype=float)
    assert np.min(np.array(traces["utilization, % (median)"]["y"], dtype=float)[(x > 1) & (x < 30)]) > 90
    begun = np.array(traces["senders that have begun (mean)"]["y"], dtype=float)
    assert np.max(begun[x < -2]) < 1 and begun[-1] == pytest.approx(40, abs=2)


def test_bursts_that_explain_no_tail_are_all_drawn(tmp_path: Path) -> None:
    store = store_case(tmp_path / "store", build("host", 4, Setting(seconds=8)))
    answer = investigate(store.connect(), Question(BurstDefinition()))
    figure = aligned(answer, answer.findings[0])
    assert figure and answer.cause == "host"
    assert figure.title.startswith(f"{len(answer.bursts)} bursts laid over each other by onset, ")


@pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, id=f"{case.name}-{name}")
        for case, name in [
            (SAMPLE, "probes-second-nic.csv"),
            (RECORDED, "probes-quiet.csv"),
            (RECORDED, "probes-second-nic.csv"),
        ]
        if case in CASES
    ],
)
def test_the_cause_is_none_without_a_tail(case: CacheServer, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(case.file("cache.pcap")), "--link", "1G", "--probes", str(case.file(name))]
    assert main(["investigate", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cause"] == "none"


def add_senders(store: StoreFolder, model: FluidPort, setting: Setting, hosts: int) -> None:
    """Stores the arrivals at the port as sent evenly by `hosts` recorded hosts."""
    came = model.departures + np.diff(model.backlog, prepend=0.0)
    ratio = round(setting.bin_ns / model.step)
    sent = (came[: len(came) // ratio * ratio].reshape(-1, ratio).sum(axis=1) / hosts).astype(np.int64)
    used = np.flatnonzero(sent)
    for k in range(hosts):
        lane = {**LANE, "recording_id": f"s{k}", "host": f"db-{k}", "direction": "out", "rack": "far"}
        write(store, "recordings", {**lane, "link_bps": 10**11, "bin_ns": setting.bin_ns})
        write(store, "bins", *({**lane, "ts_ns": ORIGIN + int(at) * setting.bin_ns, "wire_bytes": int(sent[at])}
                               for at in used))  # fmt: skip
        write(store, "sources", {**lane, "source": f"10.0.0.{k + 1}", "ts_ns": ORIGIN, "bytes": 10**6,
                                 "first_ns": ORIGIN, "last_ns": ORIGIN + 1})  # fmt: skip


def test_recorded_senders_show_the_queue_and_their_racks(tmp_path: Path) -> None:
    setting = Setting(seconds=4, load=0.02)
    rng, model = plain_incast("incast", 3, setting)
    case = Case("incast", scene_of(model, send(rng, setting, model, {}), setting), "bursts", 3, setting)
    store = store_case(tmp_path / "s", case)
    add_senders(store, model, setting, 4)
    payload = facts(investigate(store.connect(), Question(BurstDefinition())))
    assert payload["cause"] == "bursts"
    assert payload["queues"]["from_senders"]["senders"] == 4
    assert payload["queues"]["from_senders"]["max_bytes"] == pytest.approx(model.backlog.max(), rel=0.1)
    dose = payload["evidence"]["dose_response"]
    assert "senders" in dose["dose"] and dose["r"] > 0.95 and dose["slope"] == pytest.approx(1, abs=0.15)
    assert payload["what_if"]["model"]["arrivals"] == "senders" and payload["what_if"]["model"]["relative_error"] < 0.2
    assert payload["fan_in"][0]["racks"] == ["far"]
    assert all("outgoing direction" not in item or "sets" in item for item in payload["not_assessed"])


def test_many_hosts_are_tested_together(tmp_path: Path) -> None:
    """False discoveries are controlled over all paths of several recorded hosts, of which one has a tail."""
    store = StoreFolder.create(tmp_path / "s")
    for k in range(4):
        kind = "incast" if k == 2 else "harmless"
        case = build(kind, 20 + k, Setting(seconds=5, rate=400))
        port, probes = case.scene.crossings[0].port, case.scene.probes
        lane = {**LANE, "recording_id": f"r{k}", "host": f"h{k}"}
        bytes_ = np.diff(port.carried)
        write(store, "recordings", {**lane, "bin_ns": port.bin_ns, "link_bps": int(port.link_bps)})
        write(store, "bins", *({**lane, "ts_ns": ORIGIN + int(at) * port.bin_ns, "wire_bytes": int(bytes_[at])}
                               for at in np.flatnonzero(bytes_)))  # fmt: skip
        write_probes(store, replace(case, scene=replace(case.scene, probes=replace(probes, dst=f"h{k}"))))
    answer = investigate(store.connect(), Question(BurstDefinition()))
    payload = facts(answer)
    assert payload["cause"] == "bursts" and payload["causes"] == {"bursts": 1, "none": 3}
    assert payload["paths"][0]["dst"] == "h2" and len(payload["paths"]) == 4
    assert payload["evidence"]["q_value"] >= payload["evidence"]["p_value"]
    assert payload["contention"]["hosts"] == 4 and 0 <= payload["contention"]["by_chance"] <= 1
    assert "4 paths tested, false discoveries controlled over all: none 3, bursts 1" in plain(answer)


def test_a_port_without_probes_still_has_its_bursts_and_senders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = build("incast", 6, Setting(seconds=4))
    store = store_case(tmp_path / "s", replace(case, scene=replace(case.scene, probes=case.scene.probes)))
    write(store, "queues", {"port": "eth0", "window_start_ns": ORIGIN, "ts_ns": ORIGIN + 10**6, "max_bytes": 2_500_000,
                            "dropped_packets": 3})  # fmt: skip
    question = Question(BurstDefinition(), since_ns=ORIGIN, until_ns=ORIGIN + 4 * 10**9)
    assert "2.5 MB in one of 1 window of 1 ms" in plain(investigate(store.connect(), question))
    (tmp_path / "s" / "probes").rename(tmp_path / "elsewhere")
    assert main(["investigate", str(tmp_path / "s")]) == 0
    message = capsys.readouterr().out
    assert message.startswith("The cause cannot be determined. What is missing: probes of this time")
    assert "3 packets dropped" in message and "8 at" not in message and "What sets" not in message
    assert "what sets the bursts off: record the host's outgoing direction too" in message


def test_a_second_path_with_another_cause_is_in_the_summary_and_losses_in_the_reasons(tmp_path: Path) -> None:
    setting = Setting(seconds=8)
    store = store_case(tmp_path / "s", build("incast", 6, setting), dropped=7)
    other = build("host", 6, setting)
    write_probes(store, replace(other, scene=replace(other.scene, probes=replace(other.scene.probes, src="q"))))
    payload = facts(investigate(store.connect(), Question(BurstDefinition())))
    assert payload["causes"] == {"bursts": 1, "host": 1}
    assert "This is not all: a path has a tail that this does not explain: " in payload["summary"]
    bursts = next(path for path in payload["paths"] if path["cause"] == "bursts")
    assert any("lost 7 packets" in reason for reason in bursts["reasons"])
    assert "at h eth0 in or at a port of its speed before it" in bursts["evidence"]["place"]
    assert bursts["tail"]["rule"] == {"factor": 5.0, "excess_ns": 1_000_000}
    assert bursts["evidence"]["capture"]["dropped"] == 7 and bursts["evidence"]["repeated"]["dropped"] == 0


@pytest.mark.parametrize("ended", ["stopped", "killed"])
def test_losses_of_a_killed_recorder_are_a_lower_bound_in_json(tmp_path: Path, ended: str) -> None:
    store = store_case(
        tmp_path / "s", build("incast", 6, Setting(seconds=4)), dropped=7, complete=ended == "stopped", ended=ended
    )
    [path] = facts(investigate(store.connect(), Question(BurstDefinition())))["paths"]
    capture = path["evidence"]["capture"]
    assert (capture["dropped"], capture["dropped_is_least"]) == (7, ended == "killed")

"""The page of the report and its JSON, without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import reportlib
from reportlib import BIN, FULL, HOSTILE, START
from storelib import write

from mburst.__main__ import main
from mburst.analysis.answers.host import Limits
from mburst.analysis.bursts.find import BurstDefinition
from mburst.api.store import open as open_store
from mburst.dashboards.common import words
from mburst.dashboards.common.packing import Pack, narrow
from mburst.dashboards.report import page
from mburst.dashboards.report.words import resolution, statements, summary_rows
from mburst.sql import StoreFolder


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    store = StoreFolder.create(tmp_path_factory.mktemp("page") / "store")
    reportlib.fill(store)
    return store


@pytest.fixture(scope="module")
def reports(full):
    """The report of `full`."""
    return reportlib.gathered(full)


def block(html: str, name: str) -> bytes:
    return gzip.decompress(base64.b64decode(re.search(rf'id="{name}">([^<]+)<', html)[1]))


def heads(reports) -> list[str]:
    return [statement.head for statement in statements(reports[0])]


def test_the_same_data_gives_the_same_bytes(full, tmp_path):
    first, second = (reportlib.written(full, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second
    assert (tmp_path / "a").iterdir() and len(list((tmp_path / "a").iterdir())) == 2


def test_the_page_has_no_external_reference(reports):
    html = page.render(reports, BurstDefinition())
    own = html.replace(re.search(r'id="plotly">[^<]+<', html)[0], "")
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"|url\(|@import|https?://', own)
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1])
    assert "default-src 'none'" in policy and "unsafe-inline" not in re.search(r"script-src[^;]*", policy)[0]
    assert len(html) < 4_000_000


def test_the_page_has_the_data_of_the_store(reports):
    html = page.render(reports, BurstDefinition())
    lane = json.loads(block(html, "facts"))["lanes"][0]
    raw = block(html, "arrays")

    def read(entry):
        return np.frombuffer(raw, f"<{entry['type']}", entry["n"], entry["at"])

    cells = lane["base"]["first"] + np.cumsum(read(lane["base"]["cells"]).astype(np.int64))
    starts = cells * lane["base"]["width"]
    assert (
        dict(zip(((starts - START) // BIN).tolist(), read(lane["base"]["largest"]).tolist(), strict=True))
        == reportlib.wire()
    )


def test_the_json_file_has_every_burst(reports, tmp_path):
    html, facts = page.write(reports, BurstDefinition(), tmp_path)
    payload = json.loads(facts.read_text())["lanes"][0]
    assert html.stem == facts.stem == "mburst-r1-cache-1-20261121T023400Z-20261121T023420Z"
    assert [burst["duration_ns"] for burst in payload["bursts"]] == [300 * BIN, 2 * BIN]
    assert payload["busiest_bin"]["wire_bytes"] == FULL
    assert payload["probes"][0]["lost"] == 1 and payload["queues"][0]["max_bytes"] == 3_000_000


def test_names_from_the_wire_are_text(store):
    reportlib.fill(store, hostile=True)
    reports = reportlib.gathered(store)
    html = page.render(reports, BurstDefinition())
    assert "<img" not in html and HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in html
    assert html.count("<script") == html.count("</script>") == 4
    assert re.fullmatch(r"[A-Za-z0-9._-]+", page.stem(reports))


def test_the_worst_bursts_are_shown_and_the_rest_counted(store):
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**10, "bin_ns": 10**6})
    write(
        store,
        "bins",
        *({"ts_ns": START + i * 10**7, "wire_bytes": 70_000 + i, "bytes": 69_000 + i} for i in range(600)),
    )
    reports = reportlib.gathered(store)
    html = page.render(reports, BurstDefinition())
    assert "The 500 largest of 600 bursts" in html
    assert html.count("<tr data-burst=") == 500
    assert [number for number, _ in page.numbered(reports[0], 3)] == [600, 599, 598]
    assert len(page.facts_json(reports, BurstDefinition())["lanes"][0]["bursts"]) == 600


def test_many_lanes_have_an_overview_and_the_busiest_a_section(store):
    for i in range(30):
        write(
            store,
            "recordings",
            {"recording_id": f"r{i}", "host": f"h{i:02}", "start_ns": START, "end_ns": START + 10**9},
        )
        write(
            store,
            "bins",
            {
                "recording_id": f"r{i}",
                "host": f"h{i:02}",
                "ts_ns": START + 10**6,
                "wire_bytes": 125_000 if i > 20 else 900,
                "bytes": 876,
            },
        )
    reports = reportlib.gathered(store)
    html = page.render(reports, BurstDefinition())
    assert html.count('<section class="lane"') == page.LANES
    assert "h20 eth0 inbound" in html and "6 quieter ones have no section" in html
    assert page.title_of(reports) == "rack r1, 30 hosts"
    write(store, "recordings", *({"recording_id": f"p{i}", "host": "tor1", "interface": f"E{i}", "backend": "otlp",
                                  "start_ns": START, "end_ns": START + 10**9} for i in range(2)))  # fmt: skip
    assert page.title_of(reportlib.gathered(store)) == "rack r1, 30 hosts and 1 switch"
    write(store, "recordings", {"recording_id": "own", "host": "tor1", "start_ns": START, "end_ns": START + 10**9})
    assert page.title_of(reportlib.gathered(store)) == "rack r1, 31 hosts", "the switch's own recording"
    assert {report.lane.host for report in page.drawn_lanes(reports)} >= {f"h{i}" for i in range(21, 30)}


def test_lanes_of_one_name_each_have_a_figure_and_hosts_are_counted_by_rack(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    for rack, bin_ns in (("r1", 10**6), ("r2", 10**6), ("r2", 10**7)):
        name = {"recording_id": f"{rack}-{bin_ns}", "rack": rack, "bin_ns": bin_ns}
        write(store, "recordings", {**name, "start_ns": START, "end_ns": START + 10**9, "source_bin_ns": bin_ns})
        write(store, "bins", {**name, "ts_ns": START, "wire_bytes": 900})
    found = open_store(store.path).report()
    assert len(found.figures) == len(found.lanes) == 3 and found.has_data
    assert page.title_of(found.lanes) == "2 hosts"
    assert any(name.endswith(" (rack r2, bins of 10 ms, 1 Gb/s)") for name in found.figures)


def test_a_report_of_a_time_without_a_recording_states_it(tmp_path, capsys):
    store = StoreFolder.create(tmp_path / "store")
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**9})
    write(store, "bins", {"ts_ns": START, "wire_bytes": 900})
    words = ["report", str(store.path), "-o", str(tmp_path / "out")]
    assert main(words) == 0 and "note:" not in capsys.readouterr().out
    assert main([*words, "--since", "2001-01-01", "--until", "2001-01-02"]) == 0
    assert capsys.readouterr().out.endswith("note: nothing was recorded in that time; the report states this\n")


RUNS = [  # values of a row of `recordings`, and the statement about them
    ({"dropped": 5, "backend": "afpacket"}, "5 packets were dropped before they were seen"),
    ({"dropped": 1, "backend": "afpacket"}, "1 packet was dropped before they were seen"),
    ({"backend": "afpacket"}, "No packet was dropped"),
    ({}, "The capture file names no dropped packet"),
    ({"late": 3, "late_bytes": 300}, "3 packets in no bin: outside the reorder window, or the years 1970 to 2100"),
    ({"complete": False}, "The recording is not complete"),
    ({"complete": False, "ended": "killed"}, "The recording is not complete"),
    ({"unparsed": 7}, "7 packets counted by length alone"),
    ({"unattributed_packets": 2, "unattributed_bytes": 90}, "2 packets without a sender"),
    ({"clock_epochs": 3}, "The clock stepped 2 times"),
    ({"link_bps": None}, "The link's speed is not known"),
    ({"link_bps": 10**7}, "The bins are shorter than a frame"),
    ({"link_bps": 10**6}, "A whole second reads"),
    ({"filter": "udp"}, "Only part of the traffic was recorded"),
    ({"notes": "a\nb"}, "The recorder noted"),
    ({"offloads": "GRO is on."}, "Merged frames"),
]
QUALITIES = [  # the quality of the only bin, and the statement about it
    (2, "Packets were stamped by the kernel on receipt (100 % of bins)"),
    (0, "What stamped the packets is not known"),
    (8, "The file's stamps resolve 1 µs or less finely"),
    (16, "The clock was not synchronized"),
    (32, "Packets were lost while this was recorded"),
    (64, "100 % of bins hold merged frames (GRO or TSO)"),
    (128, "The snap length cut headers"),
]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The heads of the statements about each host's port direction: host `run-0` has the first of RUNS, `quality-2` has
    that quality."""
    store = StoreFolder.create(tmp_path_factory.mktemp("said") / "store")
    for number, (run, _) in enumerate(RUNS):
        name = {"recording_id": f"run-{number}", "host": f"run-{number}"}
        span = {"start_ns": START, "end_ns": START + 10**9, "bin_ns": BIN, "packets": 100, "bytes": 9000}
        write(store, "recordings", {**name, **span, **run})
        write(
            store, "bins", *({**name, "ts_ns": START + i * BIN, "wire_bytes": 1538, "bytes": 1514} for i in range(200))
        )
    for quality, _ in QUALITIES:
        name = {"recording_id": f"quality-{quality}", "host": f"quality-{quality}"}
        write(store, "recordings", {**name, "start_ns": START, "end_ns": START + 10**9, "bin_ns": 10**6})
        write(store, "bins", {**name, "ts_ns": START, "wire_bytes": 100, "bytes": 76, "quality": quality})
    return {one.lane.host: heads([one]) for one in reportlib.gathered(store)}


@pytest.mark.parametrize("number", range(len(RUNS)), ids=[message for _, message in RUNS])
def test_losses_are_stated(said, number):
    assert any(head.startswith(RUNS[number][1]) for head in said[f"run-{number}"])


@pytest.mark.parametrize(("quality", "message"), QUALITIES)
def test_quality_bits_are_stated(said, quality, message):
    assert message in said[f"quality-{quality}"]


def test_means_count_time_that_was_recorded_twice_once(store):
    for run in ("run-1", "run-2"):
        write(store, "recordings", {"recording_id": run, "start_ns": START, "end_ns": START + 9 * BIN, "bin_ns": BIN})
        name = {"recording_id": run, "bytes": FULL}
        write(store, "bins", *({**name, "ts_ns": START + i * BIN, "wire_bytes": FULL} for i in range(10)))
    [report] = reportlib.gathered(store)
    assert summary_rows(report)["mean"][0] == "100 %" and report.wire_bytes == 20 * FULL


def test_a_verdict_names_every_warning():
    warning = words.Statement(words.WARNING, "The clock stepped once", "")
    assert words.verdict([warning]) == "Read the figures with care: the clock stepped once."
    assert words.verdict([words.Statement(words.NOTE, "A", "")]).startswith("There are no warnings")


def test_a_definition_is_one_sentence():
    definition = BurstDefinition(bin_ns=10**6, threshold=0.8, join_ns=5 * 10**6, release=0.4)
    payload = words.definition_words(definition, 10**5)
    assert payload == (
        "Consecutive bins of 1 ms at or above 80 % of line rate, going on at 40 % or more, "
        "joined over gaps of up to 5 ms, lasting at least 1 ms."
    )
    assert "five bins" in words.definition_words(BurstDefinition(), None)
    assert "without joining" in words.definition_words(BurstDefinition(join_ns=0), 10**5)


def test_a_coarser_resolution_is_stated(full):
    (report,) = reportlib.gathered(full, limits=Limits(whole_bins=2000, cells=1000, detail_bins=1000))
    assert report.base.width_ns > BIN
    assert "more than a page can hold" in resolution(report) and "around the largest" in resolution(report)
    assert resolution(reportlib.gathered(full)[0]).startswith("This page holds every recorded bin of 100 µs")


def test_an_empty_recording_has_a_page(store, tmp_path):
    write(store, "recordings", {"start_ns": None, "end_ns": None})
    html = reportlib.written(store, tmp_path / "out").read_text()
    assert "no packet was recorded" in html


UNSTAMPED = dict.fromkeys(("app_send_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns", "rtt_ns"))


@pytest.mark.parametrize(
    ("stamps", "figures", "said", "measure"),
    [
        ({}, [], "No latency is known: no clock stamped both a probe and its answer.", ""),
        ({"remote_rx_ns": 900}, [], "No latency is known", ""),
        ({"remote_rx_ns": 900, "remote_tx_ns": 950}, ["distribution"], "No latency is known", ""),
        (
            {"app_send_ns": 0, "remote_rx_ns": 900, "remote_tx_ns": 950, "rx_ns": 2000, "app_recv_ns": 2050},
            ["distribution", "time"],
            "without the time in the host that answers",
            "network round trip",
        ),
        (
            {"app_send_ns": 0, "rx_ns": 2000, "app_recv_ns": 2050},
            ["distribution", "time"],
            "with the time in the host that answers",
            "round trip",
        ),
        ({"rtt_ns": 2000}, ["distribution", "time"], "as what measured it reported it", "reported round trip"),
        ({"app_recv_ns": 2050}, ["distribution", "time"], "", "round trip to the application"),
    ],
    ids=["none", "there", "that host", "both hosts", "no far host", "reported", "to the application"],
)
def test_a_path_has_the_figures_that_have_something_to_draw(store, tmp_path, stamps, figures, said, measure):
    for at in (START, START + 61 * 10**9, START + 122 * 10**9):
        known = {name: value if name == "rtt_ns" else at + value for name, value in stamps.items()}
        write(store, "probes", {"tx_ns": at, "lost": False, **UNSTAMPED, **known})
    html = reportlib.written(store, tmp_path / "out").read_text()
    assert re.findall(r'data-figure="(distribution|time)"', html) == figures and said in unescape(html)
    [drawn] = json.loads(block(html, "facts"), parse_constant=pytest.fail)["paths"]
    assert [name for name in drawn if name != "minutes"] == figures
    legends = re.findall(r'data-figure="time".*?<ul class="legend">(.*?)</ul>', html, re.DOTALL)
    over_time = [f"slowest in a step, {measure}", "median of a step", "longest time in the hosts", "lost"]
    assert [re.findall(r"</i>([^<]+)", legend) for legend in legends] == [over_time] * figures.count("time")


def test_the_legend_names_a_measure_and_a_kind_only_where_all_share_it(store, tmp_path):
    reportlib.fill(store)
    alike = reportlib.written(store, tmp_path / "alike").read_text()
    assert "slowest probe, round trip<" in alike and "most in a window (max-since-last)" in alike
    write(store, "probes", {"src": "other", "tx_ns": START + 1, "lost": False, **UNSTAMPED, "rtt_ns": 2000})
    window = {"window_start_ns": START, "window_end_ns": START + BIN, "max_bytes": 10}
    write(store, "queues", {"queue": "9", "semantics": "gauge", **window})
    mixed = reportlib.written(store, tmp_path / "mixed").read_text()
    assert "slowest probe, by the measure of its path<" in mixed and "most in a window (kinds differ)" in mixed


def test_numbers_are_packed_in_the_smallest_type_and_aligned():
    assert [narrow(values).dtype.str for values in ([0, 255], [256], [65536], [2**32], [-1], [0.5], [])] == [
        "|u1",
        "<u2",
        "<u4",
        "<f8",
        "<f8",
        "<f8",
        "<f8",
    ]
    pack = Pack()
    pack.add([1, 2, 3])
    entry = pack.add_ascending(np.array([10, 12, 2**40]))
    assert entry["at"] == 8 and entry["base"] == 10
    assert np.frombuffer(pack.joined(), "<f8", 3, 8).tolist() == [0, 2, 2**40 - 12]


def mburst(*arguments: object):
    command = [sys.executable, "-m", "mburst", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_names_its_files(full, tmp_path):
    done = mburst(full.path, "-o", tmp_path / "out", "--threshold", "90%", "--host", "cache-1", "--since", "19s")
    assert (done.returncode, done.stderr) == (0, "")
    html, facts = (line.split(": ", 1)[1] for line in done.stdout.splitlines())
    assert json.loads(Path(facts).read_text())["definition"]["threshold"] == 0.9
    assert "2026-11-21 02:34:01.0" in Path(html).read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-o", "out", "--rack", "nowhere"], 1, "no recording of rack nowhere"),
        (["-o", "mburst.json"], 1, "the report cannot be written"),
        (["-o", "out", "--bin", "3"], 2, "invalid duration '3'"),
        (["-o", "out", "--bin", "150us"], 2, "not a multiple"),
        (
            ["-o", "out", "--since", "2026-11-22T00:00", "--until", "2026-11-21T00:00"],
            2,
            "--since is not before --until",
        ),
        (["-o", "out", "--since", "2090-01-01"], 2, "is in the future"),
        (["-o", "out", "--until", "2001-01-01"], 0, ""),
        ([], 2, "-o"),
    ],
)
def test_errors_of_the_call_are_one_line(full, tmp_path, arguments, code, message):
    arguments = [
        tmp_path / "out" if value == "out" else full.path / value if value == "mburst.json" else value
        for value in arguments
    ]
    done = mburst(full.path, *arguments)
    assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr
    if code == 1:
        assert len(done.stderr.splitlines()) == 1


def test_a_folder_that_is_no_store_is_one_line(tmp_path):
    done = mburst(tmp_path, "-o", tmp_path / "out")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1) and "not an mburst store" in done.stderr

"""The page, the JSON and the index of racks, and the command that writes them."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser

import pytest
from racklib import DAY, HOUR, START, fill, fill_ports, report
from storelib import write

from mburst.analysis.rack.change import LaneChange, RackChange, Rates
from mburst.dashboards.common import heatmap
from mburst.dashboards.common.summaries import summaries
from mburst.dashboards.common.words import long
from mburst.dashboards.rack import page, pictures, tables
from mburst.dashboards.rack import words as rack_words
from mburst.quality import Quality
from mburst.sql import StoreFolder

HOSTILE = "</title><img src=x onerror=alert(1)>"


@pytest.fixture
def store(tmp_path):
    return StoreFolder.create(tmp_path / "store")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    store = StoreFolder.create(tmp_path_factory.mktemp("rack") / "store")
    fill(store, {"a": [(50, 10)], "b": []}, start=START - DAY)
    fill(store, {"a": [(50, 10), (7_300_000, 30)], "b": [(55, 10)]}, senders=["10.0.0.1", "10.0.0.2", "10.0.0.3"])
    return store


@pytest.fixture(scope="module")
def figures(full):
    """The report of the second day of `full`."""
    return report(full)


class Tags(HTMLParser):
    """Collects every tag of a page, and whether each opened tag was closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_same_period_gives_the_same_bytes(full, figures, tmp_path):
    for folder, made in (("x", figures), ("y", report(full))):
        page.write(made, tmp_path / folder)
        page.write_index(tmp_path / folder)
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} for folder in ("x", "y"))
    assert first == second
    name = "rack-r1-20261120T000000Z-20261121T000000Z"
    assert set(first) == {"index.html", f"{name}.html", f"{name}.json"}


def test_the_page_has_no_script_and_makes_no_request(figures):
    html = page.render(figures)
    tags = Tags(html)
    assert tags.open == [] and not {"script", "img", "link", "iframe"} & {tag for tag, _ in tags.all}
    assert [attrs["href"] for tag, attrs in tags.all if tag == "a"] == ["#main", "index.html"]
    assert not re.search(r"url\(|@import|https?://| on\w+=", html) and "default-src 'none'" in unescape(html)


def test_the_page_states_bursts_changes_and_new_hosts(figures):
    html = page.render(figures)
    assert "Friday 2026-11-20, UTC" in html
    assert "2 of 2 hosts received 3 bursts" in html and "3 times as many bursts an hour" in html
    assert "New: 1 host and 2 senders" in html
    assert "10.0.0.2" in html and "No switch reported" in html
    hot = re.findall(r'class="hot"[^>]*><title>([^<]*)', html)
    assert hot == [
        "a eth0, 2026-11-20 00:00: 1 burst, 10 ms, 0.000278 % of the time",
        "a eth0, 2026-11-20 02:00: 1 burst, 30 ms, 0.000833 % of the time",
        "b eth0, 2026-11-20 00:00: 1 burst, 10 ms, 0.000278 % of the time",
    ]


def test_the_width_of_the_peak_bins_is_stated(figures):
    """It is stated once if all widths are equal."""
    assert ">Peak, 1 ms<" in page.render(figures) and "Peak bin" not in page.render(figures)
    first, *others = figures.lanes
    wider = dataclasses.replace(first, peak_utilization=0.9, peak_bin_ns=10**7)
    html = page.render(dataclasses.replace(figures, lanes=[wider, *others]))
    assert "Peak bin" in html and "90 %, 10 ms" in html and "100 %, 1 ms" in html


def test_names_are_text(store):
    fill(store, {HOSTILE: [(50, 10)]}, rack=HOSTILE, senders=[HOSTILE])
    payload = report(store, HOSTILE)
    html = page.render(payload)
    assert "<img" not in html and "&lt;img" in html
    assert re.fullmatch(r"rack-[A-Za-z0-9._-]+", page.stem(payload))


def test_racks_with_names_that_are_no_file_names_have_different_files(figures):
    stems = {page.stem(dataclasses.replace(figures, rack=name)) for name in ("r 1", "r_1", "r/1", "r1")}
    assert len(stems) == 4


def test_the_page_of_a_rack_without_data_states_it(store, tmp_path):
    fill(store, {"a": [(50, 10)]})
    payload = report(store, "r9")
    html = page.render(payload)
    assert "Nothing of this rack was recorded in this time" in html and "Hosts and interfaces" not in html
    page.write(payload, tmp_path / "out")
    assert "nothing recorded" in page.write_index(tmp_path / "out").read_text()


def test_hosts_and_switches_are_counted_separately(store):
    """Recorded interfaces are counted separately. Among receivers of bursts, a port counts as the host behind it."""
    for start, hosts, ports in ((START - DAY, {"a": [], "b": []}, {"E0": []}), (START, {"a": [(50, 10)]}, {})):
        fill(store, hosts, start=start)
        fill_ports(store, ports, start=start, length=DAY)
        fill_ports(store, {"E7": [(60, 10)] if start == START else []}, device="tor2", start=start)
    found = report(store)
    found = dataclasses.replace(
        found,
        lanes=[
            dataclasses.replace(lane, quality=Quality.UNSYNCED | Quality.RING, bin_ns=10_000) for lane in found.lanes
        ],
    )
    heads = [statement.head for statement in rack_words.statements(found)]
    assert "1 host and 1 switch recorded before and not now" in heads
    assert (found.previous.missing, found.previous.missing_switches) == (["b"], ["tor1"])
    assert {
        "On 1 host and 1 switch, clocks were not synchronized",
        "On 1 host and 1 switch, stamps are too coarse for these bins",
    } < {*heads}
    assert rack_words.verdict(found).startswith("2 of 2 hosts received 2 bursts")
    assert "New: 2 hosts" in rack_words.verdict(found)


def test_a_host_is_new_once_however_many_interfaces_it_has(store, figures):
    lane = dataclasses.replace(figures.lanes[0], host="a", receiver="a")
    port = dataclasses.replace(lane, host="tor1", is_port=True, interface="E0", receiver="tor1 E0")
    lanes = [
        lane, dataclasses.replace(lane, interface="eth9"), dataclasses.replace(lane, direction="out", receiver=None),
        port, dataclasses.replace(port, direction="in", receiver=None),
    ]  # fmt: skip
    new = dataclasses.replace(figures.new, lanes=lanes, senders=[("10.0.0.1", 5)])
    assert "New: 2 hosts, 1 switch and 1 sender" in rack_words.verdict(dataclasses.replace(figures, new=new))


def test_the_json_has_its_summary_in_the_first_line(figures, tmp_path):
    _, path = page.write(figures, tmp_path)
    payload = json.loads(path.read_text())
    [(name, summary)] = summaries(tmp_path)
    assert summary == payload["summary"] and name == path.stem
    assert summary["bursts"] == 3 and summary["worst_host"] == "a" and summary["new"] == 3
    assert [lane["bursts"] for lane in payload["lanes"]] == [2, 1]
    (tmp_path / "rack-somebody.json").write_text("not ours")
    assert len(summaries(tmp_path)) == 1
    assert summaries(tmp_path, (START, START + DAY)) and not summaries(tmp_path, (START - DAY, START))


def test_drops_that_no_switch_reports_are_not_0(store, tmp_path):
    """Of a rack without switch queues, of queues without these counters, and where one of two has them."""
    fill(store, {"a": [(50, 10)]})
    assert rack_words.summary(report(store))["queue_drops"] is None
    window = {"window_start_ns": START, "ts_ns": START + 1}
    for rows, summed, words in (
        ([{"port": "p1", "max_bytes": 9}], None, "not reported"),
        ([{"port": "p2", "max_bytes": 0, "dropped_packets": 0}], 0, "at least 0 packets"),
        ([{"port": "p2", "max_bytes": 0, "dropped_packets": 3, "queue": "1"}], 3, "at least 3 packets"),
    ):
        write(store, "queues", *({**window, **row} for row in rows))
        found = report(store)
        assert rack_words.summary(found)["queue_drops"] == summed and words in page.render(found)
        [queue] = [queue for queue in found.queues if queue.port == "p1"]
        assert (queue.dropped, queue.dropping_windows, queue.ecn_marked) == (None, None, None)


def test_the_index_has_every_report_newest_first(full, figures, tmp_path):
    for made in (report(full, start=START - DAY), figures):
        page.write(made, tmp_path)
    html = page.write_index(tmp_path, ["Report x was not delivered"]).read_text()
    links = [attrs["href"] for tag, attrs in Tags(html).all if tag == "a"]
    assert links == ["rack-r1-20261120T000000Z-20261121T000000Z.html", "rack-r1-20261119T000000Z-20261120T000000Z.html"]
    assert all((tmp_path / link).exists() for link in links) and "Report x was not delivered" in html


@pytest.mark.parametrize(
    ("runs", "messages"),
    [
        (
            {"b": {"dropped": 5}, "c": {"late": 2}, "d": {"link_bps": None}},
            [
                "Packets were lost while recording on b",
                "2 packets in no bin: outside the reorder window, or the years 1970 to 2100",
                "The link speed is not known of d eth0 inbound",
            ],
        ),
        ({"b": {"end_ns": START + DAY // 2}}, ["Not all of the time was recorded: 1 of 2"]),
    ],
)
def test_doubts_are_stated(store, runs, messages):
    """They are stated for the hosts that have them, and not for host a, which has none."""
    for host, run in {"a": {}, **runs}.items():
        fill(store, {host: [(50, 10)]}, **run)
    heads = [statement.head for statement in rack_words.statements(report(store))]
    for message in messages:
        assert any(head.startswith(message) for head in heads), (message, heads)
    in_part = any("end_ns" in run for run in runs.values())  # and not of d, in which no burst could be detected
    assert any(head.startswith("Not all of the time") for head in heads) == in_part


def test_stamps_that_are_too_coarse_for_the_bins_are_reported(store):
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**9, "bin_ns": 10_000})
    write(store, "bins", {"ts_ns": START, "wire_bytes": 1250, "bytes": 1226, "quality": 4})
    heads = [statement.head for statement in rack_words.statements(report(store, length=10**9))]
    assert "On 1 host, stamps are too coarse for these bins" in heads
    heads = [statement.head for statement in rack_words.statements(report(store, length=10**9, bin_ns=100_000))]
    assert not any("coarse" in head for head in heads)


@pytest.mark.parametrize(
    ("now", "then", "message"),
    [
        (0, 0, "no"),
        (3, 0, "for the first time"),
        (0, 3, "no more"),
        (10, 4, "2.5 times as many"),
        (11, 10, "10 % more"),
        (9, 10, "10 % fewer"),
        (10, 10, "as many"),
        (19.97, 10, "100 % more"),
        (1, 190, "99 % fewer"),
        (1, 199, "99 % fewer"),
        (1, 200, "200 times fewer"),
        (1, 250, "250 times fewer"),
    ],
)
def test_a_change_in_words(now, then, message):
    assert rack_words.ratio(now, then) == message


@pytest.mark.parametrize(("days", "text"), [(2, "2 days"), (999.4, "999 days"), (999.7, "1,000 days")])
def test_long_times_are_in_days(days, text):
    assert long(days * DAY) == text


def test_the_busiest_bin_has_its_own_width(store):
    """The wide bins of a lane's second recording are fuller than the narrow ones of the first."""
    for name, at, width, sent in (("narrow", 0, 10**5, 3000), ("wide", 5000, 10**7, 10**6)):
        begin = START + at * 10**6
        row = {"recording_id": name, "bin_ns": width, "start_ns": begin, "end_ns": begin + 1, "packets": 1}
        write(store, "recordings", {**row, "written_ns": begin})
        write(store, "bins", {"recording_id": name, "ts_ns": begin, "wire_bytes": sent})
    assert "80 % in 10 ms, cache-1" in page.render(report(store))


def test_labels_of_an_axis_do_not_overlap():
    hour = 3600 * 10**9
    assert heatmap.label_every(24, hour) == 3 and heatmap.label_every(168, hour) == 24
    assert heatmap.label_every(21, 10**9) == 2


def mburst(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mburst", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_damaged_file_is_named_in_one_line(store, tmp_path):
    fill(store, {"a": [(50, 10)]})
    path = next((store.path / "bins").rglob("*.parquet"))
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)
    done = mburst(store.path, "--rack", "r1", "--since", "2026-11-20", "--until", "2026-11-21", "-o", tmp_path / "out")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "damaged" in done.stderr


def test_the_command(full, tmp_path):
    day = ("--since", "2026-11-20", "--until", "2026-11-21")
    done = mburst(full.path, "--rack", "r1", *day, "-o", tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == ["report", "facts", "index"]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert mburst(full.path, "--all-racks", *day, "-o", tmp_path).stdout == done.stdout
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    empty = mburst(full.path, "--rack", "r7", *day, "-o", tmp_path)
    assert empty.returncode == 0 and "nothing of rack r7 was recorded" in empty.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--all-racks"], 2, "--all-racks goes with --since"),
        (["--all-racks", "--rack", "r1", "--last", "day"], 2, "--all-racks goes with"),
        (["--last", "day"], 2, "--last is for reports of racks"),
        (["--rack", "r1", "--last", "day", "--since", "1h"], 2, "--last excludes --since and --until"),
        (["--rack", "r9", "--since", "24h"], 1, "no recording of rack r9"),
        (["--rack", "r1", "--since", "2090-01-01"], 2, "is in the future"),
        (["--rack", "r1", "--until", "2001-01-01"], 1, "the period ends before it begins"),
        (["--rack", "r1", "--since", "2026-11-20", "--bin", "1500us"], 2, "not a multiple"),
    ],
)
def test_errors_of_the_call_are_one_line(full, tmp_path, arguments, code, message):
    done = mburst(full.path, *arguments, "-o", tmp_path)
    assert done.returncode == code and message in done.stderr and len(done.stderr.splitlines()) <= 1


def test_slots_of_a_port_that_is_counted_at_its_host_do_not_state_not_recorded(store):
    link = {"device": "tor1", "port": "E0", "queue": "", "host": "a", "rack": "r1", "origin": "configuration"}
    write(store, "links", {**link, "present": True, "ts_ns": START})
    fill(store, {"a": [(50, 10)]}, length=6 * HOUR)
    fill_ports(store, {"E0": [(50, 10)], "E1": [(50, 10)]}, length=12 * HOUR)
    rows = {row.name: row.cells for row in pictures.heatmap(report(store)).rows_of_cells}
    assert rows["tor1 E0 outbound"][3].title.endswith(": not recorded, or counted at a")
    assert {rows[name][20].title.rpartition(": ")[2] for name in ("a eth0", "tor1 E1 outbound")} == {"not recorded"}


def test_a_host_of_several_interfaces_counts_as_one(figures):
    """Its time in bursts is that of all of its interfaces, and so is the host with most of it."""
    a, b = (dataclasses.replace(lane, bursts=1) for lane in figures.inbound)
    lanes = [dataclasses.replace(a, burst_ns=30), dataclasses.replace(a, interface="eth1", burst_ns=30)]
    two = dataclasses.replace(figures, inbound=[*lanes, dataclasses.replace(b, burst_ns=40)])
    assert "2 of 2 hosts received 3 bursts" in rack_words.verdict(two)
    assert "60 % of the time in bursts fell on a." in rack_words.verdict(two)
    assert (rack_words.summary(two)["worst_host"], rack_words.summary(two)["bursting_hosts"]) == ("a", 2)
    unnamed = dataclasses.replace(figures, inbound=[dataclasses.replace(a, host="", receiver="")])
    assert rack_words.verdict(unnamed).startswith("unnamed host received 1 burst")


def test_packets_that_a_capture_dropped_count_once(store):
    """Each direction of a capture has all that it dropped; two captures of an interface dropped different packets."""
    for host, interface, direction, capture, dropped in (
        ("a", "eth0", "in", "both", 7),
        ("a", "eth0", "out", "both", 7),
        ("a", "eth1", "in", "one", 7),
        ("a", "eth1", "out", "other", 5),
        ("b", "eth0", "in", "file", 9),
        ("b", "eth1", "in", "file", 9),
    ):
        of = {"recording_id": f"{host}{interface}{direction}", "host": host, "interface": interface}
        times = {"start_ns": START, "end_ns": START + 10**9, "direction": direction, "backend": "afpacket"}
        write(store, "recordings", {**of, **times, "capture_id": capture, "dropped": dropped})
    page = report(store)
    assert rack_words.summary(page)["dropped"] == 7 + (7 + 5) + 9
    [statement] = [of for of in rack_words.statements(page) if "were lost" in of.head]
    assert statement.head == "Packets were lost while recording on a, b"
    where = "as far as is known in no bin of this time. Counts can be lower bounds."
    assert statement.text == f"12 packets at most on an interface, {where}"


def test_queues_beyond_the_listed_ones_are_counted(store):
    fill(store, {"a": [(50, 10)]})
    window = {"window_start_ns": START, "ts_ns": START + 10**6}
    write(store, "queues", *({**window, "port": f"p{i}", "dropped_packets": 1, "max_bytes": 9} for i in range(30)))
    write(store, "queues", *({**window, "port": f"q{i}", "max_bytes": 9, "quality": 1024} for i in range(30)))
    page = report(store)
    assert (len(page.queues), page.dropping_queues, page.queue_drops, page.impossible_windows) == (20, 30, 30, 30)
    assert "30 switch queues dropped at least 30 packets" in rack_words.verdict(page)
    assert "30 windows of switch queues left out as impossible" in [of.head for of in rack_words.statements(page)]


@pytest.mark.parametrize(
    ("now", "then", "changed"),
    [
        (Rates(0, 0, 0), Rates(HOUR, 5, 10**9), "–"),
        (Rates(HOUR, 5, 10**9), Rates(0, 0, 0), "–"),
        (Rates(HOUR, 0, 0), Rates(HOUR, 5, 10**9), "no more"),
    ],
)
def test_time_that_was_not_recorded_is_no_change(now, then, changed):
    lane = LaneChange("a", "eth0", "in", now, then)
    rows = tables.change(RackChange(0, HOUR, now, then, [lane], [], []), "The period before").rows
    assert [row[3] for row in rows] == [changed, changed]

"""Each figure on the pages of `mburst fleet report` equals the answer to the matching question, over real results."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from fleetlib import DATES, HOSTS, START, detected, shipped
from fleettables import tables
from hostile import HOSTILE
from pagelib import ATTACK, fleet_figures, named
from racklib import DAY, HOUR, fill

from mburst.__main__ import main
from mburst.analysis.bursts.find import BurstDefinition
from mburst.analysis.fleet.report import FleetPeriod
from mburst.dashboards.fleet import losses, page, pictures, words
from mburst.dashboards.fleet import tables as page_tables
from mburst.fleet import reporting
from mburst.fleet.asking import last_days
from mburst.fleet.inventory import read_inventory
from mburst.fleet.results import PartitionName
from mburst.sql import StoreFolder
from mburst.units import format_share

NAMES = [name for name in HOSTILE.values() if "\0" not in name and name not in (".", "..")]


@pytest.fixture
def done(fleet_done):
    return fleet_done


@pytest.fixture(scope="module")
def written(fleet_done, tmp_path_factory):
    """The report over both days."""
    folder = tmp_path_factory.mktemp("report-pages")
    assert main(["fleet", "report", str(fleet_done), "--day", DATES[1], "--days", "2", "-o", str(folder)]) == 0
    return folder


STEM = f"fleet-{DATES[0]}-to-{DATES[1]}"


def ask(capfd, results, question, *options):
    """Returns the rows of an answer, over both days unless OPTIONS select others."""
    capfd.readouterr()
    days = options or ("--day", DATES[1], "--days", "2")
    assert main(["fleet", "ask", str(results), question, *days, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def facts(path):
    return json.loads(path.with_suffix(".json").read_text("utf-8"))


def cells(text, head):
    """Returns the rows of the tables in the section with that HEAD, as texts."""
    [section] = re.findall(rf"<h2[^>]*>{re.escape(head)}</h2>(.*?)</section>", text, re.DOTALL)
    bodies = re.findall(r"<tbody>(.*?)</tbody>", section, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", "".join(bodies), re.DOTALL)
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in row] for row in found if row]


def test_senders_are_named_by_a_file_or_a_store(done, tmp_path, capsys):
    file = tmp_path / "names.csv"
    file.write_text("address,name,service\n10.0.0.1,db-1,\n10.0.0.0/30,,shards\n10.0.0.2,<blink>,\n")
    StoreFolder.create(tmp_path / "store")
    assert main(["names", str(tmp_path / "store"), str(file)]) == 0
    found = []
    for place in (file, tmp_path / "store"):
        words = ["fleet", "report", str(done), "--day", DATES[1], "-o", str(tmp_path / "out"), "--names", str(place)]
        assert main(words) == 0
        found.append((tmp_path / "out" / f"fleet-{DATES[1]}.html").read_text("utf-8"))
    assert found[0] == found[1] and "<blink>" not in found[0]
    rows = {row[0]: row[1] for row in cells(found[0], "Senders")}
    assert rows["db-1 (10.0.0.1)"] == rows["shards 10.0.0.3"] == "shards"
    assert main([*words[:-1], str(tmp_path / "none.csv")]) == 1 and "none.csv" in capsys.readouterr().err


@pytest.mark.parametrize("gather", ["gather_fleet", "gather_rack"])
def test_a_file_that_changes_after_it_was_verified_stops_the_report(done, capfd, tmp_path, monkeypatch, gather):
    results = shutil.copytree(done, tmp_path / "results")
    path = next((results / "bursts" / f"date={DATES[0]}").rglob("*.parquet"))
    gathered = getattr(reporting, gather)

    def changed(*of):
        path.write_bytes(bytes(path.stat().st_size))
        return gathered(*of)

    monkeypatch.setattr(reporting, gather, changed)
    assert main(["fleet", "report", str(results), "--day", DATES[0], "-o", str(tmp_path / "out")]) == 1
    assert capfd.readouterr().err == (
        f"mburst: {path}: damaged: the content does not have the SHA-256 of its partition's record "
        "(try again: the answer will leave it out)\n"
    )


def test_the_fleet_and_each_rack_have_a_page_and_its_facts(written):
    racks = {rack for rack, _ in HOSTS}
    assert {path.name for path in written.iterdir()} == {STEM, f"{STEM}.html", f"{STEM}.json"}
    fleet = (written / f"{STEM}.html").read_text("utf-8")
    links = {html.unescape(link) for link in re.findall(r'href="([^"#]+\.html)"', fleet)}
    assert {(written / unquote(link)).is_file() for link in links} == {True} and len(links) == len(racks)
    for link in links:
        path = written / unquote(link)
        assert facts(path)["sums"]["rack"] in racks
        assert f'href="../{STEM}.html"' in path.read_text("utf-8")


def test_the_figures_of_the_fleet_equal_the_answers(written, done, capfd):
    found, text = facts(written / STEM), (written / f"{STEM}.html").read_text("utf-8")
    answers = found["answers"]
    hosts = ask(capfd, done, "worst_hosts")
    assert answers["hosts"] == {"rows": hosts, "count": len(hosts)}
    shown = cells(text, "Hosts")
    assert [(row[0], row[1]) for row in shown] == [(row["host"], row["rack"]) for row in hosts]
    assert [float(row[4]) for row in shown] == [pytest.approx(row["bursts_per_h"], rel=5e-3) for row in hosts]
    assert answers["loss"] == ask(capfd, done, "loss")
    assert answers["senders"]["rows"] == ask(capfd, done, "aggressors")
    [curve], durations = answers["curves"], ask(capfd, done, "durations")
    assert curve["durations_ns"] == [row["duration_ns"] for row in durations]
    assert curve["shares"] == [row["share"] for row in durations]
    assert answers["bursts"] == durations[-1]["bursts_at_most"]
    assert answers["longest_ns"] == durations[-1]["duration_ns"]
    [group] = answers["classes"]["rows"]
    [gap], [markov] = ([gap for gap in ask(capfd, done, "gaps") if gap["share"] >= 0.5][:1], ask(capfd, done, "markov"))
    assert group["p50_gap_ns"] == gap["gap_ns"] and {name: group[name] for name in markov} == markov
    assert group["p50_ns"] == next(row["duration_ns"] for row in durations if row["share"] >= 0.5)
    assert group["share_of_bytes"] == ask(capfd, done, "utilization")[0]["share_of_bytes"]
    times = ask(capfd, done, "contention")
    assert {row["hosts_at_once"]: row["ns"] for row in answers["at_once"]} == {
        n: sum(row["ns"] for row in times if row["hosts_at_once"] == n) for n in {row["hosts_at_once"] for row in times}
    }
    senders = ask(capfd, done, "fan_in")
    assert [(row["least"], row["bursts"]) for row in answers["fan_ins"]] == [(2, sum(row["bursts"] for row in senders))]


def test_the_places_of_losses_add_up_to_the_results(written, done, capfd):
    fleet = facts(written / STEM)["answers"]
    parts = {row["measure"]: [row["in_bursts"], row["after"], row["elsewhere"]] for row in fleet["losses"]}
    queues = ask(capfd, done, "switch_drops")
    assert fleet["switch_drops"] == {"rows": queues, "count": 2}
    assert parts["drops"] == [sum(row["drops_in_bursts"] for row in queues), None, 42] == [14, None, 42]
    query = "SELECT sum(burst_ns) AS n, sum(recorded_ns) AS recorded FROM hours WHERE direction <> 'out'"
    [times] = ask(capfd, done, query)
    assert parts["time"] == [times["n"], None, times["recorded"] - times["n"]]
    query = "SELECT sum(retransmits) AS n, sum(retransmits_after) AS a, sum(ce_packets) AS c FROM bursts"
    [lost] = ask(capfd, done, query)
    assert parts["retransmits"][:2] == [lost["n"], lost["a"]] and parts["ce_packets"][0] == lost["c"]
    text = (written / f"{STEM}.html").read_text("utf-8")
    assert [(row[0], row[2], row[3], row[4]) for row in cells(text, "Drops of switch queues")] == [
        (host, f"tor-1 {host} 0", "28", "25 %") for host in ("a", "b")
    ]
    assert losses.NOT_ASKED in html.unescape(text) and losses.NO_QUEUE not in html.unescape(text)
    other = html.unescape((written / STEM / "r2.html").read_text("utf-8"))
    assert losses.NO_QUEUE in other and losses.NOT_ASKED not in other, "no switch of that rack ships"


@pytest.mark.parametrize("after", [None, 0, 5])
def test_parts_of_bars_are_proportional_to_their_counts(after):
    row = {"measure": "retransmits", "in_bursts": 30, "after": after, "elsewhere": 65, "uncounted_ns": 0}
    marks = {"measure": "ce_packets", "in_bursts": 0, "after": 0, "elsewhere": 0, "uncounted_ns": 0}
    answers = SimpleNamespace(losses=[row, marks])
    _, bars, *rest = losses.places(answers)
    [bar] = bars.bars
    assert sum(part.width for part in bar.parts) == pytest.approx(losses.WIDTH - losses.LEFT)
    assert [part.kind for part in bar.parts] == [kind for kind in losses.PARTS if row[kind]]
    assert bar.parts[0].width / bar.parts[-1].width == pytest.approx(30 / 65)
    assert [part.text for part in rest] == ["None in this time: CE marks.", losses.NO_QUEUE]


def test_the_figures_of_racks_equal_the_answers(written, done, capfd):
    found, text = facts(written / STEM), (written / f"{STEM}.html").read_text("utf-8")
    racks = {rack["rack"]: rack for rack in found["racks"]}
    coverage = ask(capfd, done, "coverage")
    for name, rack in racks.items():
        own = [row for row in coverage if row["rack"] == name]
        assert rack["hosts_expected"] == sum(row["hosts_expected"] for row in own)
        assert rack["recorded_share"] == pytest.approx(sum(row["recorded_share"] for row in own) / len(own))
    [alone] = [row for row in ask(capfd, done, "worst_hosts") if row["rack"] == "r2"]  # the only host of r2
    assert racks["r2"]["burst_ns"] / racks["r2"]["recorded_ns"] == alone["burst_share"]
    assert racks["r2"]["bursts"] * HOUR / racks["r2"]["recorded_ns"] == pytest.approx(alone["bursts_per_h"])
    hours = {(row["rack"], row["hour_ns"]): row["bursts_per_h"] for row in ask(capfd, done, "hours_of_day")}
    lines = {line["name"]: line for line in found["lines"]}
    rates = {
        (name, START + slot * HOUR): bursts * HOUR / recorded
        for name, line in lines.items()
        for slot, (bursts, recorded) in enumerate(zip(line["bursts"], line["recorded_ns"], strict=True))
        if recorded and name
    }
    assert rates == pytest.approx(hours)
    bursts = sum(rack["bursts"] for rack in racks.values())
    assert (
        sum(lines[""]["bursts"])
        == bursts
        == found["answers"]["bursts"]
        == ask(capfd, done, "SELECT count(*) AS n FROM bursts WHERE direction <> 'out'")[0]["n"]
    )
    assert f"4 of 4 hosts in 3 racks received {bursts} bursts" in text
    assert [row[0] for row in cells(text, "Racks")] == [rack["rack"] for rack in found["racks"]]


@pytest.fixture(scope="module")
def alone(fleet_target, tmp_path_factory):
    """The results of one rack, without the others."""
    folder = tmp_path_factory.mktemp("report-alone")
    detected(fleet_target, folder, DATES[0], rack="r1")
    return folder


@pytest.mark.parametrize("split", ["rack", "host"])
def test_the_figures_of_a_single_rack_equal_the_answers(done, alone, fleet_by_host, tmp_path, capfd, split):
    """The same holds for a rack that is divided by host."""
    all_racks = {"rack": done, "host": fleet_by_host}[split]
    assert main(["fleet", "report", str(all_racks), "--day", DATES[0], "-o", str(tmp_path / "out")]) == 0
    found = facts(tmp_path / "out" / f"fleet-{DATES[0]}" / "r1.html")
    for name, question in (("hosts", "worst_hosts"), ("senders", "aggressors")):
        assert found["answers"][name]["rows"] == ask(capfd, alone, question, "--day", DATES[0])
    assert found["answers"]["loss"] == ask(capfd, alone, "loss", "--day", DATES[0])
    assert found["hours"]["rows"] == ask(capfd, alone, "hours_of_day", "--day", DATES[0])
    assert {row["hosts_at_once"] for row in found["answers"]["at_once"]} == {0, 1, 2}
    assert [line["name"] for line in found["lines"]] == ["a", "b"] and found["hosts"] == 2


def test_the_same_results_give_the_same_files(done, tmp_path):
    for folder in ("x", "y"):
        assert main(["fleet", "report", str(done), "--day", DATES[0], "-o", str(tmp_path / folder)]) == 0
    first, second = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.*ml") if path.is_file()}
        for root in (tmp_path / "x", tmp_path / "y")
    )
    assert len(first) == 4 and first == second


def test_a_day_without_bursts(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    fill(store, {"a": []}, rack="r1")
    fill(store, {"a": []}, start=START + DAY, rack="r1")
    detected(shipped(store, tmp_path / "target"), tmp_path / "results", DATES[0])
    assert main(["fleet", "report", str(tmp_path / "results"), "--day", DATES[0], "-o", str(tmp_path / "out")]) == 0
    for path in (tmp_path / "out" / f"fleet-{DATES[0]}.html", tmp_path / "out" / f"fleet-{DATES[0]}" / "r1.html"):
        text = path.read_text("utf-8")
        assert "No burst reached any of the 1 host recorded" in text and "All has arrived" in text
        assert "No host received a burst." in text and "No host was receiving a burst." in text


def test_partitions_without_results_are_stated(fleet_target, tmp_path, capfd):
    results, inventory = tmp_path / "results", tmp_path / "hosts.csv"
    inventory.write_text("rack,host\nr1,a\nr1,gone\nr9,x\n")
    detected(fleet_target, results, DATES[0], inventory=read_inventory(inventory))
    (results / PartitionName(DATES[0], "r2", None).record_key).unlink()
    [path] = (results / "hours" / f"date={DATES[0]}" / "rack=r%20%2F3").glob("*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    options = ("--day", DATES[0], "--days", "3", "--inventory", str(inventory), "-o", str(tmp_path / "out"))
    assert main(["fleet", "report", str(results), *options]) == 1
    err = capfd.readouterr().err.splitlines()
    assert len(err) == 4 and str(path) in err[0] and f"{DATES[0]} rack r2: not detected" in err[1]
    assert "no results of 2026-11-18" in err[2] and "no results of 2026-11-19" in err[3]
    fleet = (tmp_path / "out" / f"fleet-2026-11-18-to-{DATES[0]}.html").read_text("utf-8")
    for line in ("1 partition damaged and left out", "1 partition not detected", "No results of 2 days"):
        assert line in fleet
    assert html.escape(str(path), quote=True) in fleet
    lacking = {row[0].removesuffix(" !"): row[1:4] for row in cells(fleet, "Incomplete racks")}
    assert lacking["r1"][:1] == ["2 of 3"] and lacking["r1"][2] == "24 h" and lacking["r9"][0].startswith("0 of ")
    r1 = (tmp_path / "out" / f"fleet-2026-11-18-to-{DATES[0]}" / "r1.html").read_text("utf-8")
    assert "1 expected host-day without a recording" in r1
    assert cells(r1, "What has not arrived") == [["gone", DATES[0], "never shipped"]]
    assert "damaged and left out" not in r1 and "not detected" not in r1, "that is of other racks"


def test_hostile_rack_names_never_become_paths(tmp_path):
    """tests/dashboards/test_hostile_pages.py tests that such names are plain text on the pages."""
    for number, name in enumerate(("../../up", ATTACK)):
        fleet, [rack] = fleet_figures(tmp_path / f"{number}", named(tables(7, racks=1, hosts=1), name), name)
        written = (*page.write_fleet(fleet, tmp_path / "out", [name]), *page.write_rack(rack, tmp_path / "out"))
        assert all(path.is_file() and path.resolve().is_relative_to(tmp_path / "out") for path in written)
        links = re.findall(r'href="([^"#]+)"', written[0].read_text("utf-8"))
        assert links and {written[0].parent / unquote(html.unescape(link)) for link in links} == {written[2]}
    parts = {page.rack_file(name) for name in NAMES}
    assert len(parts) == len(NAMES) and not [part for part in parts if "/" in part or part.startswith(".")]


def test_figures_of_many_racks_are_cut_and_counted(tmp_path):
    """The page has a picture of 30 racks, tables of 20, and a link to each rack."""
    found = tables(3, racks=1, hosts=1, bursts=4)
    fleet, _ = fleet_figures(tmp_path, found, "")
    many = [type(fleet.racks[0])(f"rack-{i:04}", hosts=1, recorded_ns=HOUR, burst_ns=9999 - i) for i in range(1000)]
    text = page.render_fleet(type(fleet)(fleet.period, many, fleet.lines, fleet.answers), [rack.rack for rack in many])
    assert "20 of 1,000 racks, by time in bursts; and 980 more" in text and len(text) < 1_000_000
    assert all(f"/rack-{i:04}.html" in text for i in range(1000)) and len(cells(text, "Racks")) == 20


def test_days():
    now = START + 5 * HOUR  # a Friday
    assert last_days("day", now) == (START - DAY, START) == last_days("1d", now)
    assert last_days("7d", now) == (START - 7 * DAY, START)
    assert last_days("week", now) == (START - 11 * DAY, START - 4 * DAY), "from Monday"
    assert words.days(FleetPeriod(START, START + DAY, BurstDefinition())) == "Friday 2026-11-20, UTC"


def test_the_last_day_is_yesterday(done, capfd, monkeypatch, tmp_path):
    monkeypatch.setattr(time, "time_ns", lambda: START + DAY + HOUR)
    assert main(["fleet", "report", str(done), "--last", "day", "-o", str(tmp_path)]) == 0
    assert capfd.readouterr().out.splitlines()[0] == f"report: {tmp_path}/fleet-{DATES[0]}.html"
    assert ask(capfd, done, "coverage", "--last", "day") == ask(capfd, done, "coverage", "--day", DATES[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--day", "2026-01-01"], "no results of 2026-01-01"),
        (["--last", "0d"], "invalid number of days 0"),
        (["--last", "month"], "invalid --last 'month'"),
        (["--last", "day", "--days", "2"], "--last excludes --day and --days"),
    ],
)
def test_wrong_arguments_of_a_report_are_one_line(done, capfd, tmp_path, arguments, message):
    assert main(["fleet", "report", str(done), *arguments, "-o", str(tmp_path / "out")]) in (1, 2)
    out, err = capfd.readouterr()
    assert message in err and err.count("\n") == 1 and not out and not (tmp_path / "out").exists()


def test_slots_are_longer_for_more_days():
    periods = [FleetPeriod(0, days * DAY, BurstDefinition()) for days in (1, 8, 9, 62, 63, 366)]
    slots = [(of.slot_ns // HOUR, of.slots) for of in periods]
    assert slots == [(1, 24), (1, 192), (24, 9), (24, 62), (168, 9), (168, 53)]


def test_classes_have_names():
    assert [page_tables.class_text("length_class", ns) for ns in (0, 10**5, 10**8)] == [
        "below 100 µs",
        "100 µs – 1 ms",
        "100 ms and longer",
    ]
    fan_ins = [page_tables.class_text("fan_in_class", n) for n in (0, 1, 2, 64)]
    assert fan_ins == ["not known", "1", "2 – 3", "64 and more"]
    assert pictures.rates([]) and pictures.rates([])[-1] == 0


@pytest.mark.parametrize(("low", "high"), [(1, 10**15), (10**9, 10**10), (2 * 10**12, 2 * 10**13), (10**3, 10**4)])
def test_an_axis_of_times_has_a_few_ticks(low, high):
    ticks = pictures.time_ticks(low, high)
    assert 2 <= len(ticks) <= pictures.Y_TICKS and ticks == sorted(ticks) and low <= ticks[0] and ticks[-1] <= high


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [(3.0, 1.1, 8.2, "3 (1.1 to 8.2)"), (None, 4.21, None, "at least 4.21"), (0.0, 0.0, 2.5, "0 (0 to 2.5)"),
     (None, None, None, "–")],
)  # fmt: skip
def test_a_relative_risk_has_its_interval(value, low, high, words):
    assert losses.risk({"relative_risk": value, "relative_risk_low": low, "relative_risk_high": high}) == words


def test_each_host_counts_for_its_time(fleet_done, tmp_path):
    """Of host a only a half of the second day, of which it recorded 12 h like the others; of these 24 h each day."""
    (tmp_path / "hosts.csv").write_text("rack,host,until\nr1,a,2026-11-21T06:00\n")
    days = ["--day", DATES[1], "--days", "2", "--inventory", str(tmp_path / "hosts.csv")]
    assert main(["fleet", "report", str(fleet_done), *days, "-o", str(tmp_path)]) == 0
    shares = {rack["rack"]: rack["recorded_share"] for rack in facts(tmp_path / STEM)["racks"]}
    assert shares["r1"] == pytest.approx(48 / (48 + 12 + 24)) and shares["r2"] == pytest.approx(0.5)
    assert format_share((48 + 24 + 24) / (84 + 48 + 48)) in (tmp_path / f"{STEM}.html").read_text("utf-8")

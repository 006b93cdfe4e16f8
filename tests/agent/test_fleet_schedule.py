"""Due reports of a fleet are written once for the last whole day, and delivered."""

from __future__ import annotations

import json
import subprocess
import sys
from subprocess import PIPE

import pytest
from fleetlib import DATES, detected, filled, shipped
from racklib import DAY, HOUR, START

from mburst.agent.config import load
from mburst.agent.delivery.digest import Digest
from mburst.agent.schedule import timers
from mburst.agent.schedule.due import carry_out
from mburst.dashboards.common.summaries import summaries
from mburst.errors import MburstError, UsageError
from mburst.status import reports as status

NOW = START + DAY + 5 * HOUR
STEM = f"fleet-{DATES[0]}"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scheduled")
    detected(shipped(filled(folder / "store"), folder / "target"), folder / "results", DATES[0])
    return folder / "results"


def config_of(tmp_path, results, more=""):
    path = tmp_path / "mburst.toml"
    path.write_text(
        f'[[report]]\nname = "fleet"\nresults = "{results}"\noutput = "{tmp_path}/out"\ndeliver = "www"\n{more}'
        f'[[deliver]]\nname = "www"\nkind = "folder"\npath = "{tmp_path}/www"\nattempts = 1\n'
    )
    return load(path)


def test_a_report_is_written_and_delivered_once(results, tmp_path):
    config, lines = config_of(tmp_path, results), []
    [report] = config.reports
    assert report.delay_ns == 4 * HOUR and report.place == results
    assert carry_out(config, report, NOW, lines.append) == 0
    delivered = {path.relative_to(tmp_path / "www").as_posix() for path in (tmp_path / "www").rglob("*.*")}
    assert delivered >= {f"{STEM}.html", f"{STEM}.json", "index.html", f"{STEM}/r1.html", f"{STEM}/r1.json"}
    assert len(delivered) == 3 + 2 * 3
    assert [line.split(":")[0] for line in lines] == ["report", "www"]
    assert f'href="{STEM}.html"' in (tmp_path / "www" / "index.html").read_text("utf-8")
    assert carry_out(config, report, NOW + HOUR, lines.append) == 0 and len(lines) == 2


CONFINED = """
import sys
from pathlib import Path
from mburst.agent.config import load
from mburst.cli.schedule import settle
from mburst.fleet.inventory import read_inventory
from mburst.process import privileges

privileges.own_process()
config = load(Path("mburst.toml"))
settle(config)
[report] = config.reports
assert len(read_inventory(report.source.inventory)) == 1
print("settled", flush=True)
sys.stdin.readline()
print(len(read_inventory(report.source.inventory)))
"""


@pytest.mark.parametrize("is_link", [False, True])
def test_an_inventory_may_be_replaced_while_the_schedule_runs(results, tmp_path, is_link):
    """By rename, as editors do, although the process may read only what it named at its start."""
    there, named = tmp_path / "there", tmp_path / "named" / "hosts.csv"
    named.parent.mkdir()
    there.mkdir()
    (there / "hosts.csv").write_text("rack,host\nr1,a\n")
    config_of(tmp_path, results, f'inventory = "{named if is_link else there / named.name}"\n')
    named.symlink_to(there / "hosts.csv")
    call = [sys.executable, "-P", "-c", CONFINED]
    with subprocess.Popen(call, cwd=tmp_path, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdout.readline() == "settled\n", process.stderr.read()
        (there / "new").write_text("rack,host\nr1,a\nr1,b\n")
        (there / "new").rename(there / "hosts.csv")
        out, errors = process.communicate("go\n", timeout=60)
    assert out == "2\n", errors


def test_days_without_results_and_the_time_recorded_on_others_are_two_facts(results, tmp_path):
    """Half of the one day with results is not half of the week."""
    config = config_of(tmp_path, results, 'every = "week"\n')
    [report] = config.reports
    carry_out(config, report, START + 3 * DAY + 5 * HOUR, lambda line: None)
    digest = Digest.read("fleet", report.output, START - 4 * DAY, START + 3 * DAY, [])
    part = "results of 1 of 7 days; on days with results, 50 % of the time of expected hosts recorded"
    assert digest.title.endswith(
        f"fleet: 6 bursts, {part}"
    ) and f"Not all of the time was recorded: {part}" in digest.text("")
    page = digest.entries[0].page.read_text("utf-8")
    assert "Expected hosts were recorded for 50 % of the days with results." in page


def test_a_message_agrees_with_the_page(results, tmp_path):
    config = config_of(tmp_path, results)
    [report] = config.reports
    carry_out(config, report, NOW, lambda line: None)
    digest = Digest.read("fleet", report.output, START, START + DAY, [])
    [entry] = digest.entries
    facts = json.loads(entry.facts.read_text("utf-8"))
    page = entry.page.read_text("utf-8")
    assert digest.title.endswith("fleet: 6 bursts, 50 % of the time of expected hosts recorded")
    assert entry.summary["verdict"] in page
    assert f"https://host/x/{STEM}.html" in digest.text("https://host/x")
    names, shares, slots = digest.grid()
    assert names == [line["name"] for line in facts["lines"] if line["name"]] and len(slots) == 24
    assert {len(row) for row in shares} == {24}
    known = [share for row in shares for share in row if share is not None]
    assert all(0 <= share <= 1 for share in known) and any(known)
    assert "fleet" in digest.html("", "cid:x")
    assert entry.summary["queue_drops"] == 56, "two queues of ten windows"


def test_no_report_is_written_of_a_day_without_results(results, tmp_path):
    config = config_of(tmp_path, results)
    with pytest.raises(MburstError, match="no results of 2026-11-22"):
        carry_out(config, config.reports[0], NOW + 2 * DAY, lambda line: None)
    assert summaries(tmp_path / "out") == []


def test_status_of_a_report(results, tmp_path, monkeypatch):
    config = config_of(tmp_path, results)
    monkeypatch.setattr(status.time, "time_ns", lambda: NOW + 2 * HOUR)
    before = status.read(config, config.reports[0])
    assert before.is_late and before.written == []
    carry_out(config, config.reports[0], NOW, lambda line: None)
    after = status.read(config, config.reports[0])
    assert not after.is_late and after.written == ["fleet"]


def test_the_unit_runs_as_the_owner_of_the_results(results, tmp_path):
    config = config_of(tmp_path, results)
    [service, timer] = timers.units(config, system=True).values()
    assert f"User={timers.owner_of(results)}" in service and str(results) in service and "04:00:00 UTC" in timer
    bucket = config_of(tmp_path, "s3://fleet/results")
    assert bucket.reports[0].place == tmp_path / "out" and bucket.stores == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('every = "hour"\n', "invalid every 'hour' (valid are day, week)"),
        ('store = "s"\n', "store and results exclude each other"),
        ('threshold = "80%"\n', "threshold and results exclude each other"),
        ('[[report]]\nname = "racks"\nstore = "s"\noutput = "{}/out"\n', "a fleet's report needs an output of its own"),
        (
            '[[report]]\nname = "x"\nstore = "s"\noutput = "o"\ninventory = "i"\n',
            "inventory is of the results of a fleet",
        ),
    ],
)
def test_errors_in_the_file_are_one_line(results, tmp_path, more, message):
    with pytest.raises(UsageError) as caught:
        config_of(tmp_path, results, more.replace("{}", str(tmp_path)))
    assert message in f"{caught.value} ({caught.value.hint})"

"""`mburst status` of an mburst.toml: its parts, stores, reports and deliveries, and the same as metrics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from bounded import next_line
from statuslib import DAY, NOW, SECOND, Asked, ask, configuration, metrics_of, now, recording, store_of
from waiting import wait_for

from mburst.__main__ import main
from mburst.agent.config import load
from mburst.agent.delivery.ledger import FAILED, DeliveryKey, DeliveryLedger
from mburst.sql import StoreFolder
from mburst.status import parts as status_of_parts

__all__ = ["ask", "now"]

METRICS = '[metrics]\nlisten = "127.0.0.1:0"'
REPORT = '[[report]]\nname = "daily"\nracks = ["r1"]\noutput = "{}"'


def unwell(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Queries once: a part that is started again may run the second time."""
    main(["status", "--json", str(path)])
    found: list[str] = json.loads(capsys.readouterr().out)["unwell"]
    return found


def test_the_parts_of_a_file(tmp_path: Path, ask: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    """The parts are real processes; a file with the same name elsewhere is another configuration."""
    StoreFolder.create(tmp_path / "store")
    path = configuration(tmp_path, METRICS + '\nconfig = "mburst.toml"', '[reflect]\nlisten = "127.0.0.1:8620"')
    (tmp_path / "other").mkdir()
    other = configuration(tmp_path / "other", METRICS)
    StoreFolder.create(tmp_path / "other" / "store")
    command = [sys.executable, "-m", "mburst", "run", "mburst.toml", "--only", "metrics"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        address = next_line(process).rpartition(" ")[2].strip()
        with urllib.request.urlopen(address) as answer:  # the part has fewer rights than `mburst run`
            assert b'\nmburst_part_running{part="metrics"} 1.0' in answer.read()
        code, facts, text = ask(path)
        assert (code, facts["run"]["supervisor"]) == (0, process.pid)
        [part] = facts["run"]["parts"]
        assert part["name"] == "metrics" and 0 < part["age_ns"] < 60 * SECOND
        assert "metrics: runs for " in text
        os.kill(part["process"], signal.SIGSTOP)  # it is killed once it is no longer visible
        os.kill(part["process"], signal.SIGKILL)
        wait_for(lambda: unwell(path, capsys) == ["metrics does not run"], "a part that does not run")
        assert ask(other)[1]["unwell"] == [f"no process of `mburst run {other}` runs that user {os.geteuid()} can see"]
    finally:
        process.kill()
        process.communicate()


def test_recordings_without_a_rack_are_reported_as_not_shipped(
    tmp_path: Path, ask: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mburst ship` reports this only on standard error, and continues."""
    store = store_of(tmp_path, recording(rack="unknown"))
    path = configuration(tmp_path, f'[ship]\ntarget = "{tmp_path}/fleet"\nevery = "1h"')
    refused = f"ship: host cache-1 in rack unknown of {store.path} is not shipped: a fleet needs names"
    assert refused in unwell(path, capsys)
    assert ask(path)[1]["ships"] == [{"name": "ship", "store": str(store.path), "refused": [refused[6:34]], "cut": []}]


def test_recordings_whose_name_is_too_long_are_reported_as_not_shipped(
    tmp_path: Path, ask: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path, recording(host=100 * "x"), recording(host=17 * "ж"))
    path = configuration(tmp_path, f'[ship]\ntarget = "{tmp_path}/fleet"\nevery = "1h"')
    cut = f"host {16 * 'ж'}… in rack r1"
    reason = "names of files have at most 100 bytes of a host"
    assert [line for line in unwell(path, capsys) if "shipped" in line] == [
        f"ship: {cut} of {store.path} is not shipped: {reason}"
    ]
    assert ask(path)[1]["ships"] == [{"name": "ship", "store": str(store.path), "refused": [], "cut": [cut]}]


def test_a_process_that_only_started_the_supervisor_is_not_the_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, sudo has the same command line. The command line of a part has the name of the file as it was
    given."""
    config = load(configuration(tmp_path, METRICS, REPORT.format(tmp_path / "reports")))
    monkeypatch.chdir(tmp_path)
    as_given = load(Path("mburst.toml"))
    running = {tuple(part.argv): (9, 10 * SECOND) for part in (*as_given.parts, *as_given.schedule)}
    monkeypatch.setattr(status_of_parts, "_supervisors", lambda: iter([(7, {}), (8, running)]))
    given = status_of_parts.RunCall("mburst.toml", config.path.resolve(), [])
    monkeypatch.setattr(status_of_parts, "_given", lambda supervisor: given)
    found = status_of_parts.read(config)
    assert found.supervisor == 8 and found.unwell() == []


def test_a_file_without_parts_and_a_folder_that_is_not_a_store(tmp_path: Path, ask: Asked) -> None:
    path = configuration(tmp_path, REPORT.format(tmp_path / "reports"))
    _, facts, _ = ask(path)
    assert any(line.startswith(f"{tmp_path / 'store'}: not an mburst store (") for line in facts["unwell"])
    assert main(["status", str(tmp_path / "nothing.toml")]) == 1


def test_what_is_neither_a_store_nor_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(tmp_path / "nostore")]) == 1
    message = "nostore: neither a store nor a configuration (`mburst record … -o STORE` makes a store, "
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("begun_days", [0, 3, 10])
def test_a_missing_report_is_reported(tmp_path: Path, ask: Asked, begun_days: int) -> None:
    """With all racks, these are the racks that were recorded before the period ended, and not too long before it."""
    begun = NOW - begun_days * DAY
    over = recording(begun_ns=begun, start_ns=begun, ended="stopped", complete=True, end_ns=begun + SECOND)
    store_of(tmp_path, over, newest_ns=begun)
    path = configuration(tmp_path, REPORT.format(tmp_path / "reports").replace('["r1"]', '"all"'))
    late = [line for line in ask(path)[1]["unwell"] if line.startswith("report")]
    now = time.gmtime(NOW // SECOND)
    is_due = now.tm_hour * 60 + now.tm_min > 70  # ten minutes and an hour after midnight
    assert bool(late) == (begun_days == 3) or not is_due
    if late:
        assert "no page of r1 is written" in late[0]
        assert main(["schedule", "--once", "daily", str(path)]) == 0
        assert [line for line in ask(path)[1]["unwell"] if line.startswith("report")] == []
        path.write_text(path.read_text().replace('"all"', '["r1", "r9"]'))
        [line] = [line for line in ask(path)[1]["unwell"] if line.startswith("report")]
        assert "no page of r9 is written" in line


def test_failed_deliveries_are_reported(tmp_path: Path, ask: Asked) -> None:
    StoreFolder.create(tmp_path / "store")
    (tmp_path / "reports").mkdir()
    path = configuration(tmp_path, REPORT.format(tmp_path / "reports"))
    with DeliveryLedger(tmp_path / "reports" / DeliveryLedger.NAME) as ledger:
        ledger.say(DeliveryKey("daily", NOW - DAY, NOW, "ops"), FAILED, "no route to host")
        _, facts, _ = ask(path)  # while another process delivers
    [trouble] = [line for line in facts["unwell"] if "delivered" in line]
    assert "was not delivered to ops" in trouble and "no route to host" in trouble


def test_an_unreadable_folder_is_not_taken_for_an_empty_one(tmp_path: Path, ask: Asked) -> None:
    """The other reports are checked nevertheless."""
    store_of(tmp_path, recording())
    (tmp_path / "file").touch()
    names = (REPORT.format(tmp_path / "file"), REPORT.format(tmp_path / "none").replace("daily", "other"))
    path = configuration(tmp_path, *names)
    _, facts, _ = ask(path)
    error = f"{tmp_path / 'file'}: cannot read the reports: Not a directory (check the folder and its rights)"
    assert error in facts["unwell"] and [report["name"] for report in facts["reports"]] == ["other"]
    found = metrics_of(StoreFolder.open(tmp_path / "store"), path)
    assert (found["mburst_status_errors",], found["mburst_unwell",]) == (1, len(facts["unwell"]))
    assert ("mburst_report_late", "other") in found and ("mburst_report_late", "daily") not in found


@pytest.mark.parametrize(("size", "is_over"), [("1k", True), ("1G", False)])
def test_a_store_above_its_size_limit_is_reported(tmp_path: Path, ask: Asked, size: str, is_over: bool) -> None:
    store = store_of(tmp_path / "store", recording())
    (store.path / "packets" / "cache-1" / "eth0").mkdir(parents=True)
    with (store.path / "packets" / "cache-1" / "eth0" / "0000000000-0000000000000000000.pcapng").open("wb") as ring:
        ring.truncate(2 * 10**9)
    path = configuration(tmp_path, f'[keep]\nstore = "{store.path}"\nevery = "1h"\nsize = "{size}"')
    _, facts, text = ask(path)
    [found] = facts["stores"]
    assert found["disk"]["size_limit"] == (1000 if is_over else 10**9) and "and 2 GB of packets; at most" in text
    assert found["disk"]["packets_bytes"] == 2 * 10**9 and found["disk"]["day_bytes"] < 10**6
    assert any("more than the 1 kB that [keep] gives it" in sentence for sentence in facts["unwell"]) == is_over


def test_metrics_of_a_file_have_the_same_facts(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording())
    (tmp_path / "reports").mkdir()
    keep = '[keep]\nevery = "1h"\nsize = "1k"'
    path = configuration(tmp_path, METRICS, keep, REPORT.format(tmp_path / "reports"))
    with DeliveryLedger(tmp_path / "reports" / DeliveryLedger.NAME) as ledger:
        ledger.say(DeliveryKey("daily", NOW - DAY, NOW, "ops"), FAILED, "no route to host")
    _, facts, _ = ask(path)
    found = metrics_of(store, path)
    assert found["mburst_unwell",] == len(facts["unwell"]) > 2
    assert found["mburst_part_running", "metrics"] == found["mburst_part_running", "keep"] == 0
    assert found["mburst_report_late", "daily"] == facts["reports"][0]["is_late"]
    assert (found["mburst_delivery_failures", "daily"], found["mburst_store_limit_bytes",]) == (1, 1000)
    path.write_text("[keep")
    found = metrics_of(store, path)
    assert (found["mburst_unwell",], found["mburst_status_errors",]) == (1, 1)


def test_metrics_of_one_store_count_faults_of_the_others(tmp_path: Path, ask: Asked) -> None:
    """A fault of a store counts once, whichever store the metrics are of."""
    store = store_of(tmp_path, recording())
    other = store_of(tmp_path / "other", recording(ended="killed"), newest_ns=NOW - 400 * SECOND)
    path = configuration(tmp_path, f'[keep]\nstore = "{other.path}"\nevery = "1h"', METRICS)
    _, facts, _ = ask(path)
    assert any("broke off (killed)" in sentence for sentence in facts["unwell"])
    assert [metrics_of(one, path)["mburst_unwell",] for one in (store, other)] == [len(facts["unwell"])] * 2


def test_a_store_under_two_names_counts_once(tmp_path: Path, ask: Asked) -> None:
    store = store_of(tmp_path, recording(ended="killed"), newest_ns=NOW - 400 * SECOND)
    (tmp_path / "link").symlink_to("store")
    path = configuration(tmp_path, f'[keep]\nstore = "{tmp_path / "link"}"\nevery = "1h"\nsize = "1k"', METRICS)
    _, facts, _ = ask(path)
    [found] = facts["stores"]
    assert found["disk"]["size_limit"] == 1000 and sum("broke off" in line for line in facts["unwell"]) == 1
    scraped = metrics_of(store, path)
    assert (scraped["mburst_unwell",], scraped["mburst_store_limit_bytes",]) == (len(facts["unwell"]), 1000)


EVERY_SCRAPE_LOOKS = """
import sys
from mburst.agent.metrics import conditions
from mburst.__main__ import command
conditions.LOOK_S = -1.0
sys.exit(command())
"""


def test_metrics_read_files_that_replaced_those_of_the_start(tmp_path: Path) -> None:
    """The process may read only what it needs (Landlock). This includes a configuration that is replaced by rename, one
    behind a link that is changed to another target (as in Kubernetes), and a folder in it that does not exist yet."""
    StoreFolder.create(tmp_path / "store")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    configuration(tmp_path / "first", METRICS, REPORT.format(tmp_path / "made" / "reports"))
    text = (tmp_path / "first" / "mburst.toml").read_text().replace(str(tmp_path / "first"), str(tmp_path))
    (tmp_path / "first" / "mburst.toml").write_text(text)
    (tmp_path / "mburst.toml").symlink_to("first/mburst.toml")

    def turn(text: str) -> None:
        (tmp_path / "second" / "mburst.toml").write_text(text)
        (tmp_path / "new").symlink_to("second/mburst.toml")
        (tmp_path / "new").rename(tmp_path / "mburst.toml")

    command = ["metrics", "store", "--listen", "127.0.0.1:0", "--config", "mburst.toml"]
    process = subprocess.Popen(
        [sys.executable, "-c", EVERY_SCRAPE_LOOKS, *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = next_line(process).rpartition(" ")[2].strip()

        def scraped() -> list[str]:
            with urllib.request.urlopen(address) as answer:
                lines: list[str] = answer.read().decode().splitlines()
            return lines

        assert {"mburst_status_errors 0.0", 'mburst_part_running{part="metrics"} 0.0'} <= set(scraped())
        turn(f'{text}\n[reflect]\nlisten = "127.0.0.1:8620"')
        assert {"mburst_status_errors 0.0", 'mburst_part_running{part="reflect"} 0.0'} <= set(scraped())
        (tmp_path / "made" / "reports").mkdir(parents=True)
        with DeliveryLedger(tmp_path / "made" / "reports" / DeliveryLedger.NAME) as ledger:
            for to in ("ops", "sales"):
                ledger.say(DeliveryKey("daily", NOW - DAY, NOW, to), FAILED, "no route to host")
        lines = {"mburst_status_errors 0.0", 'mburst_delivery_failures{report="daily"} 2.0'}
        assert lines <= set(scraped())
        turn("[keep")
        assert "mburst_status_errors 1.0" in scraped() and "mburst_status_errors 1.0" in scraped()
    finally:
        process.terminate()
        _, errors = process.communicate()
    assert errors.count("invalid TOML") == 1 and len(errors.splitlines()) == 1

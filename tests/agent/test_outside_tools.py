"""Other programs read what mburst writes: Prometheus reads metrics, rules and the dashboard, systemd reads units."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from places import ROOT
from prometheus_client import CollectorRegistry, generate_latest
from racklib import FULL, HOUR, MS, START, fill
from storelib import rows, write

from mburst.agent.config import load
from mburst.agent.metrics.exporter import Exporter
from mburst.agent.metrics.meter import Meter
from mburst.agent.schedule import timers
from mburst.analysis.bursts.find import BurstDefinition
from mburst.sql import StoreFolder

RULES = ROOT / "examples" / "alerts.yml"
DASHBOARD = json.loads((ROOT / "examples" / "grafana.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
SELECTOR = re.compile(r"\b(mburst_\w+)(?:\{(.*?)\})?")


def tool(name: str, package: str) -> str:
    """Returns the path of a program: the machine's own, or the one that make installed beside the interpreter."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if not found:
        pytest.skip(f"no {name}: apt install {package}")
    return found


@pytest.fixture(scope="module")
def scraped(tmp_path_factory) -> str:
    """What Prometheus scrapes from a store with rows in every table, and from an mburst.toml."""
    folder = tmp_path_factory.mktemp("scraped")
    store = StoreFolder.create(folder / "store")
    keep, report = '[keep]\nevery = "1h"\nsize = "1G"', f'[[report]]\nname = "daily"\noutput = "{folder}"'
    (folder / "mburst.toml").write_text(f'store = "{store.path}"\n{keep}\n{report}\n')
    of_today = {"recording_id": "today", "capture_id": "today", "boot_id": "", "end_ns": time.time_ns()}
    write(store, "recordings", {"start_ns": START, "end_ns": START + 10**9}, of_today)
    write(store, "bins", *({"ts_ns": START + i * MS, "wire_bytes": FULL, "bytes": FULL} for i in range(3)))
    write(store, "probes", *({"seq": i, "tx_ns": START + i, "rx_ns": START + i + 9000} for i in range(1000)))
    write(store, "queues", {"window_start_ns": START, "ts_ns": START + 1, "max_bytes": 77, "dropped_packets": 2})
    write(
        store,
        "gnmi_events",
        {"device": "tor-1", "subscription": "", "ts_ns": START, "event": "sync", "detail": "", "batch": "b"},
    )
    hot = store.writer("bins", "cache-1", "r1")  # a hot log, while it is open
    hot.append(rows("bins", {"ts_ns": START + 10 * MS}))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exporter(Meter(store, BurstDefinition(), START), folder / "mburst.toml"))
    text = generate_latest(registry).decode()
    hot.close()
    return text


def labels_of(scraped: str) -> dict[str, set[str]]:
    """Returns the labels of each metric of a scrape, by sample name. Prometheus adds the labels of the target."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(scraped):
        for sample in family.samples:
            found.setdefault(sample.name, {"instance"}).update(sample.labels)
    return found


def test_promtool_reports_no_problem_in_a_scrape(scraped):
    done = subprocess.run(
        [tool("promtool", "prometheus"), "check", "metrics"], input=scraped, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_finds_the_command_in_its_path(tmp_path):
    """ExecStart runs with the Environment of the unit, as systemd runs it; a folder of the test stands in for
    /opt/mburst."""
    lines = (ROOT / "examples" / "mburst.service").read_text().splitlines()
    settings = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    place, where = next(value for name, value in settings if name == "Environment").split("=", 1)
    assert place == "PATH"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mburst").symlink_to(Path(sys.executable).with_name("mburst"))
    environment = {"PATH": where.replace("/opt/mburst", str(tmp_path))}
    for command in (value for name, value in settings if name.startswith("ExecStart")):
        program, *words = command.split()
        assert program == "/usr/bin/env" and words[:2] == ["mburst", "run"]
        done = subprocess.run([program, "mburst", "run", "--help"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "usage: mburst run" in done.stdout


def test_prometheus_reads_the_rules():
    done = subprocess.run([tool("promtool", "prometheus"), "check", "rules", RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{RULES.read_text().count('- alert:')} rules found" in done.stdout


def test_prometheus_reads_the_dashboards_queries(tmp_path):
    """Each query is checked as if it were a rule."""
    rules = [
        {"record": f"panel:{i}", "expr": query.replace("$__rate_interval", "5m")} for i, query in enumerate(QUERIES)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([tool("promtool", "prometheus"), "check", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_dashboard_and_rules_use_only_metrics_and_labels_of_a_scrape(scraped):
    known = labels_of(scraped)
    variables = [variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable]
    text = "\n".join([*QUERIES, *variables, RULES.read_text()])
    asked = [(name, set(re.findall(r'(\w+)=~?"', labels))) for name, labels in SELECTOR.findall(text)]
    assert len({name for name, _ in asked}) > 12
    for name, labels in asked:
        assert labels <= known[name], name
    for name, label in re.findall(r"label_values\((mburst_\w+).*?, (\w+)\)", text):
        assert label in known[name]
    every = set().union(*known.values())
    for kept in re.findall(r"\bby \((.*?)\)", text):
        assert set(kept.split(", ")) <= every


def test_alerts_name_only_labels_of_their_metric(scraped):
    yaml = pytest.importorskip("yaml")
    known = labels_of(scraped)
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        kept = re.search(r"\bby \((.*?)\)", rule["expr"])
        [name, *_] = (name for name, _ in SELECTOR.findall(rule["expr"]))
        labels = set(kept[1].split(", ")) if kept else known[name]
        assert set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))) <= labels, rule["alert"]


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_systemd_reads_the_units(tmp_path):
    verify = tool("systemd-analyze", "systemd")
    store = StoreFolder.create(tmp_path / "store")
    fill(store, {"a": [(50, 10)]})
    path = tmp_path / "mburst.toml"
    path.write_text(f'store = "{store.path}"\n[[report]]\nname = "daily"\noutput = "{tmp_path}"\ndelay = "{HOUR}ns"\n')
    units = timers.units(load(path), system=True)
    service = (ROOT / "examples" / "mburst.service").read_text()
    for name, text in {**units, "mburst.service": service}.items():
        (tmp_path / name).write_text(text)
    names = [str(tmp_path / name) for name in [*units, "mburst.service"]]
    done = subprocess.run([verify, "verify", *names], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in names:
        if name.endswith(".service"):
            assert exposure(verify, name) <= 2.0, name


def exposure(analyze: str, unit: str) -> float:
    """Returns how systemd rates the confinement of a service: 0 (all that it knows) to 10 (none)."""
    done = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", unit], capture_output=True, text=True, check=True
    )
    return float(re.search(r"Overall exposure level for .*?: ([\d.]+)", done.stdout)[1])


def test_timers_run_as_the_owner_of_the_store(tmp_path):
    store = StoreFolder.create(tmp_path / "store")
    path = tmp_path / "mburst.toml"
    path.write_text(
        f'store = "{store.path}"\n[[report]]\nname = "daily"\noutput = "{tmp_path}/a b"\n'
        f'deliver = "www"\n[[deliver]]\nname = "www"\nkind = "folder"\npath = "{tmp_path}/100%"\n'
    )
    config, name = load(path), "mburst-report-daily.service"
    lines = timers.units(config, system=True)[name].splitlines()
    assert f"User={pwd.getpwuid(os.geteuid()).pw_name}" in lines
    assert f'ReadWritePaths=-{store.path} -"{tmp_path}/a b" -{tmp_path}/100%%' in lines
    assert f"crontab -u {pwd.getpwuid(os.geteuid()).pw_name} " in timers.cron(config)
    if os.geteuid() == 0:
        os.chown(store.path, 64_999, 64_999)
        assert "User=64999" in timers.units(config, system=True)[name].splitlines()
    assert not any(line.startswith("User=") for line in timers.units(config, system=False)[name].splitlines())

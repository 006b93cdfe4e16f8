"""Verbs where nothing but what mburst itself requires is installed: each names its extra, as docs/install.md does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from mburst.__main__ import main

# A program with the command line of mburst that finds no module of any extra.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
real = PathFinder.find_spec
missing = {"PIL", "dns", "google", "grpc", "h11", "obstore", "opentelemetry", "perfetto", "prometheus_client",
           "pyspark", "scapy", "starlette", "textual", "uvicorn", "websockets", "yaml"}
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in missing else real(name, *rest)
from mburst.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
MAIL = """
store = "store"
[[report]]
name = "daily"
every = "day"
output = "reports"
deliver = ["ops"]
[[deliver]]
name = "ops"
kind = "smtp"
host = "mail.example.net"
security = "none"
from = "a@example.net"
to = ["b@example.net"]
"""
# The extra, how docs/install.md names what needs it, and a call.
CALLS = [
    ("demo", "`mburst demo`", "demo --simulate"),
    ("fleet", "`mburst fleet` on Spark", "fleet detect archive -o results --master local[1]"),
    ("gnmi", "`mburst collect`", "collect gnmi.yaml --check"),
    ("gnmi", "`switch-agent`", "switch-agent lo --listen 127.0.0.1:0"),
    ("live", "`mburst live`", "live store --listen 127.0.0.1:0"),
    ("mail", "reports by mail", "run --check mburst.toml"),
    ("metrics", "`mburst metrics`", "metrics store --listen 127.0.0.1:0"),
    ("names", "`mburst names dns`", "names store dns"),
    ("perfetto", "`mburst export`", "export store -o trace.pftrace"),
    ("ship", "`mburst ship` to a bucket", "ship store s3://fleet/mburst"),
    ("top", "`mburst top`", "top store"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with what the calls read."""
    made = tmp_path_factory.mktemp("extras")
    capture = str(ROOT / "examples" / "cache-server" / "cache.pcap.zst")
    assert main(["record", capture, "-o", str(made / "store"), "--link", "1G", "--host", "h", "--rack", "r"]) == 0
    assert main(["ship", str(made / "store"), str(made / "archive")]) == 0
    (made / "gnmi.yaml").write_text("targets: {a: {address: 'x:1'}}\n")
    (made / "mburst.toml").write_text(MAIL)
    return made


@pytest.mark.parametrize(("extra", "feature", "call"), CALLS)
def test_a_verb_without_its_extra_names_it_in_one_line(folder: Path, extra: str, feature: str, call: str) -> None:
    command = [sys.executable, "-c", WITHOUT, *call.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"pip install 'mburst[{extra}]'" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    rows = re.findall(r"^\|(.*)\|(.*)\|$", (ROOT / "docs" / "install.md").read_text("utf-8"), re.M)
    assert [needed for what, needed in rows if feature in what and f"the extra `{extra}`" in needed], feature


def test_the_remedy_where_there_is_no_pip(folder: Path) -> None:
    """As in the Debian package, into which nothing can be installed."""
    program = WITHOUT.replace('"PIL"', '"pip", "PIL"')
    command = [sys.executable, "-c", program, "export", "store", "-o", "trace.pftrace"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no pip is here: `pip install 'mburst[perfetto]'` in a virtual" in done.stderr


def test_each_extra_of_the_page_is_tried() -> None:
    named = set(re.findall(r"the extra `(\w+)`", (ROOT / "docs" / "install.md").read_text("utf-8")))
    assert named == {extra for extra, _, _ in CALLS}

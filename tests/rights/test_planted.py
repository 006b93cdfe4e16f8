"""Modules in the current folder are not imported: otherwise whoever can write there could run code as the user of
mburst."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from frames import START_NS, Frame, pcap
from places import ROOMS, ROOT

from mburst.agent.config import load
from mburst.agent.schedule import timers
from mburst.errors import MburstError
from mburst.lab import selftest
from mburst.lab.rack.role import Role
from mburst.process import python
from mburst.sql import StoreFolder

# Modules of the standard library that mburst imports early, and some that only its own packages should provide.
PLANTED = ["json", "argparse", "ctypes", "socket", "mburst", "sitecustomize", "usercustomize"]
SAFE = [sys.executable, "-P", "-m", "mburst"]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with modules that leave a mark when they are imported."""
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(
            f'with open({str(tmp_path / "mark")!r}, "a") as file:\n    file.write("{name}\\n")\n'
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return tmp_path


def assert_unmarked(folder: Path) -> None:
    assert not (folder / "mark").exists(), (folder / "mark").read_text()


def test_the_planted_modules_are_imported_without_p(planted):
    """Without the option -P they are imported; otherwise these tests would show nothing."""
    subprocess.run([sys.executable, "-m", "mburst", "--version"], capture_output=True, check=False)
    assert "json" in (planted / "mark").read_text() or "mburst" in (planted / "mark").read_text()


def test_the_command_imports_no_planted_module(planted):
    done = subprocess.run(python.command("mburst", "--version"), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("mburst ")
    assert_unmarked(planted)


def test_parts_of_run_import_no_planted_module(planted):
    StoreFolder.create(planted / "store")
    (planted / "some.pcap").write_bytes(pcap([Frame(START_NS, 1, 100)]))
    (planted / "mburst.toml").write_text('store = "store"\n[record]\ninputs = ["some.pcap"]\n')
    done = subprocess.run([*SAFE, "run"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "recorded into" in done.stdout
    assert_unmarked(planted)


@pytest.mark.parametrize("printed", ["systemd", "cron"])
def test_the_commands_of_schedulers_import_no_planted_module(planted, printed):
    StoreFolder.create(planted / "store")
    (planted / "mburst.toml").write_text(
        'store = "store"\n[[report]]\nname = "daily"\nracks = ["r1"]\noutput = "out"\n'
    )
    config = load(planted / "mburst.toml")
    if printed == "cron":
        line = timers.cron(config).splitlines()[-1].split(maxsplit=5)[5]
        command = ["sh", "-c", line]
    else:
        [unit] = [text for name, text in timers.units(config, system=True).items() if name.endswith(".service")]
        [line] = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
        command = shlex.split(line.partition("=")[2])
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert list((planted / "out").glob("rack-r1-*.html"))
    assert_unmarked(planted)


def test_the_self_test_imports_no_planted_module(planted):
    try:
        selftest.run()
    except MburstError as error:
        assert "no self-test" in str(error)
    assert_unmarked(planted)


def test_programs_of_the_rack_import_no_planted_module(planted):
    role = Role("gather", 10.0)
    try:
        with pytest.raises(Exception, match="gather"):
            role.wait_ready()  # it gets no input that it could work with
    finally:
        role.close()
    assert_unmarked(planted)


def test_only_one_module_starts_this_python():
    """`sys.executable` is used only where the command is made, and where the doctor says which file needs
    capabilities."""
    named = set()
    for path in [path for room in ("mburst", *ROOMS) for path in (ROOT / room).rglob("*.py")]:
        tree = ast.parse(path.read_text())
        if any(isinstance(node, ast.Attribute) and node.attr == "executable" for node in ast.walk(tree)):
            named.add(os.fspath(path.relative_to(ROOT)))
    assert named == {"mburst/process/python.py", "mburst/cli/doctor.py"}

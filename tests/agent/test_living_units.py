"""A running systemd runs the unit of examples/ and the units that `mburst schedule` installs."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from livingunit import CONFIGURATION, STORE, UNIT, processes, works
from machine import Machine, NoMachine
from places import ROOT
from privilegelib import status, threads
from racklib import DAY, fill

from mburst.capture import backends
from mburst.sql import StoreFolder

LOG = "/run/mburst.log"
SCHEDULED = """
store = "/srv/other/store"
[[report]]
name = "daily"
output = "/srv/other/reports of all"
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    try:
        with Machine() as made:
            made.write(f"/etc/systemd/system/{UNIT}", (ROOT / "examples" / UNIT).read_text())
            # Only the log file and the waiting times differ from the published unit.
            for name, more in ((UNIT, "RestartSec=100ms\nWatchdogSec=10\n"), ("mburst-report-.service", "")):
                made.write(
                    f"/etc/systemd/system/{name}.d/test.conf",
                    f"[Service]\nStandardOutput=append:{LOG}\nStandardError=inherit\n{more}",
                )
            made.write("/etc/mburst/mburst.toml", CONFIGURATION)
            made.check("systemctl", "daemon-reload")
            yield made
    except NoMachine as reason:
        pytest.skip(f"no machine with a systemd in this one: {reason}")


def test_the_unit_runs_confined_is_restarted_and_ends_cleanly(machine):
    machine.check("systemctl", "start", UNIT)
    machine.wait(lambda: works(machine), "all parts")
    before = processes(machine)
    user = machine.check("id", "--user", "mburst").strip()
    for part, pid in before.items():
        for thread in threads(pid):
            assert thread["Uid"].split() == 4 * [user] and (thread["NoNewPrivs"], thread["Seccomp"]) == ("1", "2"), part
        place = f"/proc/{pid}/root"
        mounts = Path(f"/proc/{pid}/mounts").read_text().splitlines()
        assert any(line.split()[1] == "/" and "ro" in line.split()[3].split(",") for line in mounts), part
        assert list(Path(place, "home").iterdir()) == [] and not Path(place, "dev", "kmsg").exists()

    for name in ("record", "run"):  # `run` restarts the part, systemd restarts `run`
        machine.check("kill", "-KILL", status(before[name])["NSpid"].split()[-1])
        machine.wait(lambda name=name: processes(machine).get(name, before[name]) != before[name], f"another {name}")
        machine.wait(lambda: works(machine), "all parts again")
    assert machine.shown(UNIT, "NRestarts") == {"NRestarts": "1"}

    before = processes(machine)  # only the part with changed settings is restarted
    machine.write("/etc/mburst/mburst.toml", CONFIGURATION.replace(":9620", ":9621"))
    machine.check("systemctl", "reload", UNIT)
    machine.wait(lambda: processes(machine).get("metrics", before["metrics"]) != before["metrics"], "other metrics")
    machine.wait(lambda: works(machine), "all parts after a reload")
    assert {part for part, pid in processes(machine).items() if pid != before[part]} == {"metrics"}
    everything = {"StatusText": "5 of 5 parts run"}
    machine.wait(lambda: machine.shown(UNIT, "StatusText") == everything, "the status of all parts")

    machine.check("kill", "-STOP", status(before["run"])["NSpid"].split()[-1])  # systemd gets no sign of life any more
    machine.wait(lambda: processes(machine).get("run", before["run"]) != before["run"], "another run")
    machine.wait(lambda: works(machine), "all parts again")
    assert machine.shown(UNIT, "NRestarts") == {"NRestarts": "2"}

    machine.check("systemctl", "stop", UNIT)
    assert machine.shown(UNIT, "Result", "ExecMainStatus", "ActiveState") == {
        "Result": "success",
        "ExecMainStatus": "0",
        "ActiveState": "inactive",
    }
    assert not list(machine.at(STORE).glob("hot/*/*.log"))  # every segment is sealed
    with StoreFolder.open(machine.at(STORE)).connect() as con:
        ended = [row[0] for row in con.execute("SELECT ended FROM recordings ORDER BY begun_ns").fetchall()]
    first, *others, last = ended
    assert (first, last) == ("killed", "stopped")  # killed itself; ended cleanly
    assert set(others) <= {"killed", "stopped"}  # when `run` was killed: by systemd, or by SIGTERM before that
    log = machine.at(LOG).read_text()
    assert f"record: recorded into {STORE}" in log and "reflect: answered" in log
    assert "Traceback" not in log and "cannot" not in log and "not permitted" not in log


PINNED = """
store = "/var/lib/mburst/pinned"
[record]
inputs = ["wire"]
backend = "ebpf"
pin = true
hook = "xdp"
"""


def test_a_pinned_program_counts_on_between_two_recorders(machine):
    """With the lines of the unit that pinning needs uncommented. The kernel's ids of the attached programs stay the
    same."""
    [state] = [state for state in backends(None) if state["name"] == "ebpf"]
    if state["reason"]:
        pytest.skip(f"this machine cannot count in the kernel: {state['reason']}")
    unit = (ROOT / "examples" / UNIT).read_text().splitlines()
    lines = [line[1:] for line in unit if line.startswith("#") and "/sys/fs/bpf" in line]
    assert len(lines) == 2
    drop_in = f"/etc/systemd/system/{UNIT}.d/pin.conf"

    def reads() -> bool:
        """Whether the recorder has begun: it has dropped its rights by then."""
        recorder = processes(machine).get("record")
        try:
            return recorder is not None and not status(recorder)["CapEff"].strip("0")
        except FileNotFoundError:  # it has ended since
            return False

    def attached() -> list[str]:
        return re.findall(r"prog/xdp id (\d+)", machine.check("ip", "-d", "link", "show", "wire"))

    machine.check("mount", "-t", "bpf", "-o", "mode=700", "bpf", "/sys/fs/bpf")
    try:
        machine.write(drop_in, "\n".join(["[Service]", *lines, ""]))
        machine.write("/etc/mburst/mburst.toml", PINNED)
        machine.check("systemctl", "daemon-reload")
        machine.check("systemctl", "start", UNIT)
        machine.wait(attached, "a recorder")
        machine.wait(reads, "it to read")
        before = attached()
        machine.check("systemctl", "restart", UNIT)
        machine.wait(reads, "the next recorder")
        machine.wait(
            lambda: "a recorder reads" in machine.run("mburst", "doctor", "--no-self-test").stdout, "it to read"
        )
        machine.check("systemctl", "stop", UNIT)
        assert attached() == before
        machine.check("rm", "-r", "/sys/fs/bpf/mburst")
        assert attached() == []
    finally:
        machine.check("systemctl", "stop", UNIT)
        machine.check("umount", "/sys/fs/bpf")
        machine.at(drop_in).unlink()
        machine.write("/etc/mburst/mburst.toml", CONFIGURATION)
        machine.check("systemctl", "daemon-reload")
    with StoreFolder.open(machine.at("/var/lib/mburst/pinned")).connect() as con:
        notes = con.execute("SELECT notes FROM recordings ORDER BY begun_ns").fetchall()
    assert "read on from where the recorder before it ended" in notes[-1][0]


def test_the_installed_units_make_a_report(machine, tmp_path):
    made = StoreFolder.create(tmp_path / "store")
    fill(made, {"a": [(50, 10)]}, start=(time.time_ns() // DAY - 1) * DAY)
    shutil.copytree(made.path, machine.at("/srv/other/store"))
    machine.write("/srv/other/mburst.toml", SCHEDULED)
    machine.check("chown", "--recursive", "games:games", "/srv/other")
    machine.check("env", "--chdir=/srv/other", "mburst", "schedule", "mburst.toml")
    assert machine.shown("mburst-report-daily.timer", "ActiveState") == {"ActiveState": "active"}
    machine.check("systemctl", "start", "mburst-report-daily.service")
    assert machine.shown("mburst-report-daily.service", "Result", "ExecMainStatus", "User") == {
        "Result": "success",
        "ExecMainStatus": "0",
        "User": "games",
    }
    pages = list(machine.at("/srv/other/reports of all").glob("rack-*.html"))
    assert [page.stat().st_mode & 0o777 for page in pages] == [0o640]
    machine.check("env", "--chdir=/srv/other", "mburst", "schedule", "--remove", "mburst.toml")
    assert not list(machine.at("/etc/systemd/system").glob("mburst-report-daily*"))

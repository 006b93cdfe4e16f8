"""The Debian package: installed, started, upgraded and purged under a living systemd; and in a fresh Debian, by apt."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from chroots import Chroot
from livingunit import CONFIGURATION, STORE, UNIT, processes, works
from machine import BareMachine, NoMachine
from places import ROOT
from verb_parsers import parsers

from mburst.sql import StoreFolder

# Where a package may leave something; what others write meanwhile is not looked at.
LOOKED_AT = ["/etc", "/lib/systemd", "/opt", "/usr", "/var"]
OTHERS = ("/var/lib/dpkg/", "/var/log/", "/var/cache/", "/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-")
# What is kept beside bytecode (mburst/kept.py), as find looks for it.
KEPT = ["-path", "*/site-packages/mburst/*/__pycache__/*", "!", "-name", "*.pyc"]
# Where shells look for a command's completion, and a call whose answer has the verb.
COMPLETIONS = {
    "bash": (
        "usr/share/bash-completion/completions/mburst",
        "COMP_WORDS=(mburst what); COMP_CWORD=1; . $0; _shtab_mburst; echo ${COMPREPLY[@]}",
    ),
    "zsh": (
        "usr/share/zsh/vendor-completions/_mburst",
        "_arguments() { :; }; _describe() { print -l ${(P)2}; }; . $0; _shtab_mburst_commands",
    ),
    "fish": (
        "usr/share/fish/vendor_completions.d/mburst.fish",
        "source $argv[1]; complete --do-complete 'mburst what'",
    ),
}


@pytest.fixture(scope="module")
def newer(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same package, of a later version."""
    folder = tmp_path_factory.mktemp("newer")
    subprocess.run(["dpkg-deb", "-R", deb, folder / "tree"], check=True)
    control = folder / "tree" / "DEBIAN" / "control"
    text = control.read_text("utf-8")
    version = text.partition("\nVersion: ")[2].partition("\n")[0]
    control.write_text(text.replace(f"\nVersion: {version}\n", f"\nVersion: {version}+later\n"), "utf-8")
    subprocess.run(["dpkg-deb", "-Znone", "-b", folder / "tree", folder / "newer.deb"], check=True, capture_output=True)
    shutil.rmtree(folder / "tree")
    return folder / "newer.deb"


@pytest.fixture(scope="module")
def machine(deb: Path, newer: Path) -> Iterator[BareMachine]:
    try:
        with BareMachine() as made:
            for path in (deb, newer):
                shutil.copy(path, made.at("/tmp"))
            made.run("rm", "-f", "/usr/sbin/policy-rc.d")  # with which images of containers start nothing
            yield made
    except NoMachine as reason:
        pytest.skip(f"no machine with a systemd in this one: {reason}")


def files(machine: BareMachine) -> set[str]:
    """What is there."""
    found = machine.check("find", *LOOKED_AT, "-xdev").splitlines()
    return {path for path in found if not path.startswith(OTHERS)}


def state(machine: BareMachine) -> tuple[str, str]:
    """Whether the unit is enabled, and whether it runs."""
    return tuple(machine.run("systemctl", word, UNIT).stdout.strip() for word in ("is-enabled", "is-active"))


def test_it_is_installed_started_upgraded_and_purged(machine: BareMachine, deb: Path, newer: Path) -> None:
    before = files(machine)
    machine.check("dpkg", "--install", f"/tmp/{deb.name}")
    assert state(machine) == ("disabled", "inactive")  # nobody asked for a capture yet
    places = ["/etc/mburst", "/etc/mburst/mburst.toml", "/var/lib/mburst"]
    assert machine.check("stat", "--format", "%a %U %G", *places).splitlines() == [
        "750 root mburst",
        "640 root mburst",
        "750 mburst mburst",
    ]
    machine.check("runuser", "-u", "mburst", "--", "mburst", "run", "--check", "/etc/mburst/mburst.toml")
    newer_ones = ["-newer", "/tmp/" + deb.name, "(", "-name", "*.pyc", "-o", *KEPT, ")"]
    assert not machine.check("find", "/opt/mburst", *newer_ones)  # all is compiled

    machine.at("/etc/mburst/mburst.toml").write_text(CONFIGURATION)
    machine.check("systemctl", "enable", "--now", UNIT)
    machine.wait(lambda: works(machine), "all parts")
    first = processes(machine)

    machine.check("dpkg", "--install", f"/tmp/{newer.name}")
    assert state(machine) == ("enabled", "active")
    machine.wait(lambda: works(machine), "all parts of the newer version")
    assert set(first.values()).isdisjoint(processes(machine).values())
    assert machine.at("/etc/mburst/mburst.toml").read_text() == CONFIGURATION

    machine.check("dpkg", "--remove", "mburst")
    assert not processes(machine) and machine.at("/etc/mburst/mburst.toml").exists()
    machine.check("dpkg", "--purge", "mburst")
    left = files(machine) - before
    assert left and all(path == "/var/lib/mburst" or path.startswith(f"{STORE}") for path in left), left
    with StoreFolder.open(machine.at(STORE)).connect() as con:
        ended = con.execute("SELECT DISTINCT capture_id, ended FROM recordings").fetchall()
    assert [how for _, how in ended] == ["stopped", "stopped"]  # both cleanly


def test_without_stores_a_purge_leaves_nothing(machine: BareMachine, deb: Path) -> None:
    shutil.rmtree(machine.at("/var/lib/mburst"), ignore_errors=True)
    before = files(machine)
    machine.check("dpkg", "--install", f"/tmp/{deb.name}")
    machine.check("mburst", "--version")
    machine.check("dpkg", "--purge", "mburst")
    assert files(machine) == before


def test_each_command_has_a_man_page(deb: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", deb, tmp_path], check=True)
    pages = {path.name for path in (tmp_path / "usr/share/man/man1").iterdir()}
    assert pages == {f"{command.replace(' ', '-')}.1.gz" for command in parsers()}
    if not shutil.which("man"):
        pytest.skip("needs man")
    for page in pages:
        done = subprocess.run(
            ["man", "--warnings", "-l", tmp_path / "usr/share/man/man1" / page],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"},
        )
        assert done.returncode == 0 and "NAME" in done.stdout and not done.stderr, (page, done.stderr)


@pytest.mark.parametrize("shell", COMPLETIONS)
def test_shells_complete_verbs(shell: str, deb: Path, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    subprocess.run(["dpkg-deb", "-x", deb, tmp_path], check=True)
    name, ask = COMPLETIONS[shell]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([shell, "-c", ask, tmp_path / name], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "what-if" in done.stdout, done


def test_apt_installs_it_in_a_fresh_debian(deb: Path, tmp_path: Path) -> None:
    system = Chroot(tmp_path / "root", "bookworm")
    shutil.copy(deb, system.root / "tmp")
    shutil.copy(ROOT / "examples" / "cache-server" / "cache.pcap.zst", system.root / "tmp")
    system.check("apt-get", "-qq", "update")
    system.check("apt-get", "-qq", "install", "-y", "--no-install-recommends", f"/tmp/{deb.name}")
    kept = system.check("find", "/opt/mburst", *KEPT)
    assert len(kept.splitlines()) == 3  # two databases, and plotly
    system.check("mburst", "record", "/tmp/cache.pcap.zst", "-o", "/var/lib/mburst/store", "--link", "1G")
    assert "bursts in 5 s" in system.check("mburst", "bursts", "/var/lib/mburst/store", "--bin", "1ms")
    system.check("mburst", "report", "/var/lib/mburst/store", "-o", "/tmp/report")
    assert system.check("find", "/opt/mburst", *KEPT) == kept
    system.check("apt-get", "-qq", "purge", "-y", "mburst")
    assert not (system.root / "opt" / "mburst").exists() and not (system.root / "etc" / "mburst").exists()
    assert (system.root / "var/lib/mburst/store").exists()

"""A machine with its own systemd: namespaces of everything, and a copy-on-write view of this machine's files; with
mburst in /opt/mburst, where the units look for it, or without. Nothing that is done in it remains: what is not in a
namespace (the kernel's variables) can only be read, and systemd starts only what it is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from places import ROOT

SYSTEMD = Path("/lib/systemd/systemd")
WAIT_S = 120

# $1: an empty folder. The script becomes systemd, process 1 of its own namespaces.
_BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"; cd "$1"; mkdir up work root
mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work root
mount -t proc proc root/proc
mount --bind root/proc/sys root/proc/sys; mount -o remount,bind,ro root/proc/sys
mount -t sysfs -o ro sysfs root/sys
mount -t cgroup2 cgroup2 root/sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs root/$folder; done
chmod 1777 root/tmp
for device in null zero full random urandom tty; do
    touch root/dev/$device; mount --bind /dev/$device root/dev/$device
done
touch console root/dev/console; mount --bind console root/dev/console
mkdir -p root/dev/shm
mount -t tmpfs tmpfs root/dev/shm
ln -s /proc/self/fd root/dev/fd; ln -s pts/ptmx root/dev/ptmx
printf '%s' "$MOUNTS" | while IFS='	' read -r from to; do mkdir -p "root$to"; mount --bind "$from" "root$to"; done
ip link set lo up
ip link add wire type veth peer name far
ip link set wire up; ip link set far up
mkdir root/run/before
cd root; pivot_root . run/before; umount -l /run/before; rmdir /run/before
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
rm -rf /etc/fstab /etc/systemd/system/*.wants /lib/systemd/system/*.wants /lib/systemd/system-generators
printf '[Unit]\\nDefaultDependencies=no\\n' > /etc/systemd/system/alone.target
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin "$SYSTEMD" --system --unit=alone.target
"""

# Makes a virtual environment in /opt/mburst, of this Python and its installed packages, wherever these are.
_INSTALL = """
set -e
cd /opt/mburst; mkdir -p bin lib/python$VERSION/site-packages own
ln -s ../base/bin/python$VERSION bin/python3
ln -s ../tree/mburst own/mburst
echo 'home = /opt/mburst/base/bin' > pyvenv.cfg
printf '/opt/mburst/own\\n/opt/mburst/site\\n' > lib/python$VERSION/site-packages/mburst.pth
printf '#!/opt/mburst/bin/python3\\nfrom mburst.__main__ import entry\\nentry()\\n' > bin/mburst
chmod 755 bin/mburst
[ "$OUTER" = /usr ] || { echo /opt/mburst/base/lib > /etc/ld.so.conf.d/0-mburst.conf; ldconfig; }
useradd --system --no-create-home mburst
"""


class NoMachine(Exception):
    """This machine cannot contain another one."""


def _cgroups() -> Path:
    """Returns the folder of this process in the hierarchy of cgroups, version 2."""
    found = subprocess.run(
        ["findmnt", "--noheadings", "--output", "TARGET", "--types", "cgroup2", "--first-only"],
        capture_output=True,
        text=True,
    )
    own = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")), "")
    if found.returncode or not own:
        raise NoMachine("no cgroups of version 2 are mounted")
    return Path(found.stdout.strip()) / own.lstrip("/")


class BareMachine:
    """A machine without mburst, for the duration of the block. Raises NoMachine if it cannot be made."""

    mounts: ClassVar[dict[str, str]] = {}  # folders of this machine, by their path in the other

    def _prepare(self) -> None:
        """Prepares the machine before its first use."""

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not SYSTEMD.exists() or not shutil.which("unshare"):
            raise NoMachine("needs root, systemd and unshare")
        self.folder = Path(tempfile.mkdtemp(prefix="mburst-test-machine-"))
        self.group = _cgroups() / self.folder.name
        try:
            self.group.mkdir()
            self._start()
            self._prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        words = [
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--net",
            "--uts",
            "--ipc",
            "--cgroup",
            "sh",
            "-c",
            _BOOT,
            "sh",
            str(self.folder),
        ]
        mounts = "".join(f"{source}\t{place}\n" for place, source in self.mounts.items())
        group = str(self.group / "cgroup.procs")
        with (self.folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", f'echo $$ > {group}; exec "$@"', "sh", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "MOUNTS": mounts, "SYSTEMD": str(SYSTEMD)},
            )
        self.wait(self._is_up, "systemd")

    def _is_up(self) -> bool:
        if self._process.poll() is not None:
            raise NoMachine(((self.folder / "log").read_text().strip().splitlines() or ["it ended"])[-1])
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self._init = children[0] if children else ""
        if not self._init or Path(f"/proc/{self._init}/comm").read_text() != "systemd\n":
            return False
        return self.run("systemctl", "is-active", "alone.target").returncode == 0

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "_process"):
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder)
        folders = [Path(folder) for folder, _, _ in os.walk(self.group, topdown=False)]
        end = time.monotonic() + WAIT_S
        for folder in folders:  # which the kernel removes only after its processes have ended
            while folder.exists() and time.monotonic() < end:
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.02)

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in the machine, as root."""
        enter = ["nsenter", "--target", self._init, "--all", "--root", "--wd", "--"]
        environment = {"PATH": "/opt/mburst/bin:/usr/sbin:/usr/bin:/sbin:/bin", **variables}
        return subprocess.run(
            [*enter, *words], capture_output=True, text=True, env=environment, timeout=WAIT_S, stdin=subprocess.DEVNULL
        )

    def check(self, *words: str, **variables: str) -> str:
        """Returns the output of a command that must succeed."""
        done = self.run(*words, **variables)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout

    def at(self, path: str) -> Path:
        """Returns the path in this machine of a path of the other machine."""
        return Path(f"/proc/{self._init}/root{path}")

    def write(self, path: str, text: str) -> None:
        """Writes a file in the machine."""
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text)

    def shown(self, unit: str, *names: str) -> dict[str, str]:
        """Returns properties of a unit."""
        text = self.check("systemctl", "show", unit, "--property", ",".join(names))
        return dict(line.split("=", 1) for line in text.splitlines())

    @staticmethod
    def wait(condition: Callable[[], object], what: str) -> None:
        """Waits until CONDITION holds."""
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, f"{what} did not come"
            time.sleep(0.05)


class Machine(BareMachine):
    """A machine with this tree's mburst in /opt/mburst."""

    mounts: ClassVar = {
        "/opt/mburst/tree": str(ROOT),
        "/opt/mburst/base": sys.base_prefix,
        "/opt/mburst/site": sysconfig.get_path("purelib"),
    }

    def _prepare(self) -> None:
        self.version = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.check("sh", "-c", _INSTALL, VERSION=self.version, OUTER=sys.base_prefix)

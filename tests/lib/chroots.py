"""Fresh Debian systems without a compiler, below a folder. Programs run there as root, with the network of this machine
or with only a veth pair."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

LONGEST_S = 600

# $1: the root. Everything that this script makes (mounts, processes, the pair) is gone when the command ends.
_ENTER = """
set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount --rbind /dev "$1/dev"
if [ "$PAIR" ]; then
    ip link set lo up; ip link add wire type veth peer name far; ip link set wire up; ip link set far up
fi
root=$1; shift
exec chroot "$root" "$@"
"""


@functools.cache
def _least(suite: str) -> Path:
    """The minimal system of a release, made once for each run."""
    folder = Path(tempfile.mkdtemp(prefix="mburst-test-debian-"))
    atexit.register(shutil.rmtree, folder)
    words = ["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, str(folder / suite)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S)
    if done.returncode:
        pytest.skip(f"debootstrap cannot make {suite}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
    return folder / suite


class Chroot:
    """A new system of a release (a suite of Debian), with PACKAGES in addition to the minimum."""

    def __init__(self, root: Path, suite: str, *packages: str) -> None:
        if missing():
            pytest.skip(missing())
        self.root = root
        subprocess.run(["cp", "--archive", "--reflink=auto", _least(suite), root], check=True)
        for name in ("/etc/resolv.conf", "/etc/hosts", *filter(None, [os.environ.get("PIP_CERT")])):
            (root / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, root / name.lstrip("/"))
        if packages:
            self.check("apt-get", "-qq", "-o", "Acquire::Check-Valid-Until=no", "update")  # a mirror may be out of date
            self.check("apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages)

    def run(self, *words: str, pair: bool = False) -> subprocess.CompletedProcess[str]:
        """Runs a command there; with PAIR in its own network, with the interfaces `wire` and `far`."""
        own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *(["--net"] if pair else [])]
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "DEBIAN_FRONTEND": "noninteractive",
            **kept,
            "PAIR": "yes" if pair else "",
        }
        return subprocess.run(
            [*own, "sh", "-c", _ENTER, "sh", str(self.root), *words],
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )

    def check(self, *words: str, pair: bool = False) -> str:
        """Returns the output of a command that must succeed."""
        done = self.run(*words, pair=pair)
        assert done.returncode == 0, (words, done.stdout + done.stderr)
        return done.stdout


def missing() -> str:
    """Returns the reason why there can be no such system here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root"
    lacking = [name for name in ("debootstrap", "unshare", "ip") if not shutil.which(name)]
    return f"needs {', '.join(lacking)}" if lacking else ""

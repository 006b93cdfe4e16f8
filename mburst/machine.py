"""Facts of the kernel about this machine: its boot id and its memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMORY = Path("/proc/meminfo")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Returns an id that differs after every start of the machine, '' if it is hidden (for example by systemd's
    ProcSubset=pid)."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def was_restarted(boot: str | None) -> bool:
    """Whether the machine was restarted since its boot id was BOOT, or is another machine. False if that is not
    known."""
    return bool(boot) and boot_id() not in ("", boot)


def available_memory() -> int:
    """Returns the bytes that this process may still use: those free on the machine, or fewer if its cgroup has less. If
    the free memory is not known (systemd's ProcSubset=pid hides it), all of the machine's memory counts as free."""
    try:
        lines = MEMORY.read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except OSError:
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([free, *_left_in_cgroup()])


def _left_in_cgroup() -> Iterator[int]:
    """Yields the bytes that each limited cgroup (version 2) of this process may still use."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = CGROUPS / next(line[3:].strip("/") for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return
    for folder in (own, *own.parents):
        try:
            most, now, stat = (
                (folder / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current", "stat")
            )
            kept = next(int(line.split()[1]) for line in stat.splitlines() if line.startswith("inactive_file "))
            yield max(0, int(most) - int(now) + kept)  # plus cached files, which the kernel drops on demand
        except (OSError, ValueError, StopIteration):  # "max", or no limit
            continue


def own_memory() -> int:
    """Returns the bytes of memory that this process uses."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

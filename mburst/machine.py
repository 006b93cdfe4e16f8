"""What the kernel says of this machine: which run of it this is, and its memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMORY = Path("/proc/meminfo")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Another one after every start of the machine; '' where it is hidden (as by systemd's ProcSubset=pid)."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def was_restarted(boot: str | None) -> bool:
    """Whether the machine was started anew since its boot id was BOOT, or is another one. False where that is not
    known."""
    return bool(boot) and boot_id() not in ("", boot)


def available_memory() -> int:
    """Bytes that this process may still take: of the machine, and of its cgroup where that has less. All of the
    machine's where it does not say what is free (systemd's ProcSubset=pid hides that)."""
    try:
        lines = MEMORY.read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except OSError:
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([free, *_left_in_cgroup()])


def _left_in_cgroup() -> Iterator[int]:
    """Bytes that each cgroup (version 2) of this process may still take, where it is bounded."""
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
            yield max(0, int(most) - int(now) + kept)  # files that the kernel gives up when memory is wanted
        except (OSError, ValueError, StopIteration):  # "max", or no such bound
            continue


def own_memory() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

"""What tells one run of the machine from another: the kernel's boot id."""

from __future__ import annotations

from pathlib import Path

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

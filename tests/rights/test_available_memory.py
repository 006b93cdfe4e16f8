"""How much memory a process can still take, according to the kernel and to its cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from mburst import machine

MB = 1 << 20


@pytest.mark.parametrize(
    "most, now, files, left",
    [("100", 60, 0, 40), ("100", 100, 30, 30), ("100", 110, 0, 0), ("max", 60, 0, None), (None, 0, 0, None)],
)
def test_available_memory_of_a_cgroup_is_unused_and_reclaimable_memory(
    tmp_path: Path, monkeypatch, most, now, files, left
):
    """The parameters are MB: the limit of a cgroup, its use, and its use for files that the kernel can drop."""
    own = tmp_path / Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2].strip("/")
    own.mkdir(parents=True, exist_ok=True)
    if most:
        (own / "memory.max").write_text(f"{most if most == 'max' else int(most) * MB}\n")
        (own / "memory.current").write_text(f"{now * MB}\n")
        (own / "memory.stat").write_text(f"anon 5\ninactive_file {files * MB}\nactive_file 7\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    free = machine.available_memory()
    assert free > 200 * MB if left is None else free == left * MB

"""The ring of packets on a disk that fills up: it is given up before senders and bins are."""

from __future__ import annotations

import signal
from pathlib import Path

from keptlib import counted, incast, keeping, ring_files
from livelab import Lab
from mounts import tmpfs
from waiting import wait_for


def test_bins_are_recorded_without_the_ring_on_a_full_disk(lab: Lab, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "size=24m") as folder:
        with keeping(lab, folder / "store", "--reserve", "8MB", "--snaplen", "2000") as recorder:
            incast(lab)
            wait_for(lambda: ring_files(folder / "store"), "a file")
            (folder / "filler").write_bytes(b"x" * 16_000_000)
            incast(lab)
            wait_for(lambda: not ring_files(folder / "store"), "the ring to give way")
            incast(lab)
            recorder.send_signal(signal.SIGINT)
            output, errors = recorder.communicate(timeout=60)
        assert "packets are not kept: the disk has too little room; bins go on" in errors
        assert "packets were not" in output and "senders are summed up" not in errors
        assert counted(folder / "store") == 600

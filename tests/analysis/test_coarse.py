"""Bins that are finer than the stamps are refused unless the user insists."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from storelib import write

from mburst.__main__ import main
from mburst.analysis.model.coarse import refuse_coarse
from mburst.errors import MburstError
from mburst.sql import StoreFolder

US = 1000
T0 = 1_700_000_000_000_000_000
SW, RING, FILE_US, DROPS = 2, 4, 8, 32


def recorded(tmp_path: Path, bin_ns: int, qualities: list[int], **run: Any) -> StoreFolder:
    store = StoreFolder.create(tmp_path / "store")
    whole = 0
    for quality in qualities:
        whole |= quality
    write(store, "recordings", {"bin_ns": bin_ns, "quality": whole, **run})
    write(
        store,
        "bins",
        *({"ts_ns": T0 + i * bin_ns, "wire_bytes": 1000, "quality": quality} for i, quality in enumerate(qualities)),
    )
    return store


@pytest.mark.parametrize(("bin_ns", "qualities", "refused"), [
    (10 * US, [SW] * 10, False),
    (10 * US, [FILE_US] * 10, True),
    (10 * US, [RING] * 10, True),
    (10 * US, [SW | RING | DROPS] * 6 + [SW] * 4, True),
    (10 * US, [RING] * 5 + [SW] * 5, False),  # half are not most
    (50 * US, [RING] * 10, True),
    (100 * US, [RING] * 10, False),
    (10 * US, [], False),
])  # fmt: skip
def test_bins_finer_than_most_of_their_stamps_are_refused(
    tmp_path: Path, bin_ns: int, qualities: list[int], refused: bool
) -> None:
    store = recorded(tmp_path, bin_ns, qualities)
    if not refused:
        refuse_coarse(store.connect())
        return
    with pytest.raises(MburstError, match="cache-1 eth0 in: most frames are stamped late") as failure:
        refuse_coarse(store.connect())
    assert "--force" in failure.value.hint and "--bin 100us" in failure.value.hint
    refuse_coarse(store.connect(), 100 * US)


def test_a_killed_recording_is_checked_by_its_bins(tmp_path: Path) -> None:
    store = recorded(tmp_path, 10 * US, [RING] * 10, quality=0, complete=False)
    with pytest.raises(MburstError):
        refuse_coarse(store.connect())


def test_only_bins_of_the_selection_count(tmp_path: Path) -> None:
    """One recording has five coarse bins, then five fine ones; another recording is fine throughout."""
    store = recorded(tmp_path, 10 * US, [RING] * 5 + [SW] * 5)
    write(store, "recordings", {"recording_id": "fine", "host": "cache-2", "bin_ns": 10 * US, "quality": SW})
    write(store, "bins", {"recording_id": "fine", "host": "cache-2", "ts_ns": T0, "quality": SW})
    con = store.connect()
    middle = T0 + 50 * US
    for wanted in (
        {"until_ns": middle},
        {"until_ns": middle, "hosts": ["cache-1"]},
        {"until_ns": middle, "rack": "r1"},
        {"until_ns": middle, "recording": "run-1", "interface": "eth0", "direction": "in"},
    ):
        with pytest.raises(MburstError):
            refuse_coarse(con, **wanted)
    for other in (
        {"since_ns": middle},
        {"until_ns": middle, "hosts": ["cache-2"]},
        {"until_ns": middle, "rack": "r2"},
        {"until_ns": middle, "direction": "out"},
        {"until_ns": middle, "recording": "fine"},
    ):
        refuse_coarse(con, **other)


def test_a_capture_file_in_microseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, store = tmp_path / "us.pcap", str(tmp_path / "store")
    with capture.open("wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i in range(2000):
            frame = bytes.fromhex("0200000000ff02000000000188b5").ljust(1000, b"\0")
            file.write(struct.pack("=IIII", 1_700_000_000, 8 * i, len(frame), len(frame)) + frame)
    assert main(["record", str(capture), "-o", store, "--bin", "10us", "--link", "1G", "--direction", "in"]) == 0
    capsys.readouterr()
    for words in ([], ["--json"], ["--bin", "50us"]):
        assert main(["bursts", store, *words]) == 1
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1 and "too coarsely for bins of" in printed.err
    for words in (["--force"], ["--bin", "100us"]):
        assert main(["bursts", store, "--json", *words]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 1

"""While a recorder runs, its bins are shipped as they are sealed, together with the row of their recording."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

from livelab import Lab
from storelib import sealed_files
from waiting import beside, wait_for

from mburst.fleet.folder import FolderTarget
from mburst.fleet.receipts import files_of, read_receipts
from mburst.fleet.ship import Shipped, ShipSettings, ship
from mburst.sql import StoreFolder, listed

# `mburst` with segments of bins and senders that are complete after half a second; other tables as usual.
SHORT = """
import sys
from mburst.sql import StoreFolder
writer_of = StoreFolder.writer

def writer(self, table, *names):
    made = writer_of(self, table, *names)
    if table in ("bins", "sources"):
        made._roll_s = 0.5
    return made

StoreFolder.writer = writer
from mburst.__main__ import command
sys.argv = ["mburst", *sys.argv[1:]]
sys.exit(command())
"""


def sending(lab: Lab, ended: threading.Event) -> None:
    """Sends a datagram every 10 ms."""
    with lab.inside(lab.near):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sock:
        while not ended.wait(0.01):
            sock.sendto(b"x" * 100, ("10.9.0.2", 9))


def has_bins(shipped: Shipped, target: FolderTarget) -> bool:
    assert not shipped.troubles
    return any(file.table == "bins" for file in files_of(read_receipts(target)).values())


def test_bins_are_shipped_with_their_recording_while_it_runs(lab: Lab, tmp_path: Path) -> None:
    store, target = StoreFolder.create(tmp_path / "store"), FolderTarget(tmp_path / "archive")
    words = f"record {lab.b} -o {store.path} --host cache-1 --rack r1 --bin 1ms --link 10G".split()
    command = ["ip", "netns", "exec", lab.far, sys.executable, "-c", SHORT, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with beside(lambda ended: sending(lab, ended)):
            wait_for(lambda: sealed_files(store, "bins") or process.poll() is not None, "sealed bins")
            wait_for(lambda: has_bins(ship(store, target, ShipSettings()), target), "bins at the target")
        assert process.poll() is None, process.communicate()
        stated = files_of(read_receipts(target))
        files = {
            table: [target.folder / key for key, file in stated.items() if file.table == table]
            for table in ("bins", "sources", "recordings")
        }
        con = listed.connect(files)  # refuses bins without a recording
        [(bins, link_bps)] = con.execute(
            "SELECT count(*), any_value(link_bps) FROM bins JOIN recordings USING (recording_id)"
        ).fetchall()
        assert bins > 0 and link_bps == 10**10
    finally:
        process.terminate()
        out, error = process.communicate(timeout=60)
    assert process.returncode == 0, (out, error)
    ship(store, target, ShipSettings())
    there = StoreFolder.open(target.folder)
    assert there.connect().execute("SELECT DISTINCT ended FROM recordings").fetchall() == [("stopped",)]
    sums = there.connect().execute(
        "SELECT sum(b.packets) = any_value(r.packets) FROM bins b JOIN recordings r USING (recording_id) "
        "GROUP BY recording_id"
    )
    assert set(sums.fetchall()) == {(True,)}
    assert json.loads((target.folder / "mburst.json").read_text()) == {"format": 2}

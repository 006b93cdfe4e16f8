"""kill -9 of the other verbs that write: no acknowledged row is lost or doubled, and no partial page is left."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from faultlib import assert_kept, assert_sealed, chance, end, held, kill, query, started, succeed, times, wait_for_rows
from gnmilib import agent
from outcomes import outcome
from ports import free_port

from mburst.sql import StoreFolder

ROWS = 200_000
NOW = 1_795_228_464_011_544_286


def test_an_import_is_killed_then_repeated(tmp_path: Path) -> None:
    file, alive = tmp_path / "probes.csv", 0
    file.write_text(
        "src,dst,tx_ns,rx_ns\n"
        + "".join(f"api,cache,{NOW + number * 10**5},{NOW + number * 10**5 + 5000}\n" for number in range(ROWS))
    )
    for attempt in times(2):
        store, random = StoreFolder.create(tmp_path / str(attempt)).path, chance("import", attempt)
        with started("import", "probes", file, "-o", store) as process:
            wait_for_rows(store, "probes", process)
            time.sleep(random.random() / 10)
            alive += kill(process)
        kept = held(store, "probes")
        succeed("import", "probes", file, "-o", store)
        assert query(store, "SELECT count(*), count(DISTINCT seq) FROM probes") == [(ROWS, ROWS)]
        assert_kept(store, "probes", kept)
        assert_sealed(store)
    outcome("import, killed, again", f"{len(times(2))} kills, {alive} alive", "rows of the file, once each")


def test_a_prober_is_killed(tmp_path: Path) -> None:
    store, port, kept, alive = StoreFolder.create(tmp_path / "store").path, free_port(), [], 0
    probing = ("probe", f"127.0.0.1:{port}", "-o", store, "--rate", "500")
    with started("reflect", "--listen", f"127.0.0.1:{port}"):
        for attempt in times(2):
            with started(*probing) as process:
                wait_for_rows(store, "probes")
                time.sleep(chance("probe", attempt).random())
                alive += kill(process)
            kept += held(store, "probes")
        succeed(*probing, "--count", "10")
    count = assert_kept(store, "probes", kept)
    assert count > 0 and alive == len(times(2))
    assert_sealed(store)
    outcome("probe, killed", f"{alive} kills", f"{count:,} probes acknowledged: 0 lost, 0 doubled")


def test_a_collector_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="collecting is tested with grpcio")
    store, kept, alive = StoreFolder.create(tmp_path / "store").path, [], 0
    config = tmp_path / "gnmi.yaml"
    with agent("lo") as (address, _):
        config.write_text(
            f'targets: {{a: {{address: "{address}", insecure: true}}}}\n'
            "subscriptions: {c: {paths: [/interfaces], stream-mode: sample, sample-interval: 50ms}}\n"
        )
        for attempt in times(2):
            with started("collect", config, "-o", store) as process:
                wait_for_rows(store, "ports")
                time.sleep(chance("collect", attempt).random())
                alive += kill(process)
            kept += held(store, "ports")
        with started("collect", config, "-o", store) as process:
            wait_for_rows(store, "ports")
            code, error = end(process, signal.SIGTERM)
            assert code == 0, error
    count = assert_kept(store, "ports", kept)
    assert count > 0 and alive == len(times(2))
    assert_sealed(store)
    outcome("collect, killed", f"{alive} kills", f"{count:,} rows of ports acknowledged: 0 lost, 0 doubled")


def test_a_killed_report_leaves_no_partial_page(tmp_path: Path) -> None:
    from captured import write_capture

    store = tmp_path / "store"
    succeed("record", write_capture(tmp_path / "a.pcap", 50_000), "-o", store, "--link", "1G", "--rack", "r1")
    succeed("report", store, "--rack", "r1", "-o", tmp_path / "whole")
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    began, alive = time.monotonic(), 0
    succeed("report", store, "--rack", "r1", "-o", tmp_path / "again")
    lasted = time.monotonic() - began
    for attempt in times(3):
        folder = tmp_path / str(attempt)
        with started("report", store, "--rack", "r1", "-o", folder) as process:
            time.sleep(lasted * (0.5 + chance("report", attempt).random() / 2))
            alive += kill(process)
        for path in folder.glob("*.html"):
            assert path.read_bytes() == whole[path.name]
        succeed("report", store, "--rack", "r1", "-o", folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name in whole} == whole
    outcome("report, killed, again", f"{len(times(3))} kills, {alive} alive", "no half page; then the same bytes")

"""A clock that is stepped while mburst runs (tests/c/stepped_clock.c): the process sees another time, while packets
keep the kernel's."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from building import library
from faultlib import Follower, assert_kept, assert_sealed, assert_totals, end, query, started, succeed
from labrecorder import recording, sending
from livelab import Lab
from outcomes import outcome
from ports import free_port
from waiting import wait_for

from mburst.sql import StoreFolder

MS = 1_000_000


@pytest.fixture(scope="module")
def stepped_clock() -> Path:
    return library("tests/c/stepped_clock.c")


@pytest.fixture
def clock(stepped_clock: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file with the offset of the clock in seconds, and the environment of a process that follows it."""
    file = tmp_path / "clock"
    file.write_text("0\n")
    return file, {**os.environ, "LD_PRELOAD": str(stepped_clock), "CLOCK_OFFSET": str(file)}


@pytest.mark.parametrize("step", [-3600, 3600, -3 * 86400])
def test_the_clock_steps_while_recording(
    lab: Lab, tmp_path: Path, clock: tuple[Path, dict[str, str]], step: int
) -> None:
    file, environment = clock
    store = StoreFolder.create(tmp_path / "store").path
    follower = Follower(store, "bins")
    with sending(lab), recording(lab, store, roll_s=0.4, env=environment) as process:
        wait_for(lambda: follower.rows["bins"], "bins")
        file.write_text(f"{step}\n")
        time.sleep(1)
        code, error = end(process, signal.SIGTERM)
        assert code == 0, error
    count = assert_kept(store, "bins", follower.stop()["bins"])
    assert query(store, "SELECT count(*), bool_and(complete) FROM recordings") == [(1, True)]
    [(notes,)] = query(store, "SELECT notes FROM recordings")
    assert "1 step of the clock" in notes
    assert_totals(store)
    assert_sealed(store)
    assert succeed("bursts", store).stderr == ""
    outcome(f"record live, clock steps by {step:+,} s", 1, f"one whole recording, {count:,} bins: 0 lost, 0 doubled")


def test_recording_again_under_an_earlier_clock(lab: Lab, tmp_path: Path, clock: tuple[Path, dict[str, str]]) -> None:
    """The clock goes back between a kill and the next start: the recorded rows are sealed nevertheless."""
    file, environment = clock
    store = StoreFolder.create(tmp_path / "store").path
    follower = Follower(store, "bins")
    with sending(lab):
        with recording(lab, store, env=environment) as process:
            wait_for(lambda: follower.rows["bins"], "bins")
            process.kill()
            process.wait()
        file.write_text(f"{-2 * 86400}\n")
        with recording(lab, store, env=environment) as process:
            time.sleep(0.5)
            assert end(process, signal.SIGTERM)[0] == 0
    count = assert_kept(store, "bins", follower.stop()["bins"])
    assert_sealed(store)
    assert_totals(store)
    assert query(store, "SELECT count(*) FROM recordings") == [(2,)]
    outcome("record live, killed, begun again two days earlier", 1, f"{count:,} bins acknowledged: 0 lost, 0 doubled")


@pytest.mark.parametrize("step", [-3600, 3600, 1])
def test_the_clock_steps_while_probes_are_under_way(
    tmp_path: Path, clock: tuple[Path, dict[str, str]], step: int
) -> None:
    """These probes are answered, but their latency is unknown. None is lost, and none has a latency from two clocks."""
    file, environment = clock
    store, port = StoreFolder.create(tmp_path / "store").path, free_port()
    with (
        started("reflect", "--listen", f"127.0.0.1:{port}", "--delay", "constant:200ms") as reflect,
        started(
            "probe", f"127.0.0.1:{port}", "-o", store, "--rate", "200", "--timeout", "800ms", env=environment
        ) as probe,
    ):
        follower = Follower(store, "probes")
        wait_for(lambda: follower.rows["probes"], "probes")
        file.write_text(f"{step}\n")
        time.sleep(1.5)
        code, error = end(probe, signal.SIGTERM)
        assert code == 0, error
        follower.stop()
        end(reflect, signal.SIGTERM)
    [(probes, lost, known, least_ns, most_ns)] = query(
        store,
        """SELECT count(*), count(*) FILTER (lost), count(app_recv_ns), min(app_recv_ns - app_send_ns),
                  max(app_recv_ns - app_send_ns) FROM probes""",
    )
    assert lost == 0 and 20 < probes - known < 150 < probes
    assert 200 * MS <= least_ns <= most_ns < 800 * MS
    assert query(store, "SELECT DISTINCT stamp_kind, rx_ns, remote_rx_ns FROM probes WHERE app_recv_ns IS NULL") == [
        ("", None, None)
    ]
    assert "the latencies of probes in flight at that moment are not known" in error
    outcome(f"probe, clock steps by {step:+,} s", 1, f"0 of {probes} lost, {probes - known} without a latency")

"""The Python API does not change the process that calls it."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mburst


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Fails if signals, limits or rights of the process change, or if standard output is written to."""

    def state() -> tuple[Any, ...]:
        status = Path("/proc/self/status").read_text()
        return (
            [signal.getsignal(number) for number in signal.valid_signals()],
            os.getresuid(),
            os.getresgid(),
            [resource.getrlimit(number) for number in range(16)],
            os.umask(os.umask(0o22)),
            Path.cwd(),
            re.findall(r"^(?:NoNewPrivs|Cap\w+|Seccomp):.*", status, re.MULTILINE),
        )

    def refused(*_: Any) -> None:
        raise AssertionError("a signal handler is set")

    before = state()
    monkeypatch.setattr(signal, "signal", refused)
    yield
    monkeypatch.undo()
    assert state() == before
    assert capfd.readouterr().out == ""  # a recorder reports a slow disk on standard error


def test_the_process_is_not_changed(untouched: None, tmp_path: Path) -> None:
    demo = mburst.demo(tmp_path / "demo", seed=2)
    with demo.store as store, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask) for ask in (store.bursts, store.senders, store.investigate, store.latency)]
        asked.append(pool.submit(mburst.record, tmp_path / "demo" / "cache.pcap", tmp_path / "more", link="1G"))
        bursts, senders, investigation, *_, recorded = [one.result() for one in asked]
        assert bursts.num_rows and senders.num_rows and investigation.cause == "bursts"
        assert recorded.new and recorded.table().num_rows == len(recorded.rows) == 2
        assert not mburst.record(tmp_path / "demo" / "cache.pcap", tmp_path / "more", link="1G").new
        opened = len(os.listdir("/proc/self/fd"))
        store.bursts()
        assert len(os.listdir("/proc/self/fd")) <= opened
    with pytest.raises(mburst.MburstError, match="was closed"):
        store.bursts()


def test_an_event_ends_a_recording() -> None:
    """Without an interface: the thread that waits for the event calls stop once, and ends."""
    from mburst.process.stopping import stopping_by

    event, stopped = threading.Event(), threading.Event()
    with stopping_by(event, stopped.set) as ended_by:
        assert not stopped.is_set()
        event.set()
        assert stopped.wait(30) and ended_by == []
    with stopping_by(threading.Event(), stopped.clear):
        pass
    assert stopped.is_set() and not [one for one in threading.enumerate() if one.name == "mburst-stop"]


def test_a_process_of_mburst_blocks_pandas_and_that_of_a_caller_does_not(tmp_path: Path) -> None:
    """pyarrow imports pandas before it converts a list, which costs more than a verb."""
    pytest.importorskip("pandas")
    asking = "import pyarrow; pyarrow.array([1]); import sys; print('pandas' in sys.modules)"
    command = "import sys; sys.argv = ['mburst', 'demo', '--help']; from mburst.__main__ import command; "
    verb = f"{command}\ntry: command()\nexcept SystemExit: pass\n{asking}"
    caller = f"import mburst; mburst.Store; {asking}"
    for code, has in ((verb, "False"), (caller, "True")):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stdout.splitlines()[-1] == has, code

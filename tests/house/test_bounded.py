"""No test waits without end for what it has started (tests/lib/bounded.py, tests/lib/forking.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import bounded
import forking
import pytest
from processes import children

HANGS = [sys.executable, "-c", "import sys, time; print('begun', flush=True); sys.exit(time.sleep(600))"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound comes soon, but after the start of a program."""
    monkeypatch.setattr(bounded._Bound, "seconds", 2.0)


def test_a_program_that_hangs_is_killed_and_its_output_printed(soon: None) -> None:
    with pytest.raises(AssertionError, match=r"time\.sleep.* did not end within 2 s; it printed: begun"):
        subprocess.run(HANGS, capture_output=True, text=True)
    process = subprocess.Popen(HANGS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with process, pytest.raises(AssertionError, match="did not end within 2 s; it printed: begun"):
        process.wait()
    assert process.returncode == -signal.SIGKILL


def test_own_timeouts_of_tests_are_kept(soon: None) -> None:
    with subprocess.Popen(HANGS, stdout=subprocess.PIPE) as process:
        for wait in (process.wait, process.communicate):
            with pytest.raises(subprocess.TimeoutExpired):
                wait(timeout=0.01)
        assert process.poll() is None
        process.kill()


def test_a_program_that_ends_is_not_affected(soon: None) -> None:
    done = subprocess.run(["cat"], input="some", capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("some", "")
    assert subprocess.call(["false"]) == 1


def test_a_fork_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "LIMIT_S", 0.1)
    before = children(os.getpid())
    with pytest.raises(AssertionError, match=r"the fork did not end within 0\.1 s"):
        forking.exit_code_of(lambda: time.sleep(600))
    assert children(os.getpid()) == before


def test_a_fork_ends_as_its_work_does(capfd: pytest.CaptureFixture[str]) -> None:
    """An exception does not return to the test of the fork, which would run on beside that of its parent."""

    def fails() -> None:
        raise ValueError("no luck")

    assert forking.exit_code_of(lambda: None) == 0
    assert forking.exit_code_of(lambda: os._exit(9)) == 9
    assert forking.exit_code_of(fails) == 1 and "ValueError: no luck" in capfd.readouterr().err


def test_the_next_line_of_a_program(soon: None) -> None:
    with subprocess.Popen(HANGS, stdout=subprocess.PIPE, text=True) as process:
        assert bounded.next_line(process) == "begun\n"
        with pytest.raises(AssertionError, match=r"ended with -9 before its line; it printed: nothing"):
            bounded.next_line(process)
    words = ["sh", "-c", "echo why >&2; exit 3"]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        pytest.raises(AssertionError, match="ended with 3 before its line; it printed: why"),
    ):
        bounded.next_line(process)


def test_the_rest_after_a_line_is_returned() -> None:
    """Python may have read more than the line."""
    with subprocess.Popen(["printf", "a\\nb\\n"], stdout=subprocess.PIPE, text=True) as process:
        assert bounded.next_line(process) == "a\n"
        assert process.communicate() == ("b\n", None)


def test_a_failure_beside_a_program_that_hangs_is_seen(soon: None) -> None:
    with pytest.raises(AssertionError, match="did not end") as hung, subprocess.Popen(HANGS):
        raise KeyError("the failure")
    assert "the failure" in str(hung.getrepr(chain=True))

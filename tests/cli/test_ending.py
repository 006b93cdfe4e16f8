"""A command ends like Python does, except for the modules that it imported: no output is lost and no file is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ENDS = """
import atexit, sys, threading, time
from mburst import ending
atexit.register(print, "atexit")
def work():
    time.sleep(0.2)
    print("thread")
threading.Thread(target=work).start()
threading.Thread(target=time.sleep, args=[60], daemon=True).start()
print("main")
sys.stderr.write("no newline")
class Kept:
    def __del__(self):
        print("torn down")
kept = Kept()
ending.end(3)
"""
SPILLS = """
import os
from mburst import ending, interrupting
from mburst.sql import views
from mburst.sql.catalogue import bare
interrupting.own_process()
connection = views.unlocked(bare(), {"memory_limit": "20MB"})
connection.execute("CREATE TEMP TABLE large AS SELECT random() AS x FROM range(8_000_000)")
print(any(name.startswith(".mburst-") for name in os.listdir()))
ending.end(0)
"""


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=60)


def test_exit_handlers_run_and_output_is_printed(tmp_path: Path) -> None:
    done = ran(ENDS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "main\nthread\natexit\n", "no newline")


def test_a_database_leaves_no_file_behind(tmp_path: Path) -> None:
    done = ran(SPILLS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("words", "code"), [(["sql", "--help"], 0), (["sql"], 2), (["sql", "none", "bins"], 1)])
def test_exit_codes_are_those_of_the_verbs(words: list[str], code: int, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("mburst")
    if not program.exists():
        pytest.skip("mburst is not installed beside this Python")
    done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and bool(done.stdout) == (code == 0) and done.stderr.count("\n") == (code != 0)

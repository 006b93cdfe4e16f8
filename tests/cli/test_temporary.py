"""No temporary file is left by a signal, wherever it falls."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mburst import files, temporary
from mburst.fleet.folder import FolderTarget

LEFT_BEHIND = """
import os, signal, sys, threading
from pathlib import Path
from mburst import files
from mburst.fleet import folder
from mburst.process import ending, interrupting
from mburst.process.stopping import until_stopped

def sync(descriptor):
    signal.raise_signal(signal.SIGTERM)
    threading.Event().wait()  # as a disk that does not answer

interrupting.own_process()
os.fsync, place = sync, Path("there")
until_stopped(lambda stopped: {work})
ending.end(130)
"""
INTERRUPTED = """
import shutil, signal
from mburst.api import extracting
from mburst.analysis.bursts.find import BurstDefinition
from mburst.process import ending, interrupting

def interrupt(*given, **named):
    shutil.rmtree = remove
    signal.raise_signal(signal.SIGTERM)

interrupting.own_process()
shutil.rmtree, remove = interrupt, shutil.rmtree
try:
    with extracting.recorded_captures(["none.pcap"], BurstDefinition(), extracting.PacketInput(["none.pcap"])):
        pass
except BaseException as error:
    print(type(error).__name__)
ending.end(130)
"""
FINDS_ITS_FOLDER = """
import os, signal, time
from mburst import temporary
from mburst.process import ending, interrupting

def interrupt(path):
    os.unlink = unlink
    signal.raise_signal(signal.SIGTERM)
    time.sleep(0.3)  # the main thread goes on meanwhile
    unlink(path)

interrupting.own_process()
os.unlink, unlink = interrupt, os.unlink
try:
    with temporary.folder("test-"):
        print("works")
except KeyboardInterrupt:
    pass
ending.end(130)
"""


def ran(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "work",
    [
        'files.write(place, "text", "the file", "")',
        'folder.FolderTarget(Path()).put_new("there", b"text")',
        'folder.FolderTarget(Path()).replace("there", b"text")',
    ],
)
def test_a_thread_that_is_left_behind_leaves_no_draft(work: str, tmp_path: Path) -> None:
    done = ran(LEFT_BEHIND.format(work=work), tmp_path)
    assert (done.returncode, done.stderr) == (130, "")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_removal_is_repeated(tmp_path: Path) -> None:
    done = ran(INTERRUPTED, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "KeyboardInterrupt\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_temporary_files_is_found_without_a_trace(tmp_path: Path) -> None:
    """Python makes a file there, and removes it."""
    assert ran(FINDS_ITS_FOLDER, tmp_path).returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_drafts_and_folders_are_removed_as_their_work_ends(tmp_path: Path) -> None:
    with temporary.folder("test-", tmp_path) as folder:
        Path(folder, "file").touch()
        assert [str(path) for path in tmp_path.iterdir()] == [folder]
    files.write(tmp_path / "file", "text", "the file", "")
    FolderTarget(tmp_path).put_new("object", b"text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "object"]
    assert not temporary._removals


def test_a_process_removes_only_its_own(tmp_path: Path) -> None:
    with temporary.folder("test-", tmp_path) as folder:
        if (child := os.fork()) == 0:
            temporary._remove_all()
            os._exit(0)
        os.waitpid(child, 0)
        assert Path(folder).exists()


def test_what_cannot_be_removed_is_tried_again_at_the_end(tmp_path: Path) -> None:
    """A thread may still fill the folder."""
    tries: list[bool] = []

    def remove() -> bool:
        tries.append(True)
        return len(tries) > 1

    with temporary.removed(remove):
        pass
    temporary._remove_all()
    assert len(tries) == 2
    temporary._removals.clear()


@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_folder_with_write_protected_folders_is_removed(mode: int) -> None:
    program = f"""
import os
from pathlib import Path
from mburst import temporary
if os.geteuid() == 0:
    os.chown(".", 65534, 65534)
    os.setresuid(65534, 65534, 65534)
with temporary.folder("test-", ".") as folder:
    inside = Path(folder, "inside")
    inside.mkdir()
    (inside / "file").touch()
    inside.chmod({mode})
print(os.listdir("."))
"""
    with tempfile.TemporaryDirectory() as place:  # all folders above it can be passed by anybody
        done = ran(program, Path(place))
    assert (done.stdout, done.stderr) == ("[]\n", "")

"""The rights that a process of mburst keeps once its sockets are open."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from frames import START_NS, Frame, pcap
from places import ROOT
from privilegelib import STRANGER, for_all, for_root_alone, needs_root, run_python, status, threads
from storelib import rows, sealed_files, write
from waiting import wait_for

from mburst.errors import UsageError
from mburst.process import landlock, privileges
from mburst.sql import StoreFolder, verified
from mburst.sql.format import filenames
from mburst.sql.format.hotlog import HotLog

MBURST = [sys.executable, "-P", "-m", "mburst"]
PAIR = (
    "ip link add v0 type veth peer name v1; ip link set v0 up; ip link set v1 up"  # in a network namespace of its own
)
WITH_A_PAIR = ["unshare", "--net", "sh", "-c", f'{PAIR}; exec "$@"', "sh"]
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")


@pytest.fixture
def strangers() -> Iterator[Path]:
    """A folder that another user owns and can reach."""
    with tempfile.TemporaryDirectory(prefix="mburst-test-") as name:
        os.chown(name, STRANGER, STRANGER)
        yield Path(name)


class Running:
    """A command while it runs; SIGINT ends it."""

    def __init__(self, words: list[str], everywhere: bool = False, prefix: Sequence[str] = ()) -> None:
        command = [*prefix, *MBURST, *words]
        command = for_all(command) if everywhere else command
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.pid = self.process.pid

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.output = self.process.communicate(timeout=60)[0]


def nothing_left(thread: dict[str, str]) -> bool:
    return all(int(thread[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))


# --- verbs ------------------------------------------------------------------------------------------------------------


@needs_root
def test_a_recording_works_as_the_owner_of_its_store(strangers):
    """The recording may be of several interfaces, which are opened one after the other."""
    store = strangers / "store"
    words = ["record", "v0", "v1", "-o", str(store), "--threads", "2"]
    with Running(words, everywhere=True, prefix=WITH_A_PAIR) as running:
        wait_for(lambda: len(list(store.glob("hot/clock/*"))) == 2, "the recording of both interfaces")
        wait_for(lambda: status(running.pid)["NoNewPrivs"] == "1", "the end of privileges")
        wait_for(
            lambda: all(thread["Uid"].split() == 4 * [str(STRANGER)] for thread in threads(running.pid)), "the user"
        )
        assert all(thread["Gid"].split() == 4 * [str(STRANGER)] for thread in threads(running.pid))
        assert all(nothing_left(thread) for thread in threads(running.pid))
        assert status(running.pid)["Groups"].split() == [str(STRANGER)]
    assert "recorded into" in running.output
    made = list(store.rglob("*"))
    assert made and all((path.stat().st_uid, path.stat().st_mode & 0o027) == (STRANGER, 0) for path in made)


@needs_root
def test_a_recording_by_root_keeps_no_capability(tmp_path):
    store = tmp_path / "store"
    with Running(["record", "lo", "-o", str(store)]) as running:
        wait_for(
            lambda: list(store.glob("hot/clock/*")) and nothing_left(status(running.pid)), "the end of capabilities"
        )
        assert status(running.pid)["NoNewPrivs"] == "1"
    assert "recorded into" in running.output


@needs_root
def test_a_file_that_only_root_may_read_is_recorded_for_another(strangers, tmp_path):
    path = tmp_path / "secret.pcap"
    path.write_bytes(pcap([Frame(START_NS + i * 10**6, i, 100) for i in range(20)]))
    path.chmod(0o600)
    done = subprocess.run(
        for_all([*MBURST, "record", str(path), "-o", str(strangers / "store")]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and "20 packets" in done.stdout, done.stderr
    assert (strangers / "store" / "recordings").stat().st_uid == STRANGER


@needs_root
def test_a_reflector_runs_as_nobody(tmp_path):
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        Running(["reflect", "--listen", "127.0.0.1:1862"], everywhere=True) as running,
    ):
        wait_for(lambda: status(running.pid)["Uid"].split()[1] != "0", "another user")
        wait_for(lambda: all(nothing_left(thread) for thread in threads(running.pid)), "the end of capabilities")
        sock.settimeout(30)
        sock.sendto(bytes(44), ("127.0.0.1", 1862))
        assert sock.recv(100)
    assert "answered 1 probe" in running.output


@needs_root
def test_probes_are_sent_and_stored_as_the_owner_of_the_store(strangers):
    store = strangers / "store"
    words = ["probe", "127.0.0.1:1863", "--count", "20", "-o", str(store)]
    with Running(["reflect", "--listen", "127.0.0.1:1863"], everywhere=True) as reflector:
        wait_for(lambda: status(reflector.pid)["Uid"].split()[1] != "0", "the reflector")
        done = subprocess.run(for_all([*MBURST, *words]), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "20 probes" in done.stdout, done.stderr
    assert {path.stat().st_uid for path in store.rglob("*")} == {STRANGER}


@pytest.fixture
def damaged(strangers: Path) -> Path:
    """A store of another user with a damaged log, a damaged sealed file and a sound one; returns the last."""
    store = StoreFolder.create(strangers / "store")
    write(store, "bins", {"ts_ns": START_NS}, {"host": "cache-2", "ts_ns": START_NS})
    first, sound = sealed_files(store, "bins")
    log = HotLog(store.path, "bins", filenames.new_segment("cache-3", filenames.new_writer(), 0), "r1")
    log.append(rows("bins", {"host": "cache-3", "ts_ns": START_NS}))
    log.append(rows("bins", {"host": "cache-3", "ts_ns": START_NS + 10**6}))
    end = log.path.read_bytes().rstrip(b"\0")
    log.leave()
    for path, at in ((first, 30), (log.path, len(end) - 40)):
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
    for path in (store.path, *store.path.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    return sound


def as_root(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = for_all([*MBURST, *map(str, words)])
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@needs_root
def test_a_repair_works_as_the_owner_of_the_store(damaged: Path, strangers: Path) -> None:
    """The folder `damaged` was root's, and `mburst compact`, which works as the owner, could not read it."""
    done = as_root("repair", strangers / "store")
    assert (done.returncode, done.stderr) == (0, "") and "2 files set aside" in done.stdout
    assert (strangers / "store" / "damaged").is_dir() and damaged.exists()
    assert {path.stat().st_uid for path in strangers.rglob("*")} == {STRANGER}
    done = as_root("compact", strangers / "store")
    assert "cannot" not in done.stdout + done.stderr and "denied" not in done.stdout + done.stderr


@needs_root
def test_a_question_of_root_leaves_the_ledgers_of_verified_files_to_the_owner_of_the_store(strangers: Path) -> None:
    store = StoreFolder.create(strangers / "store")
    write(store, "bins", {"ts_ns": START_NS})
    [file] = sealed_files(store, "bins")
    (file.parent.parent / verified.LEDGER).unlink()
    for path in (store.path, *store.path.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    assert as_root("sql", store.path, "FROM bins").returncode == 0
    assert not (file.parent.parent / verified.LEDGER).exists()
    verified.remember(file)
    assert {path.stat().st_uid for path in strangers.rglob("*")} == {STRANGER}


@needs_root
def test_a_repair_leaves_a_file_alone_that_its_user_may_not_read(damaged: Path, strangers: Path) -> None:
    """Whether it is damaged is not known; it was set aside."""
    os.chown(damaged, 0, 0)
    damaged.chmod(0o600)
    done = as_root("repair", strangers / "store")
    assert done.returncode == 1 and f"{damaged}: left alone: this user may not read it" in done.stdout
    assert "2 files set aside, 1 left alone" in done.stdout and damaged.exists()


@needs_root
def test_a_migrated_store_belongs_to_the_owner_of_its_folder(strangers: Path) -> None:
    shutil.copytree(ROOT / "tests" / "data" / "stores" / "format-1" / "store", strangers / "old")
    for path in (strangers / "old", *(strangers / "old").rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    done = as_root("migrate", strangers / "old", strangers / "new")
    assert done.returncode == 0, done.stderr
    assert {path.stat().st_uid for path in strangers.rglob("*")} == {STRANGER}


def test_unknown_users_are_one_line(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Frame(START_NS, 1, 100)]))
    done = subprocess.run(
        [*MBURST, "record", str(path), "-o", str(tmp_path / "store"), "--user", "no-such-user"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "mburst: --user no-such-user: no such user\n")


@needs_root
def test_a_user_who_cannot_read_mburst_is_refused_with_the_reason(strangers):
    done = subprocess.run(
        for_root_alone([*MBURST, "record", "lo", "-o", str(strangers / "store")]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and f"user {STRANGER}" in done.stderr and "--user root" in done.stderr
    assert done.stderr.count("\n") == 1


def test_files_are_not_readable_by_all(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Frame(START_NS, 1, 100)]))
    subprocess.run([*MBURST, "record", str(path), "-o", str(tmp_path / "store")], capture_output=True, check=True)
    assert all(path.stat().st_mode & 0o027 == 0 for path in [tmp_path / "store", *(tmp_path / "store").rglob("*")])


# --- the steps --------------------------------------------------------------------------------------------------------


def test_a_program_that_imports_mburst_keeps_its_rights(tmp_path):
    before = status(os.getpid())
    privileges.lower(tmp_path)
    privileges.confine([], [])
    privileges.drop()
    privileges.settle(None)
    after = status(os.getpid())
    assert all(before[name] == after[name] for name in ("Uid", "CapEff", "CapPrm", "NoNewPrivs", "Umask"))


@needs_landlock
def test_a_confined_process_writes_nowhere_else_and_reads_little(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "there").write_text("x")
    done = run_python(
        """
import os, subprocess, sys
from mburst.process import privileges
privileges.own_process()
inside, outside = sys.argv[1:]
privileges.confine([], [inside])
import pyarrow.parquet, duckdb, json  # what is imported later can be read
def refused(call):
    try:
        call()
    except PermissionError:
        return True
assert open(inside + "/there").read() == "x"
open(inside + "/new", "w").write("y")
os.replace(inside + "/new", inside + "/newer"); os.mkdir(inside + "/folder"); os.unlink(inside + "/newer")
assert refused(lambda: open(outside + "/there").read()), "read"
assert refused(lambda: open(outside + "/new", "w")), "write"
assert refused(lambda: open(outside + "/there", "a")), "append"
assert refused(lambda: os.unlink(outside + "/there")), "unlink"
assert refused(lambda: os.truncate(outside + "/there", 0)), "truncate"
assert refused(lambda: os.rename(outside + "/there", inside + "/theirs")), "rename"
assert refused(lambda: os.listdir(outside)), "list"
assert refused(lambda: open("/etc/shadow").read()), "shadow"
assert refused(lambda: subprocess.run(["/bin/true"])), "a program"
import threading
seen = []
thread = threading.Thread(target=lambda: seen.append(refused(lambda: open(outside + "/new", "w"))))
thread.start(); thread.join()
assert seen == [True]
print("confined")
""",
        tmp_path / "in",
        tmp_path / "out",
    )
    assert done.stdout == "confined\n", done.stderr


def test_a_kernel_without_landlock_is_reported_and_is_no_failure(tmp_path):
    done = run_python(
        """
import sys
from mburst.process import landlock, privileges
landlock.version = lambda: 0
privileges.own_process()
privileges.confine([], [])
open(sys.argv[1] + "/new", "w").write("y")
""",
        tmp_path,
    )
    assert done.returncode == 0 and ("has no Landlock" in done.stderr) == (os.geteuid() == 0)


@needs_root
def test_the_signal_of_a_dead_supervisor_outlives_the_change_of_user(strangers):
    done = run_python(
        """
import ctypes, os, sys
from mburst.process import privileges
libc, number = ctypes.CDLL(None), ctypes.c_int()
libc.prctl(1, 15, 0, 0, 0)
privileges.own_process()
privileges.lower(sys.argv[1])
with privileges.raised():
    assert os.geteuid() == 0
assert os.geteuid() == int(sys.argv[2])
privileges.drop(keep=[privileges.NET_ADMIN])
libc.prctl(2, ctypes.byref(number), 0, 0, 0)
print(number.value, os.getresuid(), open("/proc/self/status").read().split("CapEff:")[1].split()[0])
try:
    os.seteuid(0)
except PermissionError:
    print("for good")
""",
        strangers,
        STRANGER,
        everywhere=True,
    )
    kept = f"{1 << privileges.NET_ADMIN:016x}"
    assert done.stdout == f"15 {(STRANGER, STRANGER, STRANGER)} {kept}\nfor good\n", done.stderr


@needs_root
def test_commands_that_share_a_process_keep_its_rights(strangers):
    """The commands of a demo run one after the other, and the last ones need rights that the first would otherwise give
    up."""
    done = run_python(
        """
import os, sys
from mburst.process import privileges
privileges.own_process()
with privileges.shared_process():
    privileges.lower(sys.argv[1]); privileges.confine([], []); privileges.drop()
os.seteuid(0)
open(sys.argv[1] + "/new", "w").close()
""",
        strangers,
    )
    assert done.returncode == 0, done.stderr


@needs_root
def test_files_that_root_made_for_a_user_are_given_to_that_user_without_following_links(strangers, tmp_path):
    (tmp_path / "roots").write_text("precious")
    (strangers / "made" / "deep").mkdir(parents=True)
    (strangers / "made" / "deep" / "file").write_text("x")
    (strangers / "made" / "link").symlink_to(tmp_path / "roots")
    (strangers / "a file").write_text("x")
    done = run_python(
        """
import sys
from pathlib import Path
from mburst.process import privileges
privileges.own_process()
folder, owner = Path(sys.argv[1]), privileges.owner_of(sys.argv[1])
privileges.give([folder / "made", folder / "a file"], owner)
for path in (folder / "none", folder / "a file" / "none"):
    try:
        privileges.give([path], owner)
    except OSError as error:
        print(error.filename)
""",
        strangers,
    )
    assert done.stdout.split("\n") == [str(strangers / "none"), f"{strangers}/a file/none", ""], done.stderr
    assert (strangers / "a file").stat().st_uid == STRANGER
    assert {path.lstat().st_uid for path in (strangers / "made", *(strangers / "made").rglob("*"))} == {STRANGER}
    assert (tmp_path / "roots").stat().st_uid == 0


@pytest.mark.parametrize(
    ("before", "after"), [((64, 2048), (2048, 2048)), ((256, 256), (256, 256)), ((100, 4096), (3000, 4096))]
)
def test_a_command_raises_its_limit_of_open_files_as_far_as_allowed(before, after):
    done = run_python(
        """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from mburst.process import privileges
privileges.MOST_FILES = 3000
privileges.own_process()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
""",
        *before,
    )
    assert done.stdout == f"{after}\n", done.stderr


# --- whose files ------------------------------------------------------------------------------------------------------


def test_the_owner_of_a_store(tmp_path, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    me = privileges.Owner(tmp_path.stat().st_uid, tmp_path.stat().st_gid)
    assert privileges.owner_of(tmp_path) == privileges.owner_of(tmp_path / "a" / "b") == me
    root = privileges.Owner(0, 0)
    assert privileges.owner_of(tmp_path, "root") == root
    with pytest.raises(UsageError, match="no such user"):
        privileges.owner_of(tmp_path, "no-such-user")


@needs_root
def test_the_caller_of_sudo_owns_stores_that_the_caller_could_have_made(tmp_path, monkeypatch):
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    monkeypatch.setenv("SUDO_GID", str(STRANGER))
    tmp_path.chmod(0o755)
    assert privileges.owner_of(tmp_path / "store") == privileges.Owner(0, 0)
    tmp_path.chmod(0o1777)
    assert privileges.owner_of(tmp_path / "store") == privileges.Owner(STRANGER, STRANGER)
    (tmp_path / "store").mkdir()
    assert privileges.owner_of(tmp_path / "store") == privileges.Owner(0, 0)  # the folder already belongs to somebody

"""A command that fails before it stores anything removes the store that it created."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from frames import START_NS, Frame, write_pcap
from privilegelib import STRANGER, for_all, needs_root, run_python

import mburst
from mburst.__main__ import main
from mburst.api.recording import recordings_of
from mburst.errors import MburstError
from mburst.process import landlock
from mburst.services.record import recorder, several
from mburst.sql import StoreFolder

# PORT is a port in use; FOLDER has the files.
FAILING = {
    "a filter that is none": "record lo -o STORE --filter bogus( --duration 1s",
    "an option that the backend lacks": "record lo -o STORE --backend ebpf --filter udp --duration 1s",
    "no capture": "record FOLDER/none.pcap -o STORE",
    "a damaged capture": "record FOLDER/damaged.pcap -o STORE",
    "two interfaces and a filter that is none": "record -i lo -i any -o STORE --backend libpcap --filter bogus(",
    "a ring of packets": "record lo -o STORE --keep-packets 20M --filter bogus( --duration 1s",
    "no probes": "import probes FOLDER/bad.csv -o STORE",
    "no address of this host": "probe 127.0.0.1 --source 203.0.113.9 --count 1 -o STORE",
    "a port in use for OTLP": "collect FOLDER/otlp.yaml -o STORE",
    "a port in use for metrics": "metrics STORE --listen 127.0.0.1:PORT",
    "a port in use for the live view": "live lo --store STORE --listen 127.0.0.1:PORT",
    "a filter that is none for the live view": "live lo --store STORE --listen 127.0.0.1:0 --filter bogus(",
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.fixture
def folder(tmp_path: Path, port: int) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "damaged.pcap").write_bytes(b"\x07" * 1000)
    (tmp_path / "files" / "bad.csv").write_text("src,dst\na,b\n")
    (tmp_path / "files" / "otlp.yaml").write_text(f"otlp: {{listen: '127.0.0.1:{port}'}}\n")
    return tmp_path


def fails(words: str, folder: Path, store: Path, port: int) -> str:
    """Runs a command that fails, and returns its errors."""
    given = words.replace("STORE", str(store)).replace("FOLDER", str(folder / "files")).replace("PORT", str(port))
    done = subprocess.run(
        [sys.executable, "-m", "mburst", *given.split()], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (1, 2) and done.stderr.startswith("mburst: "), done
    return done.stderr


@pytest.mark.parametrize("words", FAILING.values(), ids=FAILING.keys())
def test_a_command_that_fails_at_its_start_leaves_no_store(words: str, folder: Path, port: int) -> None:
    fails(words, folder, folder / "new" / "er" / "store", port)
    assert [path.name for path in folder.iterdir()] == ["files"]


@pytest.mark.parametrize("words", FAILING.values(), ids=FAILING.keys())
def test_an_existing_store_or_folder_stays(words: str, folder: Path, port: int) -> None:
    (folder / "empty").mkdir()
    fails(words, folder, folder / "empty", port)
    assert not list((folder / "empty").iterdir())
    StoreFolder.create(folder / "store")
    before = sorted(folder.rglob("*"))
    fails(words, folder, folder / "store", port)
    assert {*before} <= {*folder.rglob("*")} and StoreFolder.open(folder / "store").is_empty("bins")


@needs_root
def test_a_store_created_for_another_user_is_removed() -> None:
    """The process has given up its rights by then, and is confined to the store."""
    with tempfile.TemporaryDirectory(prefix="mburst-test-") as name:
        os.chown(name, STRANGER, STRANGER)
        words = ["record", "lo", "-o", f"{name}/new/store", "--filter", "bogus(", "--duration", "1s"]
        command = for_all([sys.executable, "-m", "mburst", *words])
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and "bogus(" in done.stderr, done
        assert not os.listdir(name)


@needs_root
@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
def test_a_confined_process_can_only_remove_empty_folders_beside_its_store(tmp_path: Path) -> None:
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "file").touch()
    done = run_python(
        """
import os, pathlib, sys
from mburst.process import privileges
from mburst.sql import StoreFolder
privileges.own_process()
os.chdir(sys.argv[1])
with StoreFolder.created("store") as store:
    privileges.confine([], [store.path], made_in=store.made_in)
    os.rmdir("empty")
    for call in (lambda: os.remove("full/file"), lambda: os.mkdir("x"), lambda: open("y", "w"), lambda: os.listdir()):
        try:
            call()
            print("possible")
        except PermissionError:
            print("refused")
""",
        tmp_path,
    )
    assert done.stdout.split() == ["refused"] * 4, done


def test_a_command_that_fails_later_keeps_its_rows(tmp_path: Path) -> None:
    capture = write_pcap(tmp_path / "a.pcap", [Frame(START_NS + i * 10**5, 1, 100) for i in range(5000)])
    capture.write_bytes(capture.read_bytes()[:-50])  # cut off in the last packet
    with capture.open("ab") as file:
        file.write(b"\xff" * 400)
    code = main(["record", str(capture), "-o", str(tmp_path / "store")])
    with StoreFolder.open(tmp_path / "store").connect() as con:
        assert code == 1 and con.execute("SELECT sum(packets) > 4000 FROM bins").fetchone() == (True,)


def test_the_second_of_two_interfaces_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first interface is attached by then, and has noted that its recording began."""
    capture = write_pcap(tmp_path / "a.pcap", [Frame(START_NS, 1, 100)])
    write_pcap(tmp_path / "b.pcap", [Frame(START_NS, 2, 200)])
    opened = []
    real = recorder.Recorder

    def begin(*given: object) -> recorder.Recorder:
        opened.append(given)
        if len(opened) == 2:
            raise MburstError("no rights")
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(several, "Recorder", begin)
    wanted = [recordings_of([str(path)])[0] for path in (capture, tmp_path / "b.pcap")]
    with pytest.raises(MburstError, match="no rights"), StoreFolder.created(tmp_path / "store") as store:
        several.record_several(store, wanted)
    assert len(opened) == 2 and not (tmp_path / "store").exists()


def test_a_store_that_another_uses_stays(tmp_path: Path) -> None:
    """The other one has not stored anything yet either."""
    using = StoreFolder.created(tmp_path / "store")
    with pytest.raises(MburstError), StoreFolder.created(tmp_path / "store") as store:
        other = using.__enter__()
        assert (store.made_in, other.made_in) == (tmp_path, None)
        raise MburstError("while the other uses it")
    with other.writer("probes"):
        pass
    using.__exit__(MburstError, MburstError("it was there when this one began"), None)
    assert StoreFolder.open(tmp_path / "store").is_empty("probes")


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    with pytest.raises(MburstError), StoreFolder.created(tmp_path / "a" / "store") as store:
        (tmp_path / "a" / "mine").touch()
        raise MburstError("")
    assert not store.path.exists() and (tmp_path / "a" / "mine").exists()
    with pytest.raises(MburstError), StoreFolder.created(tmp_path / "a" / "store") as store:
        (store.path / "mine").touch()
        raise MburstError("")
    assert StoreFolder.open(store.path) and (store.path / "mine").exists()


@needs_root
def test_the_error_of_an_unreadable_store_states_what_to_check() -> None:
    with tempfile.TemporaryDirectory(prefix="mburst-test-") as name:
        os.chmod(name, 0o755)
        os.chmod(StoreFolder.create(f"{name}/store").path / "mburst.json", 0o600)
        command = ["setpriv", f"--reuid={STRANGER}", "--clear-groups", sys.executable, "-m", "mburst"]
        done = subprocess.run(
            for_all([*command, "bursts", f"{name}/store"]), capture_output=True, text=True, timeout=60, check=False
        )
    assert done.stderr.endswith("/store/mburst.json: cannot read: Permission denied (check the permissions)\n"), done


def test_calls_from_python_remove_their_store(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("src,dst\na,b\n")
    (tmp_path / "bad.pcap").write_bytes(b"\x07" * 1000)
    with pytest.raises(mburst.MburstError):
        mburst.record(tmp_path / "bad.pcap", tmp_path / "store")
    with pytest.raises(mburst.MburstError):
        mburst.import_csv("probes", tmp_path / "bad.csv", tmp_path / "store")
    assert not (tmp_path / "store").exists()

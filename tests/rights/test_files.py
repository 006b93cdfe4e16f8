"""Files in folders of other users: no link is followed, no name can be guessed, nothing blocks, and no half-written
file is seen."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import stat
import subprocess
import threading
from pathlib import Path

import pytest
from forking import exit_code_of
from racklib import DAY, START, fill, report

from mburst import files
from mburst.agent.delivery import Delivery, DeliveryLedger, Digest
from mburst.dashboards.common.page import write_with_facts
from mburst.dashboards.common.summaries import summaries
from mburst.dashboards.rack import page
from mburst.errors import MburstError
from mburst.sql import StoreFolder

SAYS = "it", "do something else"
PRECIOUS = "precious"


@pytest.fixture
def precious(tmp_path):
    """A file that must not change."""
    path = tmp_path / "precious"
    path.write_text(PRECIOUS)
    path.chmod(0o600)
    yield path
    assert path.read_text() == PRECIOUS and stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "folder"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A folder with a report, and its digest."""
    root = tmp_path_factory.mktemp("reports")
    store = StoreFolder.create(root / "store")
    fill(store, {"a": [(50, 10)]})
    page.write(report(store), root / "out")
    return root / "out"


def test_a_link_is_replaced_and_not_followed(folder, precious):
    for name in ("x", ".x"):
        (folder / name).symlink_to(precious)
        files.write(folder / name, "new", *SAYS)
        assert (folder / name).read_text() == "new" and not (folder / name).is_symlink()
    os.link(precious, folder / "hard")
    files.write(folder / "hard", "new", *SAYS)
    assert {path.name for path in folder.iterdir()} == {"x", ".x", "hard"}


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR])
def test_special_files_are_not_replaced(folder, kind):
    if kind == stat.S_IFCHR and os.getuid():
        pytest.skip("making a device needs root")
    special = folder / "null"
    os.mknod(special, 0o600 | kind, os.makedev(1, 3))
    said = pytest.raises(MburstError, match="null: the packets cannot be written: what is there is not a regular file")
    with said, files.writing(special, "the packets", "name another file with -o"):
        pass
    with pytest.raises(MburstError, match="not a regular file"):
        files.write(special, "text", "a page", "")
    assert stat.S_IFMT(special.lstat().st_mode) == kind


@pytest.mark.parametrize("target", ["null", "/dev/null", "/proc/self/fd/0"])
def test_links_to_special_files_are_not_replaced(folder, target):
    """As /dev/stdout, which is a link to a file of the process that opens it."""
    os.mkfifo(folder / "null")
    link = folder / "stdout"
    link.symlink_to(target)
    said = pytest.raises(MburstError, match="stdout: the packets cannot be written: what is there is ")
    with said, files.writing(link, "the packets", "name another file with -o"):
        pass
    with pytest.raises(MburstError):
        files.write(link, "new", *SAYS)
    assert str(link.readlink()) == target and {path.name for path in folder.iterdir()} == {"null", "stdout"}


def test_names_of_drafts_cannot_be_guessed(folder, precious, monkeypatch):
    """Every draft is new, shares no name with another, and is opened only as a new file."""
    opened, open_ = [], os.open

    def watched(path, flags, *more, **and_more):
        if flags & os.O_CREAT:
            opened.append((path, flags))
        return open_(path, flags, *more, **and_more)

    monkeypatch.setattr(os, "open", watched)
    for _ in range(20):
        files.write(folder / "x", "new", *SAYS)
    assert len({path for path, _ in opened}) == 20 and not any(str(os.getpid()) == str(path)[3:] for path, _ in opened)
    assert all(flags & os.O_EXCL and flags & os.O_NOFOLLOW for _, flags in opened)


def test_a_failed_write_leaves_nothing(folder):
    (folder / "x").mkdir()
    (folder / "file").write_text("")
    for path in (folder / "x", folder / "file" / "y", folder / ("n" * 300), folder / "nul\0"):
        with pytest.raises((MburstError, ValueError)):
            files.write(path, "new", *SAYS)
    assert {path.name for path in folder.iterdir()} == {"x", "file"}


def test_a_report_appears_with_both_files_or_not_at_all(folder):
    (folder / "r.html").mkdir()
    with pytest.raises(MburstError, match="the report cannot be written"):
        write_with_facts(folder / "r", "<html>", "{}")
    assert [path.name for path in folder.iterdir()] == ["r.html"]
    (folder / "r.html").rmdir()
    write_with_facts(folder / "r", "<html>", "{}")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"r.json": "{}", "r.html": "<html>"}


def killed_while_writing(path):
    """Returns the draft of a process that was killed while it wrote PATH."""

    def write():
        with files.writing(path, *SAYS):
            os.kill(os.getpid(), signal.SIGKILL)

    before = set(path.parent.iterdir())
    assert exit_code_of(write) == -signal.SIGKILL
    [draft] = set(path.parent.iterdir()) - before
    return draft


@pytest.mark.parametrize("kept", ["other", "x"])
def test_what_a_killed_process_left_is_removed_by_the_next(folder, kept):
    """Drafts of any file, once they are old, unless a process that lives is writing them. Files of others stay."""
    old, held, young = [killed_while_writing(folder / "x") for _ in range(3)]
    others = [folder / ".x.0123456789abcdef", folder / ".mburst"]
    for path in others:
        path.write_text("")
    for path in (old, held, *others):
        os.utime(path, (1e9, 1e9))
    with held.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert exit_code_of(lambda: files.write(folder / kept, "new", *SAYS)) == 0
    assert {*folder.iterdir()} == {folder / kept, held, young, *others}


def test_a_draft_is_held_while_it_is_written(folder):
    with files.writing(folder / "x", *SAYS):
        [draft] = folder.iterdir()
        os.utime(draft, (1e9, 1e9))
        files.remove_draft(draft)
        assert draft.exists()


@pytest.mark.parametrize(
    "umask, mode, found",
    [
        (0o027, files.GROUP, 0o640),
        (0o077, files.GROUP, 0o600),
        (0o002, files.PUBLIC, 0o644),
        (0o027, files.PUBLIC, 0o644),
        (0o077, files.PUBLIC, 0o644),
        (0o000, files.GROUP, 0o640),
    ],
)
def test_modes(tmp_path, umask, mode, found):
    before = os.umask(umask)
    try:
        files.write(tmp_path / "new" / "x", "text", *SAYS, mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "x").stat().st_mode) == found
    assert not (tmp_path / "new").stat().st_mode & stat.S_IWOTH


def test_a_folder_for_everybody_keeps_the_group_of_the_folder_above(tmp_path):
    tmp_path.chmod(0o2755)
    files.make_folder(tmp_path / "a" / "b", files.PUBLIC)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o2755] * 2


def test_a_folder_whose_mode_is_fixed_and_suffices_is_no_error(tmp_path, monkeypatch):
    """As on vfat and CIFS."""
    mkdir = Path.mkdir

    def fixed(self: Path, *ignored: object, **more: object) -> None:
        mkdir(self)
        self.chmod(0o755)

    def refused(*ignored: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "mkdir", fixed)
    monkeypatch.setattr(os, "fchmod", refused)
    files.make_folder(tmp_path / "a" / "b", files.PUBLIC)
    assert (tmp_path / "a" / "b").is_dir()


def test_reports_are_not_readable_by_all(reports):
    assert {stat.S_IMODE(path.stat().st_mode) & 0o007 for path in reports.iterdir()} == {0}


def test_only_own_regular_files_are_read(folder, precious):
    (folder / "own").write_text("text")
    assert files.read_own(folder / "own") == b"text" and files.is_own(folder / "own")
    (folder / "link").symlink_to(precious)
    os.link(folder / "own", folder / "other name")
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    for name in ("own", "other name", "link", "fifo", "folder", "missing"):
        assert not files.is_own(folder / name)
        with pytest.raises(MburstError, match="cannot read"):
            files.read_own(folder / name)
    for name in ("link", "fifo", "folder", "missing"):
        with pytest.raises(MburstError, match="cannot read"):
            files.first_line(folder / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user, which takes root")
def test_files_of_others_are_not_sent(folder):
    (folder / "theirs").write_text("text")
    os.chown(folder / "theirs", 65534, 65534)
    with pytest.raises(MburstError, match="not a regular file of this user"):
        files.read_own(folder / "theirs")


def test_planted_reports_are_left_out_and_reported(reports, tmp_path, precious):
    """A copied summary, and a link in place of its page, are neither copied, attached nor followed."""
    out = tmp_path / "out"
    out.mkdir()
    for path in reports.iterdir():
        (out / path.name).write_bytes(path.read_bytes())
    [facts] = out.glob("rack-*.json")
    planted = out / facts.name.replace("r1", "zz")
    planted.write_bytes(facts.read_bytes().replace(b'"rack": "r1"', b'"rack": "zz"'))
    planted.with_suffix(".html").symlink_to(precious)
    digest = Digest.read("daily", out, START, START + DAY, [])
    assert [entry.summary["rack"] for entry in digest.entries] == ["r1"]
    assert any(planted.stem in line and "left out" in line for line in digest.troubles)
    from mburst.agent.delivery.kinds import folder as copying

    copying.send(
        digest, Delivery("www", "folder", 1, 0, 0, "", "always", {"path": str(tmp_path / "www")}), lambda: None
    )
    assert not any("zz" in path.name for path in (tmp_path / "www").iterdir())
    assert PRECIOUS not in "".join(path.read_text() for path in (tmp_path / "www").iterdir())


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"[",
        b"null",
        b'{"summary": 3,',
        b'{"summary": ' + b"[" * 100_000,
        b"\xff\xfe",
        b"x" * (3 << 20),
        b'{"summary": {"rack": "x", "since_ns": 99999999999999999999999, "until_ns": 1e400}}',
    ],
)
def test_an_index_ignores_foreign_files(reports, tmp_path, first):
    out = tmp_path / "out"
    out.mkdir()
    for path in reports.iterdir():
        (out / path.name).write_bytes(path.read_bytes())
    (out / "rack-planted-20261120T000000Z-20261121T000000Z.json").write_bytes(first)
    os.mkfifo(out / "rack-fifo-20261120T000000Z-20261121T000000Z.json")
    (out / "rack-loop.json").symlink_to(out / "rack-loop.json")
    assert [summary["rack"] for _, summary in summaries(out)] == ["r1"]
    assert "1 report" in page.write_index(out).read_text()


def test_a_summary_with_odd_numbers_is_not_a_report(reports, tmp_path):
    [facts] = reports.glob("rack-*.json")
    for was, becomes in (
        (b'"hosts": 1', b'"hosts": "<b>1</b>"'),
        (b'"hosts": 1', b'"hosts": true'),
        (b'"warnings": [', b'"warnings": [1, '),
        (b'"share": ', b'"share": "x", "y": '),
    ):
        text = facts.read_bytes()
        assert was in text
        (tmp_path / facts.name).write_bytes(text.replace(was, becomes, 1))
        assert summaries(tmp_path) == []


# --- locks ------------------------------------------------------------------------------------------------------------


def hold(path, ready, end):
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ready.set()
        end.wait(60)


def test_a_lock_of_a_user_who_can_only_read_the_folder_does_not_block(folder):
    """`flock FOLDER` takes such a lock: it needs no right to write."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with files.locked(folder, 5):
        assert stat.S_IMODE((folder / ".lock").stat().st_mode) == 0o600
    os.close(descriptor)
    assert list(folder.iterdir()) == []


def test_a_held_lock_is_one_line(folder):
    (folder / ".lock").write_text("")
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    process = context.Process(target=hold, args=(folder / ".lock", ready, end))
    process.start()
    try:
        assert ready.wait(60)
        with pytest.raises(MburstError, match="another process has held its lock"), files.locked(folder, 0.2):
            pass
    finally:
        end.set()
        process.join()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "hard link"])
def test_only_a_regular_file_is_locked_or_appended_to(folder, precious, kind):
    for name in (".lock", DeliveryLedger.NAME):
        path = folder / name
        {
            "link": lambda path: path.symlink_to(precious),
            "fifo": os.mkfifo,
            "folder": os.mkdir,
            "hard link": lambda path: os.link(precious, path),
        }[kind](path)
        with (
            pytest.raises(MburstError, match="cannot open"),
            files.locked(folder, 0.2) if name == ".lock" else DeliveryLedger(path),
        ):
            pass


def test_one_holder_of_a_lock_at_a_time(folder):
    inside, most, errors = [], [], []

    def work():
        for _ in range(20):
            try:
                with files.locked(folder, 60):
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 100 and max(most) == 1 and not errors and list(folder.iterdir()) == []


def test_the_ledger_is_private(folder):
    with DeliveryLedger(folder / "new" / DeliveryLedger.NAME):
        pass
    assert stat.S_IMODE((folder / "new" / DeliveryLedger.NAME).stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="works as another user, which takes root")
def test_another_user_cannot_take_the_lock(folder):
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.name.startswith(("pytest", "test")):
            parent.chmod(0o755)
    with files.locked(folder, 5):
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", "flock", "-n", folder / ".lock", "true"],
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0 and "Permission denied" in done.stderr

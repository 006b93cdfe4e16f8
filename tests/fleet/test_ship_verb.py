"""`mburst ship` and `mburst fleet status`: exit codes, signals, printed lines, and secrets that are never printed."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path

import pytest
from bounded import next_line
from ports import free_port
from racklib import START, fill
from s3lib import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from storelib import write
from waiting import wait_for
from werkzeug.wrappers import Request, Response

from mburst.__main__ import main
from mburst.agent import config
from mburst.errors import UsageError
from mburst.fleet import bucket
from mburst.fleet.receipts import Receipt, read_receipts, write_receipt
from mburst.fleet.status import status
from mburst.fleet.target import open_target
from mburst.sql import StoreFolder

HOUR = 3600 * 10**9


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = StoreFolder.create(tmp_path_factory.mktemp("filled") / "store")
    fill(store, {"cache-1": [(50, 10)]})
    return store.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "store")


def shipping(*arguments: str) -> subprocess.Popen[str]:
    """Starts the verb as a process."""
    words = [sys.executable, "-m", "mburst", "ship", *arguments]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_what_is_not_there_to_ship_is_named(tmp_path, capfd):
    probes = StoreFolder.create(tmp_path / "probes")
    write(probes, "probes", {"tx_ns": START})
    probes.seal()
    for words, lacking in (
        (["--level", "bursts"], "no bins are sealed yet, in which --level bursts detects bursts"),
        (["--tables", "queues"], "nothing of queues, recordings is sealed yet"),
    ):
        assert main(["ship", str(probes.path), str(tmp_path / words[1]), *words]) == 0
        assert capfd.readouterr().out == f"{lacking}: nothing was shipped\n"


def test_each_host_that_shipped_has_one_line(store, tmp_path, capfd):
    archive = str(tmp_path / "archive")
    assert main(["ship", str(store), archive]) == 0
    size = r"\([\d.]+ kB\)"
    line = f"host cache-1 in rack r1: 3 files {size} shipped, complete until 2026-11-20 00:00:09.000000 UTC\n"
    assert re.fullmatch(line, capfd.readouterr().out)
    assert main(["ship", str(store), archive, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    [host] = found.pop("hosts")
    assert host == {
        "rack": "r1", "host": "cache-1", "until_ns": START + 9 * 10**9 + 1, "sent": 0, "sent_bytes": 0, "there": 0,
        "waiting": 0, "missing": [], "receipts": [],
    }  # fmt: skip
    assert found["troubles"] == [] and found["target"] == archive and found["level"] == "all"


def test_a_damaged_file_gives_exit_code_1(store, tmp_path, capfd):
    [path] = store.glob("bins/*/*/*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert main(["ship", str(store), str(tmp_path / "archive")]) == 1
    out, error = capfd.readouterr()
    assert "2 files (" in out and "1 cannot be shipped" in out
    assert error.startswith(f"mburst: {path}: damaged: ") and error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tables", "bins,cables"], "unknown table 'cables'"),
        (["--every", "soon"], "invalid duration 'soon'"),
        (["--every", "1ms"], "less than a second"),
        (["--every", "1h", "--json"], "--json is of one call"),
        (["--level", "some"], "invalid choice: 'some'"),
    ],
)
def test_wrong_arguments_of_ship_are_one_line(store, tmp_path, capfd, arguments, message):
    assert main(["ship", str(store), str(tmp_path / "archive"), *arguments]) == 2
    error = capfd.readouterr().err
    assert message in error and error.count("\n") == 1 and not (tmp_path / "archive").exists()


def test_files_that_are_not_shipped_are_reported_once_while_that_lasts(store, tmp_path):
    write(StoreFolder.open(store), "recordings", {"rack": "unknown"})
    process = shipping(str(store), str(tmp_path / "archive"), "--every", "1s")
    try:
        assert "in rack unknown: 1 file is not shipped" in next_line(process, process.stderr)
        ledger = next((store / "shipped").glob("*.json"))
        seen = {ledger.stat().st_mtime_ns}
        wait_for(
            lambda: seen.add(ledger.stat().st_mtime_ns) or len(seen) > 8,
            "more calls, each of which writes it two or three times",
        )
        process.terminate()
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and error == ""


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_shipping_at_once_although_the_server_hangs(store, s3: S3Server, number):
    hangs, over = threading.Event(), threading.Event()

    def fault(request: Request) -> Response | None:
        if request.method == "PUT" and "/sources/" in request.path:
            hangs.set()
            over.wait()
        return None

    s3.fault = fault
    process = shipping(str(store), f"s3://{BUCKET}/p")
    try:
        assert hangs.wait(60)
        process.send_signal(number)
        out, error = process.communicate(timeout=60)
    finally:
        over.set()
        process.kill()
    assert process.returncode == 130
    assert error == "mburst: interrupted (what has arrived stays; the same command ships the rest)\n" and out == ""
    s3.fault = None
    assert main(["ship", str(store), f"s3://{BUCKET}/p"]) == 0
    [receipt] = read_receipts(open_target(f"s3://{BUCKET}/p"))
    assert len(receipt.files) == 3


def test_with_every_it_ships_again_until_a_signal(store, tmp_path):
    archive = tmp_path / "archive"
    process = shipping(str(store), str(archive), "--every", "1s")
    try:
        assert next_line(process).startswith("host cache-1 in rack r1: 3 files")
        fill(StoreFolder.open(store), {"cache-2": []})
        assert re.match(r"host cache-2 in rack r1: [12] files?", next_line(process))
        process.terminate()
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0 and error == ""
    assert {receipt.every_ns for receipt in read_receipts(open_target(archive))} == {10**9}


def test_failures_are_reported_and_tried_again(store, tmp_path, monkeypatch):
    from mburst.cli import ship

    archive, reported, stopped = tmp_path / "archive", [], threading.Event()
    archive.write_text("in the way")

    def report(*troubles: Exception) -> None:
        reported.extend(map(str, troubles))
        archive.unlink()

    monkeypatch.setattr(ship, "LEAST_WAIT_S", 0.01)
    monkeypatch.setattr(ship, "_name", lambda *troubles: report(*troubles) if troubles else None)
    monkeypatch.setattr(ship, "until_stopped", lambda work: work(stopped) or [])
    monkeypatch.setattr(ship, "report_lines", lambda *lines: stopped.set())
    given = ship.settings_of(parsed(str(store), str(archive), "--every", "1s"))
    assert ship.keep(StoreFolder.open(store), open_target(archive), given) == 0
    assert len(reported) == 1 and "archive/mburst.json: cannot write" in reported[0]
    assert len(list(read_receipts(open_target(archive)))) == 1


def parsed(*arguments: str):
    from mburst.cli import build_parser

    return build_parser("ship").parse_args(["ship", *arguments])


# --- secrets ----------------------------------------------------------------------------------------------------------


def is_clean(*texts: str) -> None:
    """Asserts that no spelling of a secret is in any of the texts."""
    quoted = urllib.parse.quote(SECRET_KEY, safe="")
    for text in texts:
        for secret in (ACCESS_KEY, SECRET_KEY, quoted, base64.b64encode(SECRET_KEY.encode()).decode(), "OSTRICH"):
            assert secret.lower() not in text.lower(), text[:500]
        assert "Traceback" not in text


@pytest.mark.parametrize("status_code", [200, 301, 400, 403, 404, 409, 500, 503])
def test_no_answer_of_a_server_reveals_a_secret(store, s3: S3Server, monkeypatch, capfd, status_code):
    monkeypatch.setattr(bucket, "RETRIES", 0)

    def fault(request: Request) -> Response:
        sent = f"{request.headers.get('Authorization')} {SECRET_KEY} {urllib.parse.quote(SECRET_KEY, safe='')}"
        body = f"<?xml version='1.0'?><Error><Code>{sent}</Code><Message>{sent}</Message><Key>{sent}</Key></Error>"
        return Response(body, status_code, {"ETag": sent, "Location": f"/{SECRET_KEY}"})

    s3.fault = fault
    for call in (["ship", str(store), f"s3://{BUCKET}/p"], ["fleet", "status", f"s3://{BUCKET}/p"]):
        assert main(call) == 1
        out, error = capfd.readouterr()
        is_clean(out, error)
        assert error.count("\n") == 1 and error.startswith(f"mburst: s3://{BUCKET}")


def test_secrets_are_in_no_file_object_or_process(store, s3: S3Server, tmp_path):
    hangs, over = threading.Event(), threading.Event()

    def fault(request: Request) -> None:
        if request.method == "PUT" and "/shipped/" in request.path:
            hangs.set()
            over.wait()

    s3.fault = fault
    process = shipping(str(store), f"s3://{BUCKET}/p")
    try:
        assert hangs.wait(60)
        is_clean(Path(f"/proc/{process.pid}/cmdline").read_text())
    finally:
        over.set()
        out, error = process.communicate(timeout=60)
    s3.fault = None
    target = open_target(f"s3://{BUCKET}/p")
    objects = [target.get(stored.key).decode(errors="replace") for stored in target.list()]
    files = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert process.returncode == 0 and len(objects) == 5 and len(files) >= 5
    is_clean(out, error, *objects, *files)


def test_an_unreachable_target_is_one_line(store, s3: S3Server, monkeypatch, capfd):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(bucket, "RETRIES", 1)
    assert main(["ship", str(store), f"s3://{BUCKET}/p"]) == 1
    error = capfd.readouterr().err
    assert "Connection refused (1 retries)" in error and error.count("\n") == 1


def test_without_the_library_a_bucket_is_refused_and_a_folder_is_not(store, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    assert main(["ship", str(store), f"s3://{BUCKET}/p"]) == 1
    assert "pip install 'mburst[ship]'" in capfd.readouterr().err
    assert main(["ship", str(store), str(tmp_path / "archive")]) == 0


# --- mburst.toml ------------------------------------------------------------------------------------------------------


def test_a_part_of_mburst_toml(tmp_path, capfd):
    path = tmp_path / "mburst.toml"
    path.write_text('store = "/s"\nhost = "h"\nrack = "r"\n[ship]\ntarget = "s3://b/p"\nevery = "1h"\n')
    assert main(["run", "--check", str(path)]) == 0
    assert "ship: mburst ship --every=1h --host=h --rack=r -- /s s3://b/p" in capfd.readouterr().out
    for wrong, message in (
        ('target = "s3://b/p"', "no every"),
        ('target = "s3://b/p"\nevery = "soon"', "invalid duration"),
        ('every = "1h"', "the following arguments are required: TARGET"),
        ('target = "s3://b/p"\nevery = "1h"\njson = true', "has no key 'json'"),
    ):
        path.write_text(f'store = "/s"\n[ship]\n{wrong}\n')
        with pytest.raises(UsageError, match=message):
            config.load(path)


def test_a_part_ships_with_the_secrets_of_mburst_env(store, s3: S3Server, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        with (tmp_path / "mburst.env").open("a") as file:
            file.write(f"{name}={os.environ[name]}\n")
        monkeypatch.delenv(name)
    (tmp_path / "mburst.env").chmod(0o600)
    (tmp_path / "mburst.toml").write_text(f'[ship]\nstore = "{store}"\ntarget = "s3://{BUCKET}/p"\nevery = "1h"\n')
    process = subprocess.Popen([sys.executable, "-m", "mburst", "run"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert next_line(process).startswith("ship: host cache-1 in rack r1: 3 files")
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    is_clean(out)


# --- mburst fleet status ----------------------------------------------------------------------------------------------


def receipt(host: str, until_ns: int, written_ns: int, **more: object) -> Receipt:
    facts = {
        "rack": "r1", "host": host, "level": "all", "tables": ("bins",), "definition": None, "since_ns": 0,
        "until_ns": until_ns, "written_ns": written_ns, "every_ns": None, "version": "1", "files": (),
    }  # fmt: skip
    return Receipt(**{**facts, **more})  # type: ignore[arg-type]


def test_status_reports_silent_hosts(tmp_path, capfd):
    target, now = open_target(tmp_path / "archive"), time.time_ns()
    for one in (
        receipt("ships", now - HOUR, now - HOUR),
        receipt("ships", now - 5 * HOUR, now - 5 * HOUR, missing=("older",)),
        receipt("is down", now - 3 * HOUR, now - 3 * HOUR),
        receipt("records nothing", now - 3 * HOUR, now),
        receipt("is ahead", now + HOUR, now + HOUR),
        receipt("ships daily", now - 30 * HOUR, now - 30 * HOUR, every_ns=24 * HOUR, rack="r2"),
        receipt("ships each minute", now - HOUR, now - HOUR, every_ns=HOUR // 60, rack="r2", missing=("a", "b")),
    ):
        write_receipt(target, one)
    found = {of.host: of for of in status(target, now_ns=now)}
    assert {host: of.silent for host, of in found.items()} == {
        "ships": "",
        "is down": "no receipt for 3 h",
        "records nothing": "nothing new for 3 h",
        "is ahead": "its clock is 1 h ahead",
        "ships daily": "",
        "ships each minute": "no receipt for 1 h",
    }
    assert found["ships"].missing == () and found["ships"].receipts == 2
    assert [of.host for of in status(target, "r2", now)] == ["ships daily", "ships each minute"]
    assert main(["fleet", "status", str(tmp_path / "archive")]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 7 and lines[0].split("  ")[0] == "rack" and "clock is" in lines[1]
    assert main(["fleet", "status", str(tmp_path / "archive"), "--rack", "r1", "--json"]) == 1
    answer = json.loads(capfd.readouterr().out)
    assert answer["silent"] == 3 and len(answer["hosts"]) == 4 and answer["damaged_receipts"] == []


def test_status_of_hosts_that_ship(tmp_path, capfd):
    target = open_target(tmp_path / "archive")
    assert main(["fleet", "status", str(tmp_path / "archive")]) == 1
    assert capfd.readouterr().err.startswith(f"mburst: {tmp_path / 'archive'}: no host has shipped here (")
    write_receipt(target, receipt("ships", time.time_ns(), time.time_ns()))
    assert main(["fleet", "status", str(tmp_path / "archive")]) == 0
    key = write_receipt(target, receipt("ships", time.time_ns(), time.time_ns() + 10**10))
    (tmp_path / "archive" / key).write_text("{}")
    capfd.readouterr()
    assert main(["fleet", "status", str(tmp_path / "archive")]) == 1
    out, error = capfd.readouterr()
    assert key in error and "ships" in out

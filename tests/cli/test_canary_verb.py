"""`mburst canary` and `mburst import canary` as users run them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bounded import next_line
from canarylib import FRAME, MS, record, run_of, sent_at
from hypothesis import given, settings
from hypothesis import strategies as st
from livelab import Lab, promiscuity
from liverecording import begin_recording
from privilegelib import for_all
from waiting import wait_for

from mburst.__main__ import main
from mburst.agent.config import PARTS
from mburst.analysis.canary.sensitivity import curves
from mburst.errors import MburstError
from mburst.services import canary
from mburst.sql import StoreFolder
from mburst.units import PLAUSIBLE_NS

MBURST = [sys.executable, "-m", "mburst"]
HERE = "127.0.0.1"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(list(arguments))
    printed = capsys.readouterr()
    assert code in (1, 2) and not printed.out, printed
    assert printed.err.startswith("mburst: ") and printed.err.count("\n") == 1, printed
    return printed.err


def test_no_part_of_run_starts_canaries() -> None:
    assert "canary" not in PARTS


def test_a_plan_states_what_would_be_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["canary", HERE, "--plan", "--link", "1G", "--size", "25kB,250kB", "--length", "0,1ms"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "225 bursts from 127.0.0.1 to 127.0.0.1, UDP port 9: 25 kB, 250 kB, each back to back and over 1 ms, 75 times; "
        "22.9 MB in about 5.99 s, at most 5 % of 1 Gb/s in any second",
        "left out, as the link carries no more: 250 kB over 1 ms",
    ]


def test_errors_are_refused_before_sending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = ["--sent", str(tmp_path / "sent")]
    assert "the speed of the recorded link is not known" in refused(capsys, "canary", HERE, *sent)
    StoreFolder.create(tmp_path / "new")
    assert "no packet was recorded yet, and the speed of the link comes with the first (give it with --link, " in (
        refused(capsys, "canary", HERE, "-o", str(tmp_path / "new"))
    )
    assert "the record of what was sent would be lost" in refused(capsys, "canary", HERE, "--link", "1G")
    assert "at most 25 % of the link" in refused(capsys, "canary", HERE, *sent, "--link", "1G", "--share", "0.5")
    assert "alone is more than 5 %" in refused(capsys, "canary", HERE, *sent, "--link", "1G", "--size", "7MB")
    assert "not an mburst store" in refused(capsys, "canary", HERE, "-o", str(tmp_path / "none"), "--link", "1G")
    assert "does not resolve" in refused(capsys, "canary", "no.such.host.invalid", *sent, "--link", "1G")
    short = ["--link", "1G", "--size", "3kB", "--length", "1ms", "--count", "1"]
    nowhere = str(tmp_path / "none" / "sent")
    assert "cannot be written" in refused(capsys, "canary", HERE, "--sent", nowhere, *short)
    (tmp_path / "sent").write_text("mine")
    assert "exists" in refused(capsys, "canary", HERE, *sent, "--link", "1G")
    assert (tmp_path / "sent").read_text() == "mine"


def test_a_host_that_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record of the sent bursts is kept nevertheless."""
    StoreFolder.create(tmp_path / "s")
    assert (
        main(
            [
                "canary",
                HERE,
                "-o",
                str(tmp_path / "s"),
                "--sent",
                str(tmp_path / "sent"),
                "--link",
                "1G",
                "--size",
                "1kB",
                "--length",
                "0",
                "--count",
                "2",
                "--timeout",
                "1s",
            ]
        )
        == 1
    )
    assert "no packet of 127.0.0.1 was recorded within an hour of the canary bursts" in capsys.readouterr().err
    assert canary.load(tmp_path / "sent").source == HERE


def some_notes(tmp_path: Path) -> tuple[Path, Any]:
    path, run = tmp_path / "sent", run_of(sent_at([10**18 + i * i * 10**8 for i in range(1, 40)], [40 * FRAME] * 39))
    path.write_text(run.text())
    return path, run


def test_notes_are_read_back_unchanged(tmp_path: Path) -> None:
    path, run = some_notes(tmp_path)
    assert canary.load(path) == run


def test_notes_have_the_plausible_times_of_all_that_is_read(tmp_path: Path) -> None:
    path, run = some_notes(tmp_path)
    begin_ns, end_ns = PLAUSIBLE_NS
    first, last = (replace(run.bursts[at], start_ns=ns, end_ns=ns) for at, ns in ((0, begin_ns), (-1, end_ns - 1)))
    path.write_text(replace(run, bursts=[first, *run.bursts[1:-1], last]).text())
    assert canary.load(path).bursts[-1].end_ns == end_ns - 1
    for wrong in ([replace(first, start_ns=begin_ns - 1), last], [first, replace(last, end_ns=end_ns)]):
        path.write_text(replace(run, bursts=wrong).text())
        with pytest.raises(MburstError, match="damaged"):
            canary.load(path)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damaged_notes_are_refused_in_a_line(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path, run = some_notes(tmp_path_factory.mktemp("notes"))
    payload = json.loads(path.read_text())
    odd = data.draw(st.sampled_from([None, -1, 2**70, 1.5, "x", [], {}, True]))
    place = data.draw(st.sampled_from(["head", "burst", "cut", "key"]))
    if place == "head":
        payload[data.draw(st.sampled_from(sorted(payload)))] = odd
    elif place == "burst":
        payload["bursts"][data.draw(st.integers(0, 38))][data.draw(st.sampled_from(sorted(payload["bursts"][0])))] = odd
    elif place == "key":
        payload["bursts"][3].popitem()
    text = json.dumps(payload)
    path.write_text(text[: data.draw(st.integers(0, len(text) - 1))] if place == "cut" else text)
    try:
        assert len(canary.load(path).bursts) == len(run.bursts)  # the odd value is one that may be there
    except MburstError as error:
        assert str(path) in str(error) and "\n" not in str(error)


def test_bursts_sent_by_another_machine_are_imported_beside_the_recorder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = some_notes(tmp_path)
    store = StoreFolder.create(tmp_path / "s")
    record(store, run.bursts, lambda ns: ns + 1800 * MS)
    assert main(["import", "canary", str(path), "-o", str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("cache-1 eth0 in: 1 Gb/s, bins of 100 µs, kernel stamps; a burst is 50 % of line rate")
    assert out[3].split("  ")[0] == "60.6 kB" and "39 (100 %)" in out[3]
    assert out[4].startswith("No canary burst of any size was shown to be detected with 95 % or more; at best 39 of 39")
    assert main(["import", "canary", str(path), "-o", str(tmp_path / "s"), "--bin", "1ms", "--json"]) == 0
    [curve] = json.loads(capsys.readouterr().out)
    assert curve["bin_ns"] == MS and curve["points"][0]["n"] == 39 and curve["batch"] == run.batch
    assert "no packet of 10.1.1.1" in refused(
        capsys, "import", "canary", str(path), "-o", str(tmp_path / "s"), "--sender", "10.1.1.1"
    )


# --- real packets -----------------------------------------------------------------------------------------------------

# So many that only one clock offset fits their random waits: with 20 bursts, two fit occasionally.
SENDING = ["--link", "1G", "--size", "3kB,60kB", "--length", "0", "--count", "24"]


@pytest.fixture(params=["off", "on"], ids=["plain", "GRO"])
def line(lab: Lab, request: pytest.FixtureRequest) -> Lab:
    """A lab with a link of 1 Gb/s, with or without offloads."""
    if not shutil.which("tc"):
        pytest.skip("a line of 1 Gb/s is made with tc, which is not installed")
    lab.offloads(request.param)
    lab.call(lab.far, f"ethtool -K {lab.b} rx-udp-gro-forwarding {request.param}")
    lab.call(
        lab.near,
        f"tc qdisc add dev {lab.a} root handle 1: tbf rate 1gbit burst 5k limit 4000000 overhead 24 linklayer ethernet",
    )
    return lab


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may write to."""
    folder = Path(tempfile.mkdtemp(prefix="mburst-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def run_in(namespace: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ip", "netns", "exec", namespace, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "LANG": "C.UTF-8"},
    )


def test_the_recorder_detects_canary_bursts(line: Lab, tmp_path: Path, shared: Path) -> None:
    """Once sent beside the recorder's store, and once by a user without rights, imported when the recorder has
    ended."""
    store = tmp_path / "s"
    recorder = begin_recording(line, store, line.b, "--link", "1G", "--host", "far", "--direction", "in")
    try:
        wait_for(lambda: promiscuity(line) or recorder.poll() is not None, "the recording begins")
        first = run_in(line.near, *MBURST, "canary", "10.9.0.2", "-o", str(store), *SENDING)
        assert first.returncode == 0, first.stderr
        nobody = ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all"]
        words = [*nobody, *MBURST, "canary", "10.9.0.2", "--sent", str(shared / "sent"), *SENDING]
        second = run_in(line.near, *for_all(words))
        assert second.returncode == 0, second.stderr
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=60)
    assert main(["import", "canary", str(shared / "sent"), "-o", str(store)]) == 0
    con = StoreFolder.open(store).connect()
    rows = con.execute("""
        SELECT batch, size_bytes, count(*) FILTER (excluded = ''), count(*) FILTER (detected), max(abs(offset_ns)),
               any_value(source), any_value(interface)
        FROM canary GROUP BY ALL ORDER BY ALL""").fetchall()
    assert len(rows) == 4
    for _, size, counted, detected, offset, *where in rows:
        assert detected == (counted if size == 60_000 else 0) and where == ["10.9.0.1", line.b]
        assert offset < 50 * MS  # one clock
    assert sum(row[2] for row in rows) >= 20
    # Frames that GRO merged are one packet each: the link's bytes are the same, with those of others, which are ARP.
    [(sent,)] = con.execute("SELECT sum(bytes + 24 * packets) FROM canary").fetchall()
    [(others,)] = con.execute(
        "SELECT coalesce(sum(84 * packets), 0) FROM sources WHERE source <> '10.9.0.1'"
    ).fetchall()
    assert con.execute("SELECT sum(wire_bytes) FROM bins").fetchall() == [(sent + others,)]
    assert {curve.setting["host"] for curve in curves(con)} == {"far"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_the_canary_at_once(number: signal.Signals, code: int, lab: Lab, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    process = subprocess.Popen(
        [
            "ip",
            "netns",
            "exec",
            lab.near,
            *MBURST,
            "canary",
            "10.9.0.2",
            "--sent",
            str(sent),
            "--link",
            "1G",
            "--size",
            "1kB",
            "--count",
            "20000",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert next_line(process).startswith("40,000 bursts from 10.9.0.1 to 10.9.0.2")
    time.sleep(1)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == code, error
    assert 0 < len(canary.load(sent).bursts) < 40_000


def test_a_host_without_a_route_is_one_line(lab: Lab, tmp_path: Path) -> None:
    done = run_in(lab.near, *MBURST, "canary", "192.0.2.1", "--sent", str(tmp_path / "sent"), "--link", "1G")
    assert (done.returncode, done.stderr) == (1, "mburst: 192.0.2.1: Network is unreachable\n")

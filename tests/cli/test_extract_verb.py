"""`mburst extract` on the sample capture: the packets that scapy finds there, with marks at the senders, the beginning
and the end that scapy finds; and refusals."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import scapy.layers.inet  # noqa: F401 - of the packets that are read
from places import ROOT

from mburst.__main__ import main
from mburst.sql import StoreFolder

CAPTURE = ROOT / "examples" / "cache-server" / "cache.pcap.zst"
DEFINITION = ["--bin", "1ms", "--threshold", "0.8", "--join", "5ms", "--min-duration", "3ms"]
HOST_MAC = "02:00:00:00:00:01"
AROUND_NS = 50_000_000
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb. Returns exit code, output and errors."""

    def carried_out(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        done = capsys.readouterr()
        return code, done.out, done.err

    return carried_out


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extract") / "store"
    assert main(["record", str(CAPTURE), "-o", str(folder), "--link", "1G", "--host", "cache", "--rack", "r1"]) == 0
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample capture, uncompressed."""
    path = tmp_path_factory.mktemp("plain") / "cache.pcap"
    path.write_bytes(pa.input_stream(str(CAPTURE), compression="zstd").read())
    return path


@pytest.fixture(scope="module")
def packets(plain: Path) -> list[Any]:
    """The packets of the capture, read by scapy."""
    from scapy.utils import rdpcap

    return list(rdpcap(str(plain)))


def stamp_ns(packet: Any) -> int:
    return round(packet.time * 10**9)


def commented(path: Path) -> dict[int, list[str]]:
    """Returns the comments of each packet that has any, by its number from 0."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "frame.comment", "-T", "json", "-e", "frame.number"]
    done = subprocess.run([*command, "-e", "frame.comment"], capture_output=True, text=True, check=True)
    layers = [one["_source"]["layers"] for one in json.loads(done.stdout)]
    return {int(one["frame.number"][0]) - 1: one["frame.comment"] for one in layers}


def bursts(run: Run, store: Path) -> list[dict[str, Any]]:
    code, text, _ = run("bursts", store, *DEFINITION, "--json")
    assert code == 0
    found: list[dict[str, Any]] = json.loads(text)
    return found


@pytest.mark.skipif(not shutil.which("tshark"), reason="comments are read by tshark")
@pytest.mark.parametrize("number", [1, 20])
def test_packets_and_marks_are_those_that_scapy_finds(
    number: int, run: Run, store: Path, packets: list[Any], tmp_path: Path
) -> None:
    from scapy.utils import rdpcap

    path = tmp_path / "burst.pcapng"
    code, text, errors = run("extract", store, "--burst", number, *DEFINITION, "-o", path)
    assert (code, errors) == (0, "") and f"burst {number} of cache cache in" in text
    burst = bursts(run, store)[number - 1]
    start, end = burst["start_ns"], burst["end_ns"]
    expected = [one for one in packets if start - AROUND_NS <= stamp_ns(one) < end + AROUND_NS]
    found = list(rdpcap(str(path)))
    assert [(stamp_ns(one), one.wirelen, bytes(one)) for one in found] == [
        (stamp_ns(one), one.wirelen, bytes(one)) for one in expected
    ]
    inside = [k for k, one in enumerate(expected) if start <= stamp_ns(one) < end and one.src != HOST_MAC]
    assert f"{len(inside):,} of them of the burst" in text and len(inside) == burst["packets"]
    comments = commented(path)
    assert comments[inside[0]][0].startswith(f"mburst: burst {number} begins: ")
    assert comments[inside[-1]][-1] == f"mburst: burst {number} ends"
    firsts: dict[str, int] = {}
    for k in inside:
        firsts.setdefault(expected[k]["IP"].src, k)
    marked = {
        match[1]: k
        for k, some in comments.items()
        for one in some
        if (match := re.match(r"mburst: sender (\S+): ", one))
    }
    assert marked == firsts
    counted = sum("in the fan-in" in one and "not in" not in one for some in comments.values() for one in some)
    assert counted == burst["fan_in"]
    [trigger] = [k for k, some in comments.items() if any("trigger" in one for one in some)]
    to_port = [int.from_bytes(bytes(one)[36:38], "big") for one in expected]  # the transport header is cut off
    asked = [k for k, one in enumerate(expected) if one.src == HOST_MAC and to_port[k] == 9000]
    assert trigger in asked and trigger < inside[0]


@pytest.mark.skipif(not shutil.which("tshark"), reason="comments are read by tshark")
def test_comments_have_names(run: Run, store: Path, tmp_path: Path) -> None:
    named, names, path = tmp_path / "store", tmp_path / "names.csv", tmp_path / "burst.pcapng"
    shutil.copytree(store, named)
    names.write_text("address,name\n198.19.0.1,db-1\n198.19.0.2,db\u202e2\n")
    assert run("names", named, names)[0] == run("extract", named, "--burst", 1, *DEFINITION, "-o", path)[0] == 0
    comments = " ".join(one for some in commented(path).values() for one in some)
    assert "mburst: sender db-1 (198.19.0.1): " in comments and r"sender db\u202e2 (198.19.0.2): " in comments
    assert "mburst: sender 198.19.0.3: " in comments


def test_a_capture_alone_gives_the_same_packets(run: Run, store: Path, tmp_path: Path) -> None:
    from scapy.utils import rdpcap

    mine, theirs = tmp_path / "capture.pcapng", tmp_path / "store.pcapng"
    assert run("extract", store, "--burst", "last", *DEFINITION, "-o", theirs)[0] == 0
    assert run("extract", CAPTURE, "--burst", "last", "--link", "1G", *DEFINITION, "-o", mine)[0] == 0
    assert list(map(bytes, rdpcap(str(mine)))) == list(map(bytes, rdpcap(str(theirs))))
    at = bursts(run, store)[-1]["start_ns"] + 1_000_000
    moment = f"2026-09-21T14:13:{at % (60 * 10**9) / 1e9:012.9f}"
    code, text, _ = run(
        "extract", CAPTURE, "--store", store, "--at", moment, *DEFINITION, "-o", mine, "--around", "0ms"
    )
    assert code == 0 and "burst 20 of cache cache in" in text
    assert len(rdpcap(str(mine))) < len(rdpcap(str(theirs)))
    assert run("extract", CAPTURE, "--store", store, "--at", moment + "+02:00", *DEFINITION, "-o", mine)[0] == 1


def test_bursts_have_the_numbers_that_are_printed(run: Run, store: Path, tmp_path: Path) -> None:
    """The numbers are those of the list by time, even if the table is grouped by port direction."""
    rows = bursts(run, store)
    code, text, _ = run("bursts", store, "--bin", "1ms", "--threshold", "0.0005")
    _, listed, _ = run("bursts", store, "--bin", "1ms", "--threshold", "0.0005", "--json")
    starts = [one["start_ns"] for one in json.loads(listed)]
    printed = {int(line.split()[0]): line.split()[2] for line in text.splitlines() if re.match(r" *\d+  2026", line)}
    assert code == 0 and len(rows) == 20 and len(printed) == len(starts) > 100
    assert all(printed[number].endswith(f"{start % 10**9 // 1000:06d}") for number, start in enumerate(starts, 1))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["STORE", "--burst", "21"], 1, "no burst 21: there are 20"),
        (["STORE", "--burst", "0"], 1, "no burst 0"),
        (["STORE", "--burst", "-1"], 2, "invalid number of a burst '-1'"),
        (["STORE", "--burst", "many"], 2, "invalid number of a burst 'many'"),
        (["STORE"], 2, "one of the arguments --burst --at is required"),
        (["STORE", "--at", "2026-09-21T14:13:20"], 1, "no burst at 2026-09-21 14:13:20.000000 UTC: the nearest is 1"),
        (["STORE", "--burst", "1", "--around", "5"], 2, "invalid duration '5'"),
        (["STORE", "CAPTURE", "--burst", "1"], 2, "is a folder, and more is named beside it"),
        (["FOLDER", "--burst", "1"], 1, "neither a store nor a ring of packets"),
        (["gone.pcap", "--burst", "1"], 1, "gone.pcap: no such file"),
        (["OTHER", "--store", "STORE", "--burst", "1"], 1, "no packet of burst 1"),
        (["CAPTURE", "--burst", "1"], 1, "link"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], code: int, message: str, run: Run, store: Path, plain: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.pcap"
    subprocess.run(["editcap", "-r", str(plain), str(other), "1-50"], check=True)
    places = {"STORE": store, "CAPTURE": CAPTURE, "FOLDER": tmp_path, "OTHER": other}
    output = tmp_path / "out.pcapng"
    given = [str(places.get(one, one)) for one in arguments]
    found, _, errors = run("extract", *given, *DEFINITION, "-o", output)
    assert (found, errors.count("\n")) == (code, 1) and message in errors, errors
    assert not output.exists() and not list(tmp_path.glob(".out*"))


def test_a_ring_without_a_packet_is_reported(run: Run, tmp_path: Path) -> None:
    ring = StoreFolder.create(tmp_path / "s").path / "packets" / "h" / "eth0"
    ring.mkdir(parents=True)
    found, _, errors = run("extract", ring, "--burst", "1", "-o", tmp_path / "out.pcapng")
    assert found == 1 and f"{ring}: this ring has no packet yet (" in errors


def test_a_capture_that_lacks_packets_is_reported(run: Run, store: Path, plain: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.pcap"
    subprocess.run(["editcap", "-r", str(plain), str(half), "1-400"], check=True)
    number = next(k for k in range(1, 21) if run("extract", half, "--store", store, "--burst", k, *DEFINITION, "-o",
                                                 tmp_path / "one.pcapng")[2])  # fmt: skip
    code, _, errors = run(
        "extract", half, "--store", store, "--burst", number, *DEFINITION, "-o", tmp_path / "one.pcapng"
    )
    assert code == 1 and re.search(
        r"the recording counted [\d,]+ packets in the burst, and [\d,]+ are in these", errors
    )


def test_the_recorded_capture_is_never_replaced(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pcap.zst"
    shutil.copy(CAPTURE, mine)
    code, _, errors = run("extract", mine, "--burst", "1", "--link", "1G", *DEFINITION, "-o", mine)
    assert code == 2 and "the output is the capture itself" in errors
    assert mine.read_bytes() == CAPTURE.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lo", "--backend", "ebpf", "--keep-packets", "2G"], "--backend ebpf counts in the kernel and has no packets"),
        (["lo", "--keep-packets", "1MB"], "--keep-packets is less than 16 MB"),
        ([str(CAPTURE), "--keep-packets", "2G"], "--keep-packets is for interfaces"),
    ],
)
def test_invalid_settings_of_a_ring_are_refused(arguments: list[str], message: str, run: Run, tmp_path: Path) -> None:
    code, _, errors = run("record", *arguments, "-o", tmp_path / "store")
    assert code == 2 and message in errors and errors.count("\n") == 1

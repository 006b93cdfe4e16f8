"""The wheel: what is inside; and it works on fresh systems without a compiler, with an old and the newest Python."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chroots import Chroot
from places import ROOT
from tracked import tracked

from mburst.__main__ import main

MODULES = (
    "mburst/capture/_engine.abi3.so",
    "mburst/telemetry/probe/_exchange.abi3.so",
    "mburst/sql/compaction/_seconds.abi3.so",
)
INSIDE = {"libpcap", "zlib", "libzstd", "liblzma", "libbpf", "libelf"}
GLIBC = (2, 28)  # of RHEL 8 and Debian 10
SAMPLE = ROOT / "examples" / "cache-server" / "cache.pcap.zst"
SYSTEM = {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # all glibc's

# sid has the newest Python that can be had from Debian.
SUITES = {"bookworm": (3, 11), "sid": (3, 14)}

CAPTURE = """
import signal, socket, subprocess, sys, time
from pathlib import Path
command = ["/opt/v/bin/mburst", "record", "wire", "-o", "/tmp/" + sys.argv[1], "--link", "1G", "--backend", sys.argv[1]]
recording = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
far = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
far.bind(("far", 0))
def begun():
    return any(path.stat().st_size > 4000 for path in Path("/tmp", sys.argv[1]).glob("hot/bins/*.log"))
end = time.monotonic() + 60
while recording.poll() is None and time.monotonic() < end and not begun():
    for number in range(200):
        far.send(bytes.fromhex("020000000001020000000002080045") + bytes(200))
    time.sleep(0.1)
recording.send_signal(signal.SIGINT)
print(recording.communicate(timeout=60)[0])
"""


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return folder


@pytest.mark.parametrize("module", MODULES)
def test_modules_need_an_old_glibc_and_no_other_library(unpacked: Path, module: str) -> None:
    if not shutil.which("objdump"):
        pytest.skip("needs objdump")
    text = subprocess.run(["objdump", "-p", "-T", unpacked / module], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, number.split("."))) for number in re.findall(r"\bGLIBC_([\d.]+)", text)}
    assert versions and max(versions) <= GLIBC
    assert set(re.findall(r"NEEDED\s+(\S+)", text)) <= SYSTEM
    exported = re.findall(r"^[0-9a-f]+ g\s.*\s(\S+)$", text, re.M)
    assert len(exported) == 1 and exported[0].startswith("PyInit_")  # no zlib of ours for others
    assert "RUNPATH" not in text and "RPATH" not in text


def test_what_is_inside_is_named_with_version_and_licence(unpacked: Path) -> None:
    [sbom] = unpacked.glob("*.dist-info/sboms/mburst.cdx.json")
    parts = [part for part in json.loads(sbom.read_text())["components"] if part.get("purl", "").startswith("pkg:deb/")]
    assert {part["name"] for part in parts} == INSIDE
    for part in parts:
        source, version = re.fullmatch(r"pkg:deb/debian/(\S+)@(\S+)\?arch=source", part["purl"]).groups()
        assert part["version"] == version and part["properties"] == [{"name": "mburst:linked", "value": "static"}]
        assert "copyright" in (sbom.parent.parent / "licenses" / "libraries" / source).read_text("utf-8").lower()


def test_nothing_is_in_the_wheel_that_only_building_needs(unpacked: Path) -> None:
    assert not [path for path in unpacked.rglob("*") if path.suffix in (".c", ".h", ".o")]


def test_the_source_archive_has_what_git_has_of_the_package(sdist: Path) -> None:
    with tarfile.open(sdist) as file:
        packed = {name.partition("/")[2] for name in file.getnames()}
    rooms = ["mburst", "capture", "telemetry", "sql", "analysis", "dashboards", "examples"]
    links = {f"mburst/{room}" for room in rooms}
    assert {str(path) for path in tracked(*rooms)} - links <= packed


@pytest.fixture(scope="module", params=SUITES)
def system(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chroot]:
    made = Chroot(tmp_path_factory.mktemp("system") / "root", request.param, "python3-venv")
    assert not made.check("sh", "-c", "command -v cc gcc clang || :")
    version = made.check("python3", "-c", "import sys; print(*sys.version_info[:2])")
    assert tuple(map(int, version.split())) >= SUITES[request.param]
    shutil.copy(wheel, made.root / "tmp")
    made.check("python3", "-m", "venv", "/opt/v")
    made.check("/opt/v/bin/pip", "install", "--quiet", "--only-binary", ":all:", f"/tmp/{wheel.name}[demo]")
    yield made
    shutil.rmtree(made.root)


def test_it_reads_files_as_this_tree_does(
    system: Chroot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--bin", "1ms", "--threshold", "0.8", "--json"]
    shutil.copy(SAMPLE, system.root / "tmp" / "cache.pcap.zst")
    assert main(["record", str(SAMPLE), "-o", "store", "--link", "1G", "--host", "h"]) == 0
    capfd.readouterr()
    assert main(["bursts", "store", *options]) == 0
    here = json.loads(capfd.readouterr().out)
    system.check(
        "/opt/v/bin/mburst", "record", "/tmp/cache.pcap.zst", "-o", "/tmp/store", "--link", "1G", "--host", "h"
    )
    there = json.loads(system.check("/opt/v/bin/mburst", "bursts", "/tmp/store", *options))
    assert len(there) > 10 and there == here


def test_it_generates_and_investigates_the_demo(system: Chroot) -> None:
    printed = system.check("sh", "-c", "cd /tmp && /opt/v/bin/mburst demo --simulate")
    assert "Detected 40 of 40 incasts" in printed


@pytest.mark.parametrize("backend", ["afpacket", "libpcap", "ebpf"])
def test_it_captures_from_an_interface(system: Chroot, backend: str) -> None:
    doctor = system.check("/opt/v/bin/mburst", "doctor")
    ready = re.search(rf"^  {backend} +(.*)$", doctor, re.M)
    if backend == "ebpf" and not ready[1].startswith("ready"):
        assert "kernel" in ready[1]  # and not that it was built without
        pytest.skip(f"this host has no tcx: {ready[1]}")
    (system.root / "tmp" / "capture.py").write_text(CAPTURE)
    printed = system.check("/opt/v/bin/python", "/tmp/capture.py", backend, pair=True)
    assert int(re.search(r"wire in: ([\d,]+) packets", printed)[1].replace(",", "")) >= 200, printed

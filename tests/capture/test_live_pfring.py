"""The PF_RING backend against a library that the tests build (tests/c/fake_pfring.c)."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from pathlib import Path

import livelab
import pytest

STAMP_NS = 1_700_000_000_123_456_789
COUNT = 60
NET_RAW = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)  # permitted and effective: struct vfs_cap_data


@pytest.fixture(scope="module")
def library():
    return livelab.build_pfring()


@pytest.fixture
def packets(tmp_path):
    path = tmp_path / "packets.pcap"
    path.write_bytes(pcap(1))
    return path


def frame(i):
    return (b"\xff" * 6 + b"\x02\0\0\0\0\x01" + (b"\x88\xb5" if i % 2 else b"\x88\xb6")).ljust(60 + 5 * i, b"\1")


def pcap(linktype):
    written = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, linktype)
    for i in range(COUNT):
        at = STAMP_NS + i * 1_000_001
        written += struct.pack("=IIII", at // 10**9, at % 10**9, len(frame(i)), len(frame(i)) + 7) + frame(i)
    return written


def capture(driver, library, target, *arguments):
    command = [str(driver), "backend=pfring", f"target={target}", "mode=dump", "idle_ms=100", *arguments]
    return livelab.run_driver(command, environment={"MBURST_PFRING_LIB": str(library)})


def test_a_file_as_a_device(live_driver, library, packets):
    got = capture(live_driver, library, f"pcap:{packets}", "snaplen=96")
    assert got.total["status"] == 0 and not got.total["notice"]
    assert [bytes.fromhex(each["data"]) for each in got.frames] == [frame(i)[:96] for i in range(COUNT)]
    assert [each["len"] for each in got.frames] == [len(frame(i)) + 7 for i in range(COUNT)]
    assert [each["ts_ns"] for each in got.frames] == [(STAMP_NS + i * 1_000_001) // 1000 * 1000 for i in range(COUNT)]
    assert {each["quality"] for each in got.frames} == {8}  # µs, and the origin of the stamps is unknown
    assert {each["direction"] for each in got.frames} == {0}


def test_stamps_directions_and_drops_of_a_card(live_driver, library, packets):
    """Hardware stamps if a packet has one, otherwise software stamps with nanoseconds."""
    got = capture(live_driver, library, f"card:{packets}", "cluster=9")
    stamps = [STAMP_NS + i * 1_000_001 for i in range(COUNT)]
    assert [each["ts_ns"] for each in got.frames] == [ns if i % 2 else ns + 5000 for i, ns in enumerate(stamps)]
    assert [each["quality"] for each in got.frames] == [2 if i % 2 else 1 for i in range(COUNT)]
    assert [each["direction"] for each in got.frames] == [2 if i % 3 == 2 else 1 for i in range(COUNT)]
    assert got.total["dropped"] == sum(loss["packets"] for loss in got.losses) == COUNT // 10


@pytest.mark.parametrize(("direction", "kept"), [("in", COUNT * 2 // 3), ("out", COUNT // 3)])
def test_a_direction_is_selected(live_driver, library, packets, direction, kept):
    assert capture(live_driver, library, f"card:{packets}", f"direction={direction}").total["frames"] == kept


def test_a_filter_selects_frames(live_driver, library, packets):
    assert capture(live_driver, library, f"pcap:{packets}", "filter=ether proto 0x88b5").total["frames"] == COUNT // 2
    refused = capture(live_driver, library, f"pcap:{packets}", "filter=nonsense here").total
    plain = livelab.run_driver(
        [str(live_driver), "backend=file", f"target={packets}", "mode=dump", "filter=nonsense here"], environment={}
    ).total
    assert refused["error"].startswith("filter 'nonsense here'") and "syntax error" in refused["error"]
    assert refused["error"] == plain["error"]  # the message of libpcap, as without PF_RING


def test_a_device_without_clusters_is_reported(live_driver, library, packets):
    got = capture(live_driver, library, f"pcap:{packets}", "cluster=3")
    assert got.total["frames"] == COUNT and "takes no cluster" in got.total["notice"]


@pytest.mark.parametrize("folder", ["mnt", "zc", "stack:default"])
def test_a_path_may_contain_the_name_of_another_module(live_driver, library, packets, tmp_path, folder):
    """The library searches for names of its modules anywhere in the name of a device."""
    (tmp_path / folder).mkdir()
    path = packets.rename(tmp_path / folder / "packets.pcap")
    assert capture(live_driver, library, f"pcap:{path}").total["frames"] == COUNT


def test_a_file_of_another_link_type(live_driver, library, tmp_path):
    path = tmp_path / "raw.pcap"
    path.write_bytes(pcap(101))
    assert capture(live_driver, library, f"pcap:{path}").ready["linktype"] == 101


def test_a_truncated_file(live_driver, library, packets):
    packets.write_bytes(packets.read_bytes()[:-1])
    got = capture(live_driver, library, f"pcap:{packets}").total
    assert got["frames"] == COUNT - 1
    assert got["status"] < 0
    assert got["error"] == f"pcap:{packets}: pfring_recv failed (-1): the file is cut or damaged here"


def test_a_missing_device_is_reported(live_driver, library, tmp_path):
    (tmp_path / "text.pcap").write_text("no capture")
    for target, reason in (
        ("lo", "PF_RING cannot open it: the kernel module pf_ring is not loaded"),
        ("nosuch0", "no such interface"),
        ("zc:nosuch0", "PF_RING cannot open it: the kernel module pf_ring is not loaded"),
        (f"{tmp_path}/text.pcap", f"a file is read as pcap:{tmp_path}/text.pcap"),
        (f"pcap:{tmp_path}/none.pcap", "neither a file that can be read nor an interface"),
        (f"pcap:{tmp_path}/text.pcap", "PF_RING cannot read it: it knows what libpcap knows"),
    ):
        got = capture(live_driver, library, target).total
        assert got["status"] < 0 and got["error"].startswith(f"{target}: {reason}")


@pytest.mark.parametrize(
    ("name", "reason"), [("/nonexistent/libpfring.so", "not installed"), ("libpcap.so.0.8", "has no pfring_open")]
)
def test_a_missing_library_is_reported(live_driver, packets, name, reason):
    for arguments in ([], ["mode=check"]):
        got = (
            capture(live_driver, name, f"pcap:{packets}", *arguments).total
            if not arguments
            else livelab.run_driver(
                [str(live_driver), "backend=pfring", "mode=check"], environment={"MBURST_PFRING_LIB": name}
            ).total
        )
        assert got["status"] < 0 and reason in got["error"]


def check(driver, environment, before=()):
    return livelab.run_driver([*before, str(driver), "backend=pfring", "mode=check"], environment=environment).total


@pytest.mark.parametrize("name", ["libpfring.so.8", "libpfring.so.1", "libpfring.so"])
def test_the_library_is_found_by_its_installed_names(live_driver, library, tmp_path, name):
    (tmp_path / name).write_bytes(library.read_bytes())
    message = check(live_driver, {"LD_LIBRARY_PATH": str(tmp_path)})["error"]
    assert message.startswith("the kernel module pf_ring is not loaded")
    (tmp_path / name).write_text("no library")
    assert f"{tmp_path / name}: " in check(live_driver, {"LD_LIBRARY_PATH": str(tmp_path)})["error"]


def test_the_backend_is_ready_only_with_the_kernel_module(live_driver, library):
    environment = {"MBURST_PFRING_LIB": str(library)}
    without = check(live_driver, environment)
    assert without["status"] < 0 and "modprobe pf_ring" in without["error"]
    mounted = 'mount -t tmpfs none /sys/module && mkdir /sys/module/pf_ring && exec "$@"'
    assert check(live_driver, environment, ["unshare", "--mount", "sh", "-c", mounted, "sh"])["status"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a program capabilities")
def test_a_program_with_capabilities_ignores_a_library_from_the_environment(fast_driver, library):
    """The environment names code to load: setuid programs and those with capabilities must not use it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        privileged = shutil.copy(fast_driver, folder)
        named = shutil.copy(library, Path(folder, "libnamed.so"))
        Path(folder).chmod(0o755)
        Path(named).chmod(0o755)
        environment, nobody = {"MBURST_PFRING_LIB": str(named)}, ["setpriv", "--reuid=65534", "--clear-groups"]
        assert "pf_ring is not loaded" in check(privileged, environment, nobody)["error"]
        os.setxattr(privileged, "security.capability", NET_RAW)
        assert "not installed" in check(privileged, environment, nobody)["error"]

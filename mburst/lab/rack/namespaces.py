"""Network namespaces: entering them, running iproute2 in them, finding their owners, and removing them with their
content.

The namespaces of a rack are named `mb-PID-START-SERIAL-HOST`. PID and START (the owner's start time in clock ticks
since boot) identify the owning process. So the leftovers of a killed owner can be distinguished from a living rack,
even if its process id was reused.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .errors import RackUnavailable

FOLDER = Path("/run/netns")
NAME = re.compile(r"(mb-(\d+)-([0-9a-f]+)-\d+)-(?:tor|cache|api|s\d+)")

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
_SIOCGIFFLAGS = 0x8913
_IFF_RUNNING = 0x40
# ETHTOOL_STXCSUM, SSG, STSO, SGSO of linux/ethtool.h. Checksums come first, because the others depend on them.
_SEND_OFFLOADS = (0x17, 0x19, 0x1F, 0x24)
_GRO = 0x2C

_libc = ctypes.CDLL(None, use_errno=True)


def _set_namespace(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")


def enter(namespace: str) -> None:
    """Move the calling thread into the network namespace permanently."""
    descriptor = os.open(FOLDER / namespace, os.O_RDONLY)
    try:
        _set_namespace(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Move the calling thread into the network namespace for this context. Sockets opened in it stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(namespace)
        try:
            yield
        finally:
            _set_namespace(home)
    finally:
        os.close(home)


def run_batch(tool: list[str], lines: Iterable[str], hint: str) -> None:
    """Run `ip`, `tc` or `bridge` on all lines at once. Raises RackUnavailable with the tool's first message and the
    hint."""
    argv = [*tool, "-batch", "-"]
    done = subprocess.run(argv, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        words = next((line for line in done.stderr.splitlines() if line.strip()), f"exit code {done.returncode}")
        raise RackUnavailable(f"cannot build the rack: {tool[0]}: {words}", hint)


def set_sysctl(key: str, value: int) -> None:
    """Set net.KEY in the namespace of the calling thread. Does nothing if the kernel lacks that key."""
    path = Path("/proc/sys/net", key)
    if path.exists():
        path.write_text(str(value))


def set_offloads(control: socket.socket, interface: str, *, send: bool, gro: bool) -> None:
    """Turn the checksum, scatter-gather and segmentation offloads, and GRO, of an interface on or off
    (linux/ethtool.h)."""
    for command, on in [*((command, send) for command in _SEND_OFFLOADS), (_GRO, gro)]:
        value = ctypes.create_string_buffer(struct.pack("=II", command, on), 8)
        request = struct.pack("16sP", interface.encode(), ctypes.addressof(value))
        try:
            fcntl.ioctl(control, _SIOCETHTOOL, request.ljust(40, b"\0"))
        except OSError as error:
            raise RackUnavailable(f"cannot build the rack: offloads of {interface}: {error.strerror}") from None


def is_running(control: socket.socket, interface: str) -> bool:
    """Whether the interface is up with a carrier, in the namespace of the socket."""
    reply = fcntl.ioctl(control, _SIOCGIFFLAGS, interface.encode().ljust(40, b"\0"))
    return bool(struct.unpack_from("16sh", reply)[1] & _IFF_RUNNING)


def _start_ticks(pid: int) -> int | None:
    """Returns when the process started, in clock ticks since boot (field 22 of proc(5) stat); None if it does not
    exist."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def rack_name(serial: int) -> str:
    """Returns the name of this process's rack number `serial`."""
    return f"mb-{os.getpid()}-{_start_ticks(os.getpid()):x}-{serial}"


def namespaces_of(rack: str) -> list[str]:
    """Returns the existing namespaces of a rack."""
    return [name for name, owner in _all() if owner == rack]


def dead_racks() -> list[str]:
    """Returns racks that still exist although their owner is gone."""
    racks = {}
    for name, rack in _all():
        if match := NAME.fullmatch(name):
            racks[rack] = _start_ticks(int(match[2])) == int(match[3], 16)
    return sorted(rack for rack, alive in racks.items() if not alive)


def _all() -> list[tuple[str, str]]:
    names = sorted(os.listdir(FOLDER)) if FOLDER.is_dir() else []
    return [(name, match[1]) for name in names if (match := NAME.fullmatch(name))]


def processes_in(names: Iterable[str]) -> list[int]:
    """Returns the processes, except this one, in any of the namespaces."""
    with contextlib.ExitStack() as held:  # else the number of a removed namespace could be reused
        nodes = set()
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                nodes.add(f"net:[{os.fstat(held.enter_context(open(FOLDER / name)).fileno()).st_ino}]")
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):  # processes may end at any time
                if entry.isdigit() and os.readlink(f"/proc/{entry}/ns/net") in nodes and int(entry) != os.getpid():
                    found.append(int(entry))
        return found


def _end_processes(names: list[str], patience_s: float = 2.0) -> None:
    deadline = time.monotonic() + patience_s
    asked = set()
    while left := processes_in(names):
        late = time.monotonic() > deadline
        for pid in left:
            if late or pid not in asked:
                asked.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        if time.monotonic() > deadline + patience_s:
            return
        time.sleep(0.01)


def remove(rack: str) -> None:
    """End the processes in a rack's namespaces, then remove these with their links and queues. Repeating it is
    harmless."""
    names = namespaces_of(rack)
    _end_processes(names)
    if names:
        lines = "".join(f"netns del {name}\n" for name in names)
        subprocess.run(["ip", "-force", "-batch", "-"], input=lines, text=True, capture_output=True, check=False)

"""A host whose recorder pins the counting program in the kernel: a lab with its own BPF file system."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import livelab
import pytest
from bounded import next_line
from kernel_bins import TCX_INGRESS, why_not
from liverecording import clock_logs
from privilegelib import for_all
from waiting import wait_for

MBURST = [sys.executable, "-m", "mburst"]
RECORD = [*MBURST, "record", "--backend", "ebpf", "--json"]
BPF_OBJ_GET, BPF_PROG_QUERY, BPF_XDP = 7, 16, 37


class PinHost:
    """A lab with its own BPF file system, at /sys/fs/bpf of a mount namespace that lasts as long as the lab."""

    def __init__(self, lab: livelab.Lab) -> None:
        self.lab = lab
        script = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && echo ready && exec sleep infinity"
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        self.holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert next_line(self.holder) == "ready\n"

    def command(self, *words: str) -> list[str]:
        """Returns the command that runs WORDS on it, where the interface is."""
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--net=/run/netns/{self.lab.far}", *words]

    def sh(self, *words: str) -> str:
        return subprocess.run(self.command(*words), capture_output=True, text=True, check=True).stdout

    def pins(self) -> list[str]:
        """Returns the pinned objects."""
        return self.sh("sh", "-c", "find /sys/fs/bpf/mburst -type f 2>/dev/null || :").splitlines()

    def object(self, path: str) -> int:
        """Returns a descriptor of the object that is pinned there."""
        name = ctypes.create_string_buffer(f"/proc/{self.holder.pid}/root{path}".encode())
        attributes = ctypes.create_string_buffer(128)
        struct.pack_into("=Q", attributes, 0, ctypes.addressof(name))
        opened = ctypes.CDLL(None, use_errno=True).syscall(321, BPF_OBJ_GET, attributes, 128)
        assert opened >= 0, os.strerror(ctypes.get_errno())
        return int(opened)

    def programs(self, place: int = TCX_INGRESS) -> list[int]:
        """Returns the kernel's ids of the programs that are attached at PLACE."""
        if place == BPF_XDP:
            shown = livelab.sh(f"ip -n {self.lab.far} -d link show {self.lab.b}")
            return [int(number) for number in re.findall(r"prog/xdp id (\d+)", shown)]
        attributes, ids = ctypes.create_string_buffer(128), ctypes.create_string_buffer(64)
        with self.lab.inside(self.lab.far):
            index = socket.if_nametoindex(self.lab.b)
            struct.pack_into("=IIIIQI", attributes, 0, index, place, 0, 0, ctypes.addressof(ids), 16)
            done = ctypes.CDLL(None, use_errno=True).syscall(321, BPF_PROG_QUERY, attributes, 64)
        assert not done, os.strerror(ctypes.get_errno())
        return list(struct.unpack_from(f"={struct.unpack_from('=I', attributes, 24)[0]}I", ids))

    def begin(self, store, *options: str, name: str = "", environment=None, user="root", wrapper=()):
        """Starts a recorder, and does not wait for it."""
        words = [
            *wrapper,
            *RECORD,
            "-i",
            name or self.lab.b,
            "-o",
            str(store),
            *(["--user", user] if user else []),
            *options,
        ]
        return subprocess.Popen(
            self.command(*(words if user else for_all(words))),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=store.parent,
            env={**os.environ, **(environment or {})},
        )

    def record(self, store, *options: str, **more):
        """Starts a recorder and waits until it has begun."""
        before = clock_logs(store)
        process = self.begin(store, "--pin", *options, **more)
        wait_for(lambda: process.poll() is not None or clock_logs(store) - before)
        assert process.poll() is None, process.communicate()
        return process

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()
        if self.holder.stdout:
            self.holder.stdout.close()


def end(process, number=signal.SIGINT) -> dict:
    """Ends a recorder. Returns the row of the received direction."""
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 0), err
    [row] = [row for row in map(json.loads, out.splitlines()) if row["direction"] == "in"]
    return row


def kill(process) -> None:
    process.kill()
    process.communicate()


@contextmanager
def one_host() -> Iterator[PinHost]:
    if os.geteuid() != 0:
        pytest.skip("pins are tested in namespaces of their own, which only root can make")
    if reason := why_not():
        pytest.skip(f"this machine cannot count in the kernel: {reason}")
    with livelab.make_lab() as lab:
        made = PinHost(lab)
        try:
            yield made
        finally:
            made.close()

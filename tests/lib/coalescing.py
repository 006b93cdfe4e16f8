"""The cache server of a rack behind a network interface whose interrupts are coalesced (tests/c/coalescing_nic.c)."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field

import building
from bounded import next_line

from mburst.lab.rack import Rack
from mburst.lab.rack.plan import CACHE_IP, mac

INTERFACE = "nic0"
_WIRE_MAC = "02:00:0a:ff:ff:fe"  # of the end of the wire, which accepts no frames itself


@dataclass
class Coalesced:
    """Statistics of the interface: frames that it handed to the host, in how many interrupts, and most at once. Filled
    in when it has ended."""

    frames: int = 0
    interrupts: int = 0
    most: int = 0
    interface: str = field(default=INTERFACE)


@contextlib.contextmanager
def coalescing(rack: Rack, hold_us: int) -> Iterator[Coalesced]:
    """During the block, the cache server receives on the interface `nic0`: frames that arrive are held for HOLD_US
    after the first."""
    program = building.linked(("tests/c/coalescing_nic.c",), ("-O2",), libraries=())
    cache, done = rack.plan.namespace("cache"), Coalesced()
    _in(cache, f"addr flush dev eth0\nlink set eth0 address {_WIRE_MAC} arp off")
    argv = [str(program), "eth0", INTERFACE, str(hold_us)]
    process = rack.exec_in(cache, argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert next_line(process) == "ready\n"
    neighbours = [
        f"neigh add {nic.address} lladdr {mac(nic.address)} dev {INTERFACE} nud permanent"
        for nic in rack.plan.nics
        if nic.host != "cache"
    ]
    _in(
        cache,
        f"link set {INTERFACE} address {mac(CACHE_IP)} up\naddr add {CACHE_IP}/16 dev {INTERFACE}\n"
        + "\n".join(neighbours),
    )
    try:
        yield done
    finally:
        process.terminate()
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    for name, value in json.loads(output).items():
        setattr(done, name, value)


def _in(namespace: str, lines: str) -> None:
    subprocess.run(["ip", "-n", namespace, "-batch", "-"], input=lines + "\n", text=True, check=True)

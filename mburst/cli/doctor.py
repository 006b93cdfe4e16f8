"""`mburst doctor`: what this host and an interface can measure, what distorts it, and the remedies."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

from ..errors import MburstError
from ..messages import print_lines
from ..units import format_count, format_duration, format_rate

if TYPE_CHECKING:
    from ..capture import BackendState, Device

CAP_NET_ADMIN, CAP_NET_RAW = 12, 13  # linux/capability.h
SLOW_COALESCING_US = 10


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="check what can be captured here, and what would distort it",
        description="Examine privileges, backends, clocks and an interface; send known bursts through a "
        "virtual cable and report how they were recorded. It changes nothing. Exit code 1: a "
        "capture cannot run.",
    )
    parser.add_argument("interface", nargs="?", metavar="INTERFACE", help="the interface to examine")
    parser.add_argument("--no-self-test", action="store_true", help="send nothing")
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    found = examine(arguments.interface, self_test=not arguments.no_self_test)
    print_lines(*(json.dumps(found, indent=2) if arguments.json else describe(found)).split("\n"))
    return 0 if can_capture(found) else 1


def examine(interface: str | None, *, self_test: bool) -> dict[str, Any]:
    """Returns all findings of doctor as data. Raises MburstError if the interface does not exist."""
    from ..api.interfaces import missing_interface
    from ..capture import backends, clock_synchronized, device
    from ..telemetry.probe.clock import Clocks

    found = device(interface) if interface else None
    if interface and found is None:
        raise missing_interface(interface)
    with Clocks(found["phc_index"] if found else -1) as clocks:
        reading = clocks.read()
    return {
        "privileges": privileges(),
        "backends": backends(interface),
        "clock": {**vars(reading), "synchronized": clock_synchronized()},
        "interfaces": [name for _, name in socket.if_nameindex()],
        "pinned": _pinned(),
        "interface": found,
        "advice": advice(found) if found else [],
        "self_test": _self_test() if self_test else None,
    }


def _pinned() -> list[dict[str, Any]] | None:
    """Returns what `--pin` left in the kernel, None if this process may not read it."""
    from ..services.record import pins

    try:
        return [vars(one) for one in pins.pinned()]
    except PermissionError:
        return None


def _self_test() -> dict[str, Any]:
    from ..lab import selftest

    try:
        return selftest.run()
    except MburstError as error:
        return {"skipped": str(error) + (f" ({error.hint})" if error.hint else "")}


def advice(device: Device) -> list[str]:
    """Returns what would distort a measurement on this interface, each with the command that corrects it."""
    name = device["name"]
    found = []
    for arriving, what in (
        (True, "received frames are merged before capture"),
        (False, "sent frames are captured before segmentation"),
    ):
        words = [word for word, receive in device["offloads"] if receive == arriving]
        if words:
            found.append(
                f"{what}: wire bytes are estimated, timing inside is lost; for bins below 1 ms: "
                f"ethtool -K {name} {' '.join(f'{word} off' for word in words)}"
            )
    if device["rx_adaptive"] or device["rx_usecs"] > SLOW_COALESCING_US:
        how = "a varying time" if device["rx_adaptive"] else f"up to {device['rx_usecs']} µs"
        found.append(
            f"interrupt coalescing delays frames for {how}, which the kernel's timestamps show as "
            f"bursts: ethtool -C {name} adaptive-rx off rx-usecs 0, or hardware stamps"
        )
    if 0 < device["rx_ring"] < device["rx_ring_max"]:
        found.append(
            f"the receive ring has {device['rx_ring']:,} of {device['rx_ring_max']:,} descriptors, bursts may "
            f"overrun it: ethtool -G {name} rx {device['rx_ring_max']}"
        )
    if device["missed"]:
        missed = format_count(device["missed"], "frame")
        found.append(f"the interface lost {missed} for lack of receive buffers since it came up")
    if not device["link_bps"] and not device["loopback"]:
        found.append("the driver reports no link speed: set it with --link of mburst record")
    if device["driver"] == "veth":
        found.append("a veth always reports 10 Gb/s: set the real speed with --link")
    return found


def can_capture(found: dict[str, Any]) -> bool:
    """Whether a backend is ready, and the self-test received everything that it sent."""
    test = found["self_test"]
    whole = (
        not test
        or "skipped" in test
        or (test["seen"] + test["dropped"] == test["sent"] and test["bursts_seen"] == test["bursts_sent"])
    )
    return whole and any(not backend["reason"] for backend in found["backends"])


def describe(found: dict[str, Any]) -> str:
    """Returns the findings as text."""
    device = found["interface"]
    lines = ["privileges", *(f"  {line}" for line in _describe_privileges(found["privileges"], device)), "backends"]
    for backend in found["backends"]:
        lines += [f"  {backend['name']:<9} {_describe_backend(backend)}"]
    lines += ["clock", *(f"  {line}" for line in _describe_clock(found["clock"]))]
    if device:
        lines += [f"interface {device['name']}", *(f"  {line}" for line in _describe_device(device))]
    else:
        lines += ["interfaces", f"  {', '.join(found['interfaces'])} (`mburst doctor NAME` examines one)"]
    lines += [f"  advice: {line}" for line in found["advice"]]
    if found["pinned"] != []:
        lines += ["pinned (--pin)", *(f"  {line}" for line in _describe_pinned(found["pinned"]))]
    if found["self_test"]:
        lines += ["self-test", f"  {_describe_test(found['self_test'])}"]
    return "\n".join(lines)


def _describe_backend(backend: BackendState) -> str:
    if backend["reason"]:
        return f"cannot run: {backend['reason']}"
    takes = f" ({backend['packet_ns']} ns a packet, {backend['memory_bytes'] >> 20} MiB an interface)"
    return f"ready: {backend['description']}{takes if backend['packet_ns'] else ''}"


def privileges() -> dict[str, bool]:
    """Returns whether this process may capture, and may configure interfaces (effective capabilities,
    capabilities(7))."""
    with open("/proc/self/status", encoding="ascii") as file:
        mask = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    return {"net_raw": bool(mask >> CAP_NET_RAW & 1), "net_admin": bool(mask >> CAP_NET_ADMIN & 1)}


def _describe_privileges(held: dict[str, bool], device: Device | None) -> list[str]:
    python = os.path.realpath(sys.executable)
    lines = [
        "may capture (CAP_NET_RAW)"
        if held["net_raw"]
        else f"may not capture: run as root, or once: sudo setcap cap_net_raw+ep {python}, which lets every script of "
        "this Python capture; a service takes AmbientCapabilities=CAP_NET_RAW instead"
    ]
    if not held["net_admin"] and (device is None or device["hardware_stamps"]):
        name = device["name"] if device else "INTERFACE"
        lines.append(f"may not switch on hardware stamps (CAP_NET_ADMIN): sudo hwstamp_ctl -i {name} -r 1 does it")
    return lines


def _describe_clock(clock: dict[str, Any]) -> list[str]:
    state = (
        "kept by NTP or PTP, within " + format_duration(clock["max_error_ns"])
        if clock["synchronized"]
        else "not synchronized: times cannot be compared with those of other hosts (run chrony or ptp4l)"
    )
    lines = [f"system time is {state}"]
    if clock["phc_offset_ns"] is not None:
        lines.append(f"the interface's clock is {format_duration(clock['phc_offset_ns'])} ahead of system time")
    return lines


def _describe_pinned(pinned: list[dict[str, Any]] | None) -> list[str]:
    if pinned is None:
        return ["not known: only root may look into /sys/fs/bpf"]
    from ..services.record.pins import UNREAD

    read = "a recorder reads what the kernel counts"
    return [
        f"{_place_of(one['interface'])}: {read if one['is_read'] else f'{UNREAD} ' + one['path']}" for one in pinned
    ]


def _place_of(interface: str | None) -> str:
    return (
        "an interface of another network namespace" if interface is None else interface or "an interface that is gone"
    )


def _describe_device(device: Device) -> list[str]:
    state = "down" if not device["up"] else "up" if device["carrier"] else "up, but without carrier"
    stamps = (
        "hardware, of every frame"
        if device["hardware_stamps"]
        else "kernel (the interface stamps only frames of PTP)"
        if device["ptp_stamps"]
        else "kernel (the interface has none)"
    )
    clock = f", its clock is /dev/ptp{device['phc_index']}" if device["phc_index"] >= 0 else ""
    descriptors = (
        f", {device['rx_ring']:,} descriptors of at most {device['rx_ring_max']:,}" if device["rx_ring_max"] else ""
    )
    return [
        f"{state}, driver {device['driver'] or 'none'}, "
        f"{format_rate(device['link_bps']) if device['link_bps'] else 'link speed not known'}, MTU {device['mtu']:,}",
        f"stamps: {stamps}{clock}",
        f"receive rings: {device['rx_queues'] or 'not known how many'}{descriptors}",
    ]


def _describe_test(test: dict[str, Any]) -> str:
    if "skipped" in test:
        return str(test["skipped"])
    return (
        f"sent {test['bursts_sent']} bursts with {test['sent']:,} frames in all, saw {test['bursts_seen']} bursts with "
        f"{test['seen']:,} frames, {test['dropped']:,} dropped; stamps: {test['clock']}"
    )

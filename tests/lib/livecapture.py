"""Captures of the far end of a lab, and frames that the near end sends."""

from __future__ import annotations

import json
import socket

import livelab

OUTGOING, INCOMING = 2, 1


def capture(lab, driver, *arguments, action=None, idle_ms=300):
    command = ["ip", "netns", "exec", lab.far, str(driver), *arguments, f"target={lab.b}", f"idle_ms={idle_ms}"]
    return livelab.run_driver(command, action)


def sending(lab, sender, count, rate=0, size=64):
    """Returns an action that sends from the near end."""

    def send(_process):
        output = lab.call(lab.near, f"{sender} {lab.a} {count} {rate} {size}")
        assert json.loads(output)["sent"] == count

    return send


def inject(lab, namespace, interface, frames):
    """Sends raw frames, each given as bytes."""
    with lab.inside(namespace):
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        raw.bind((interface, 0))
    with raw:
        for frame in frames:
            raw.send(frame)


def numbered(i, ethertype=b"\x88\xb5", tag=b""):
    return b"\xff" * 6 + b"\x02\0\0\0\0\x01" + tag + ethertype + f"frame {i:04}".encode().ljust(46, b"\0")

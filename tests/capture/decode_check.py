"""Shared by the tests of the decoder: a frame is given to the engine and to the plain decoder."""

from __future__ import annotations

from typing import NamedTuple

import frame_builder as make
from decode_oracle import Flow, decode
from decode_tool import Decoded, Frame, driver

ETHERNET = 1
V4 = (0x0A000001, 0x0A000002)
V6 = (0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 2)
PORTS = (40000, 443)
DATA = bytes(range(100))

fingerprints: dict[Flow | None, int] = {None: 0}
flows: dict[int, Flow | None] = {0: None}


def check(frames: list[Frame], linktype: int, *, fcs: int = 0, inner: bool = False, mtu: int = 0) -> None:
    """Checks that the engine and the plain decoder agree on FRAMES in everything."""
    decoded = driver().decode(frames, linktype, fcs=fcs, inner=inner, mtu=mtu)
    for frame, got in zip(frames, decoded, strict=True):
        want = decode(
            frame.data, frame.length, linktype, fcs=fcs, inner=inner, mtu=mtu, gso=frame.gso, direction=frame.direction
        )
        assert got.flow == fingerprints.setdefault(want.flow, got.flow), "a flow has one fingerprint"
        assert want.flow == flows.setdefault(got.flow, want.flow), "a fingerprint has one flow"
        assert got.ports == (want.flow.ports if want.flow else (0, 0))
        assert got._replace(flow=0) == got._replace(flow=0, quality=0, ts_ns=frame.ts_ns, **fields(want)), frame


def fields(packet: NamedTuple) -> dict[str, object]:
    return {name: value for name, value in packet._asdict().items() if name != "flow"}


def one(
    data: bytes,
    linktype: int = ETHERNET,
    *,
    length: int | None = None,
    gso: int = 0,
    direction: int = 0,
    **options: int,
) -> Decoded:
    """Returns the engine's result for one frame, after checking that it agrees with the plain decoder."""
    frame = Frame(data, len(data) if length is None else length, gso, direction, 12345)
    check([frame], linktype, **options)
    return driver().decode([frame], linktype, **options)[0]


def v4(
    payload: bytes = make.tcp(DATA, PORTS, 1), protocol: int = 6, pair: tuple[int, int] = V4, **more: object
) -> bytes:
    return make.ipv4(payload, protocol, *pair, **more)


def v6(
    payload: bytes = make.tcp(DATA, PORTS, 1), protocol: int = 6, pair: tuple[int, int] = V6, **more: object
) -> bytes:
    return make.ipv6(payload, protocol, *pair, **more)

"""Whatever the frame, cut off at any byte, of any length or corrupted: capture/decode/decode.c and the plain decoder
agree in everything. Every frame is in a heap block of exactly its captured length, under ASan and UBSan."""

from __future__ import annotations

import random

import frame_builder as make
from decode_check import ETHERNET, V4, V6, check
from decode_tool import Frame
from hypothesis import given, settings
from hypothesis import strategies as st

SETTINGS = settings(deadline=None, max_examples=150)

small = st.integers(0, 7)
octets = st.binary(max_size=40)


@st.composite
def transports(draw: st.DrawFn) -> tuple[int, bytes]:
    ports = (draw(small), draw(st.sampled_from([53, 443, 4789, 4791, 8472, 6081])))
    payload = draw(st.sampled_from([b"", b"\x81"])) + draw(octets)
    match draw(st.sampled_from(["tcp", "tcp", "udp", "udp", "other", "tunnel"])):
        case "tcp":
            options = bytes(4 * draw(st.integers(0, 10)))
            return 6, make.tcp(payload, ports, draw(st.integers(0, 2**32 - 1)), draw(st.integers(0, 63)), options)
        case "udp":
            return 17, make.udp(payload, ports)
        case "other":
            return draw(st.sampled_from([1, 33, 50, 58, 59, 132, 136, 255])), payload
        case _:
            return draw(tunnels())


@st.composite
def tunnels(draw: st.DrawFn) -> tuple[int, bytes]:
    kind, inside = draw(packets())
    inside_ethernet = make.ethernet(inside, kind, sender=draw(small), tags=draw(tag_stacks))
    flags = {name: draw(st.booleans()) for name in ("checksum", "key", "sequence")}
    match draw(st.integers(0, 9)):
        case 0:
            return (4 if kind == 0x0800 else 41), inside
        case 1:
            return 47, make.gre(inside, kind, **flags)
        case 2:
            return 47, make.gre(inside_ethernet, 0x6558, **flags, routes=draw(st.none() | st.tuples(octets)))
        case 3:
            return 47, draw(st.sampled_from([make.gre(inside_ethernet, 0x88BE), make.gre(bytes(4) + inside, 0x883E)]))
        case 4:
            return 47, make.gre(make.erspan2(inside_ethernet), 0x88BE, sequence=True)
        case 5:
            return 47, make.gre(
                make.erspan3(inside_ethernet, draw(st.sampled_from([0, 1, 2])), draw(st.booleans())), 0x22EB
            )
        case 6:
            protocol = 0x21 if kind == 0x0800 else 0x57
            return 47, make.gre(
                make.ppp(inside, protocol), 0x880B, version=1, sequence=draw(st.booleans()), ack=draw(st.booleans())
            )
        case 7:
            return 17, make.udp(make.geneve(inside_ethernet, 0x6558, draw(st.integers(0, 9))), (draw(small), 6081))
        case 8:
            return draw(st.sampled_from([(137, make.mpls(inside)), (143, inside_ethernet)]))
        case _:
            return 17, make.udp(make.vxlan(inside_ethernet), (draw(small), 4789))


@st.composite
def packets(draw: st.DrawFn) -> tuple[int, bytes]:
    """An IP packet and its Ethernet type."""
    protocol, payload = draw(transports())
    source, destination, traffic = draw(small), draw(small), draw(st.sampled_from([0, 1, 2, 3, 3, 0xFF]))
    odd = draw(st.sampled_from([None] * 6 + [0, 1, 30, 9999]))
    if draw(st.booleans()):
        if draw(st.integers(0, 9)) == 0:
            protocol, payload = 51, bytes([protocol]) + make.authentication(draw(st.sampled_from([0, 12]))) + payload
        return 0x0800, make.ipv4(
            payload,
            protocol,
            V4[0] + source,
            V4[1] + destination,
            tos=traffic,
            total=odd,
            options=bytes(4 * draw(st.sampled_from([0, 0, 0, 1, 10]))),
            more=draw(st.integers(0, 9)) == 0,
            offset=draw(st.sampled_from([0] * 9 + [5])),
        )
    chains = st.sampled_from(
        [
            (0, make.extension(1)),
            (0, make.jumbo(draw(st.integers(0, 200)))),
            (43, make.extension(2)),
            (60, make.extension(3)),
            (44, make.fragment(0, False)),
            (44, make.fragment(0, True)),
            (44, make.fragment(3, False)),
            (51, make.authentication()),
        ]
    )
    extensions = tuple(draw(st.lists(chains, max_size=3 if draw(st.booleans()) else 0)))
    return 0x86DD, make.ipv6(
        payload, protocol, V6[0] + source, V6[1] + destination, traffic_class=traffic, extensions=extensions, length=odd
    )


tag_stacks = st.sampled_from([(), (), (0x8100,), (0x88A8, 0x8100), (0x9100,)])


@st.composite
def frames(draw: st.DrawFn) -> tuple[int, bytes]:
    """A frame and its link type."""
    kind, packet = draw(packets())
    protocol = 0x21 if kind == 0x0800 else 0x57
    match draw(st.integers(0, 17)):
        case 17:
            control = make.be16(draw(st.sampled_from([1, 0x0101, 0x0101, 2]))) + draw(octets)
            return draw(st.sampled_from([(ETHERNET, make.ethernet(control, 0x8808)), (113, make.sll(control, 0x8808))]))
        case 0:
            return 113, make.sll(packet, kind, kind=draw(small), hardware=draw(st.sampled_from([1, 772, 803])))
        case 1:
            return 276, make.sll2(packet, kind, kind=draw(small), address=draw(st.binary(max_size=8)))
        case 2:
            return draw(st.sampled_from([101, 12, 14, 228, 229])), packet
        case 3:
            family = draw(st.sampled_from([2, 10, 24, 28, 30, 7]))
            return draw(st.sampled_from([0, 108])), family.to_bytes(
                4, draw(st.sampled_from(["big", "little"]))
            ) + packet
        case 4:
            return draw(st.sampled_from([9, 50])), make.ppp(
                packet, protocol, framed=draw(st.booleans()), short=draw(st.booleans())
            )
        case 5:
            return draw(st.sampled_from([104, 50])), b"\x0f\0" + kind.to_bytes(2, "big") + packet
        case 6:
            return 51, make.pppoe(packet, protocol, draw(st.sampled_from([0, 0, 9])))
        case 7:
            return ETHERNET, make.ethernet(make.pppoe(packet, protocol), 0x8864, tags=draw(tag_stacks))
        case 8:
            return ETHERNET, make.ethernet(make.mpls(packet, draw(st.integers(1, 3))), 0x8847, tags=draw(tag_stacks))
        case 9:
            return ETHERNET, make.ethernet(make.snap(packet, kind), None, tags=draw(tag_stacks))
        case 10:
            return ETHERNET, make.ethernet(packet, draw(st.sampled_from([0x0806, 0x0800, 0x86DD, 5])))
    return ETHERNET, make.ethernet(packet, kind, tags=draw(tag_stacks))


options = st.fixed_dictionaries(
    {
        "fcs": st.sampled_from([0, 0, 0, 4]),
        "inner": st.booleans(),
        "mtu": st.sampled_from([0, 0, 30, 68, 100, 1500, 70_000]),
    }
)
gso_sizes = st.sampled_from([0, 0, 0, 1, 20, 1400])


@SETTINGS
@given(
    made=frames(),
    options=options,
    gso=gso_sizes,
    direction=st.integers(0, 2),
    more=st.sampled_from([0, 0, 4, 20, 70_000]),
)
def test_every_cut_agrees(made: tuple[int, bytes], options: dict, gso: int, direction: int, more: int):
    """Each frame at every captured length; MORE: bytes that it had on the wire, behind all that was built."""
    linktype, data = made
    length = len(data) + more
    check([Frame(data[:cut], length, gso, direction) for cut in range(len(data) + 1)], linktype, **options)


@SETTINGS
@given(made=frames(), options=options, gso=gso_sizes)
def test_every_length_agrees(made: tuple[int, bytes], options: dict, gso: int):
    """Each frame as if it had been shorter or longer than its headers say, captured whole or beyond its end."""
    linktype, data = made
    lengths = range(len(data) + 10)
    check([Frame(data[:length], length, gso) for length in lengths], linktype, **options)
    check([Frame(data, length, gso) for length in lengths], linktype, **options)


@SETTINGS
@given(
    made=frames(),
    options=options,
    gso=gso_sizes,
    linktype=st.sampled_from([None, None, None, 0, 9, 50, 101, 113, 276, 147]),
    seed=st.integers(0, 2**32),
)
def test_corrupted_frames_agree(made: tuple[int, bytes], options: dict, gso: int, linktype: int | None, seed: int):
    draw = random.Random(seed)
    damaged = []
    for _ in range(60):
        data = bytearray(made[1])
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(data))
            data[at] = draw.choice([data[at] ^ 1 << draw.randrange(8), draw.randrange(256), 0, 0xFF])
        cut = draw.choice([len(data), len(data), draw.randrange(len(data) + 1)])
        damaged.append(Frame(bytes(data[:cut]), draw.choice([len(data), cut, len(data) + 5]), gso))
    check(damaged, made[0] if linktype is None else linktype, **options)


@SETTINGS
@given(
    data=st.binary(max_size=200),
    length=st.integers(0, 2**32 - 1),
    gso=st.integers(0, 65535),
    options=options,
    linktype=st.sampled_from([0, 1, 9, 12, 50, 51, 101, 104, 108, 113, 228, 229, 276, 147]),
)
def test_any_bytes_agree(data: bytes, length: int, gso: int, options: dict, linktype: int):
    check([Frame(data, length, gso)], linktype, **options)

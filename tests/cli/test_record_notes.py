"""Notes on capture files whose packets or times are not what they seem."""

from __future__ import annotations

import pytest
from frames import START_NS, Frame, pcap, write_pcap

from mburst.__main__ import main

DAY = 86_400 * 10**9


@pytest.mark.parametrize(
    ("ahead", "quiet", "noted"),
    [
        ([0, 365 * DAY], [], True),
        ([0, 365 * DAY], [0], True),  # the other direction has packets only before that
        ([0, 365 * DAY], [0, 180 * DAY], False),  # or in the meantime
        ([0, 30 * 10**9], [0], False),
        (list(range(0, 60 * DAY, DAY)), [], False),  # a packet a day
        ([0, 365 * DAY, DAY], [], True),  # and back
    ],
)
def test_a_file_that_is_nearly_all_silence_is_reported(tmp_path, capsys, ahead, quiet, noted):
    """The clock may have jumped ahead: the time counts as idle. QUIET: when this host sent."""
    spans = [(begun, False) for begun in ahead] + [(begun, True) for begun in quiet]
    frames = [
        Frame(START_NS + begun + at * 10_000 + out, 1, 1000, outgoing=out) for begun, out in spans for at in range(200)
    ]
    if ahead == sorted(ahead):
        frames.sort(key=lambda frame: frame.ts_ns)
    file = write_pcap(tmp_path / "eth0.pcap", frames)
    assert main(["record", str(file), "-o", str(tmp_path / "s"), "--local", "192.0.2.1"]) == 0
    printed = capsys.readouterr().out
    assert ("note: no packet for 365 d, from 2023-11-14 22:13:20.00" in printed) == noted
    assert ("note: no packet for" in printed) == noted


@pytest.mark.parametrize(
    ("linktype", "note"),
    [(105, "5 packets of link type 105 could not be parsed: counted by length alone"), (101, ""), (1, "")],
)
def test_packets_that_cannot_be_parsed_are_reported(tmp_path, capsys, linktype, note):
    """Wherever senders are shown, too: a capture of IEEE 802.11 has none."""
    given = bytearray(pcap([Frame(START_NS + at, 1, 100) for at in range(5)]))
    given[20:24] = linktype.to_bytes(4, "little")
    if linktype == 101:  # raw IP
        given = b"".join([given[:24], *(raw_ip(given[24 + at * 112 :][:112]) for at in range(5))])
    (tmp_path / "wlan.pcap").write_bytes(given)
    store = str(tmp_path / "s")
    assert main(["record", str(tmp_path / "wlan.pcap"), "-o", store, "--link", "1G"]) == 0
    printed = capsys.readouterr().out
    assert ("could not be parsed" in printed) == ("without a sender" in printed) == bool(note) and note in printed
    assert main(["bursts", store]) == 0
    said = "; no packet was lost; 5 packets could not be parsed; 5 packets without a sender\n"
    assert (said in capsys.readouterr().out) == bool(note)


def raw_ip(record: bytes) -> bytes:
    """Returns a record of a capture file without its Ethernet header."""
    lengths = (int.from_bytes(record[at : at + 4], "little") - 14 for at in (8, 12))
    return record[:8] + b"".join(length.to_bytes(4, "little") for length in lengths) + record[30:]

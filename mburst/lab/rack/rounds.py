"""A scatter/gather round: its messages, and its truth as the cache server saw it."""

from __future__ import annotations

import csv
import struct
from dataclasses import dataclass, fields
from pathlib import Path

from ...ethernet import on_wire

SENDER_PORT = 9000
REQUEST = struct.Struct("!II")  # round, bytes wanted
DATAGRAM = struct.Struct("!II")  # round, place of the datagram in the answer; the rest is filler
DATAGRAM_BYTES = 1472  # the UDP payload that fills an Ethernet frame of 1514 bytes
_HEADER_BYTES = 14 + 20 + 8  # Ethernet without FCS, IPv4, UDP


def wire_bytes(payload: int, datagrams: int) -> int:
    """Returns the bytes that UDP payload takes on a link."""
    return on_wire(payload + datagrams * _HEADER_BYTES, datagrams)


@dataclass(frozen=True)
class Round:
    """A row of truth.csv. Times are Unix ns by kernel timestamps, bytes are payload; datagrams are 0 for TCP."""

    round: int
    proto: str
    n_senders: int
    bytes_per_sender: int
    t_req_ns: int
    t_first_ns: int
    t_last_ns: int
    bytes_expected: int
    bytes_rx: int
    senders_seen: int
    senders_complete: int
    dgrams_rx: int
    dgrams_expected: int
    timed_out: int

    @property
    def complete(self) -> bool:
        """Whether everything that was requested arrived."""
        return self.senders_complete == self.n_senders and self.bytes_rx == self.bytes_expected


COLUMNS = [field.name for field in fields(Round)]


def read_truth(path: Path) -> list[Round]:
    """Returns the rounds in a truth.csv."""
    with open(path, newline="") as file:
        return [
            Round(**{key: text if key == "proto" else int(text) for key, text in row.items()})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        ]

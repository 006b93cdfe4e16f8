"""The coverage of a ring of packets: its time span, and the packets that it could not keep."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import MburstError
from .ring import RemovedFile, RingFile

REORDERED_NS = 10**9  # longest time by which packets at the edge of two files may be out of order
_SECTION, _STATISTICS = 0x0A0D0D0A, 5
_SESSION = re.compile(rb"mburst ring (\d+)")
_NOT_KEPT = re.compile(rb"not kept: (\d+) packets from (-?\d+) to (-?\d+)")


@dataclass(frozen=True)
class Missing:
    """A time in which packets are missing: PACKETS of them, or all if PACKETS is None."""

    since_ns: int
    until_ns: int
    packets: int | None = None


@dataclass(frozen=True)
class _Account:
    """The account of one file. SESSION identifies the recorder; the next file of the same session follows without a
    pause."""

    session: bytes
    until_ns: int
    losses: list[Missing]


def near(files: Sequence[RingFile], since_ns: int, until_ns: int) -> list[RingFile]:
    """Returns the FILES of a ring that can contain packets with timestamps in [since_ns, until_ns)."""
    return [
        file
        for file, after in zip(files, [*files[1:], None], strict=False)  # there may be none at all
        if file.first_ns <= until_ns + REORDERED_NS
        # If the clock was set back, the next file begins earlier than this one.
        and (after is None or after.first_ns < file.first_ns or after.first_ns >= since_ns - REORDERED_NS)
    ]


def missing(files: Sequence[RingFile], since_ns: int, until_ns: int) -> list[Missing]:
    """Returns the times in [since_ns, until_ns) with packets missing in FILES, which `near` returned. Raises
    MburstError, and RemovedFile if one is gone."""
    accounts = [account_of(file.path) for file in files]
    covered = []
    for index, (file, account) in enumerate(zip(files, accounts, strict=True)):
        end = account.until_ns
        after = files[index + 1] if index + 1 < len(files) else None
        # Between two files whose numbers do not follow, others were removed.
        if after and after.number == file.number + 1 and accounts[index + 1].session == account.session:
            end = max(end, after.first_ns)
        covered.append((file.first_ns, end))
    holes = [Missing(*hole) for hole in _holes(covered, since_ns, until_ns)]
    losses = (loss for account in accounts for loss in account.losses)
    lost = [loss for loss in losses if loss.since_ns < until_ns and loss.until_ns >= since_ns]
    return sorted([*holes, *lost], key=lambda one: one.since_ns)


def _holes(covered: list[tuple[int, int]], since_ns: int, until_ns: int) -> Iterator[tuple[int, int]]:
    at = since_ns
    for first, end in sorted(covered):
        if first > at:
            yield at, min(first, until_ns)
        at = max(at, end)
        if at >= until_ns:
            return
    yield at, until_ns


def account_of(path: Path) -> _Account:
    """Returns the account in a file. The file ends before a block that a killed recorder did not finish. Raises
    MburstError, and RemovedFile if it is gone."""
    session, until_ns, losses = b"", 0, []
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for kind, body in _blocks(content, (_SECTION, _STATISTICS)):
                if kind == _SECTION and (named := _SESSION.search(body)):
                    session = named[1]
                elif kind == _STATISTICS:
                    high, low = struct.unpack_from("=II", body, 4)
                    until_ns = high << 32 | low
                    if lost := _NOT_KEPT.search(body):
                        losses.append(Missing(int(lost[2]), int(lost[3]) + 1, int(lost[1])))
    except FileNotFoundError as error:
        raise RemovedFile(path) from error
    except (OSError, ValueError) as error:
        raise MburstError(f"{path}: cannot read: {error}") from error
    return _Account(session, until_ns, losses)


def _blocks(content: mmap.mmap, kinds: tuple[int, ...]) -> Iterator[tuple[int, bytes]]:
    """Yields the bodies of the blocks of these KINDS, in this machine's byte order."""
    at, end = 0, len(content)
    head = struct.Struct("=II").unpack_from
    while end - at >= 12:
        kind, length = head(content, at)
        if length < 12 or length > end - at:
            return
        if kind in kinds:
            yield kind, content[at + 8 : at + length - 4]
        at += length

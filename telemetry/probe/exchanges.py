"""The exchanges of one path while they are under way, and as rows of the table probes when they are settled."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("app", "sw", "hw", "")  # by number; the less accurate of a row's two ends counts
APP, SOFTWARE, HARDWARE, NO_KIND = range(4)
_WHOLE = 1 << 32
_ROOM = 256  # probes by which columns grow
_UNKNOWN = -1  # reception time of an answer if the clock was set while the probe was under way


@dataclass
class ProbeCounts:
    """What became of the probes of a path. Probes that are not settled yet are only in `sent`."""

    sent: int = 0
    answered: int = 0
    lost: int = 0
    duplicates: int = 0  # answers beyond the first
    reordered: int = 0  # answers that came after the answer to a later probe (RFC 4737)
    late: int = 0  # answers after the timeout, to probes that count as lost
    stray: int = 0  # answers to nothing that was asked
    overflowed: int = 0  # answers that this host dropped because the prober did not keep up
    restarts: int = 0  # of the reflector, or of its connection
    lost_back: int | None = None  # lost probes that the reflector answered; None if it does not report them


def total(counts: Sequence[ProbeCounts]) -> ProbeCounts:
    """The counts of several paths together."""
    sums = {field.name: sum(getattr(count, field.name) or 0 for count in counts) for field in fields(ProbeCounts)}
    known = any(count.lost_back is not None for count in counts)
    return ProbeCounts(**sums | {"lost_back": sums["lost_back"] if known else None})


class Exchanges:
    """Probes by number, from the first unsettled one on. 0 stands for a stamp that was not taken.

    CLOCK_MONOTONIC decides whether an answer comes in time. If somebody sets the system's clock while a probe is under
    way, its stamps are of two clocks: it counts as answered, and its latency is not known."""

    def __init__(self) -> None:
        self.timeout_ns = 2**63 - 1  # an answer this long after its probe was due is late, and the probe is lost
        self.counts = ProbeCounts()
        self.first = 0  # the number of the oldest probe in the columns
        self.due = array("q")  # a time of CLOCK_MONOTONIC
        self.app_send = array("q")  # when it was due
        self.sent = array("q")  # when the application sent it
        self.tx = array("q")
        self.remote_rx = array("q")
        self.remote_tx = array("q")
        self.rx = array("q")
        self.app_recv = array("q")
        self.clock_error = array("q")
        self.tx_kind = array("b")
        self.rx_kind = array("b")
        self._later = (
            self.tx,
            self.remote_rx,
            self.remote_tx,
            self.rx,
            self.app_recv,
            self.clock_error,
            self.tx_kind,
            self.rx_kind,
        )  # these have room for more probes than exist yet
        self._columns = (self.due, self.app_send, self.sent, *self._later)
        self._highest = -1
        self._apart_ns = 0  # by how much Unix time is ahead of CLOCK_MONOTONIC
        self._set_at = 0  # the first probe that was sent after somebody set the clock

    @property
    def next(self) -> int:
        """The number of the next probe."""
        return self.first + len(self.sent)

    def clock_set(self, apart_ns: int) -> None:
        """Note that from now on, Unix time is ahead of CLOCK_MONOTONIC by APART_NS."""
        self._apart_ns, self._set_at = apart_ns, self.next

    def add(self, due_ns: int, now_ns: int) -> int:
        """Add a probe that was due at DUE_NS and is sent at NOW_NS (Unix ns). Returns its number."""
        place = len(self.sent)
        if place == len(self.tx):
            for column in self._later:
                column.frombytes(bytes(_ROOM * column.itemsize))
        self.due.append(due_ns - self._apart_ns)
        self.app_send.append(due_ns)
        self.sent.append(now_ns)
        self.counts.sent += 1
        return self.first + place

    def place(self, number: int) -> int | None:
        """Returns the place of a probe in the columns, by its number or the lower 32 bits of it; None if it is not
        there."""
        place = (number - self.first) % _WHOLE
        return place if place < len(self.sent) else None

    def was_settled(self, number: int) -> bool:
        """Whether a number without a place is one of the past, rather than one that was never sent."""
        return 0 < (self.first - number) % _WHOLE <= min(self.first, _WHOLE // 2)

    def departed(self, number: int, ns: int, hardware: int) -> None:
        """Note a stamp of departure. A hardware stamp replaces the kernel's."""
        place = number - self.first
        if 0 <= place < len(self.sent) and number >= self._set_at and (not self.tx[place] or hardware):
            self.tx[place] = ns
            self.tx_kind[place] = HARDWARE if hardware else SOFTWARE

    def answer(
        self, place: int, rx_ns: int, hardware: int, now_ns: int, remote: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        """Note an answer that came at NOW_NS. `remote` has the times at which the reflector received the probe and
        answered it, and by how much the clocks may differ."""
        if self.app_recv[place]:
            self.counts.duplicates += 1
            return
        if now_ns - self._apart_ns - self.due[place] > self.timeout_ns:
            self.counts.late += 1
            return
        number = self.first + place
        if number < self._set_at:
            self.app_recv[place] = _UNKNOWN
        else:
            self.app_recv[place] = now_ns
            if self.sent[place] <= rx_ns <= now_ns:  # else a stamp of something else, such as a sender's pacing
                self.rx[place] = rx_ns
                self.rx_kind[place] = HARDWARE if hardware else SOFTWARE
            self.remote_rx[place], self.remote_tx[place], self.clock_error[place] = remote
        self.counts.answered += 1
        if number < self._highest:
            self.counts.reordered += 1
        else:
            self._highest = number

    @property
    def waiting(self) -> int:
        """The number of probes whose answer may still come."""
        return self.counts.sent - self.counts.answered - self.counts.lost

    def settle(self, due_before_ns: int) -> SettledProbes | None:
        """Take out the probes due before a time of CLOCK_MONOTONIC. Those without an answer by now are lost."""
        count = bisect_left(self.due, due_before_ns)
        if not count:
            return None
        settled = SettledProbes(self.first, *(column[:count] for column in self._columns[1:]))
        for column in self._columns:
            del column[:count]
        self.first += count
        self.counts.lost += settled.app_recv.count(0)
        return settled


class SettledProbes(NamedTuple):
    """Settled probes of a path: the columns of Exchanges, from the number `first` on."""

    first: int
    app_send: array[int]
    sent: array[int]
    tx: array[int]
    remote_rx: array[int]
    remote_tx: array[int]
    rx: array[int]
    app_recv: array[int]
    clock_error: array[int]
    tx_kind: array[int]
    rx_kind: array[int]

    def rows(self, names: dict[str, str]) -> pa.RecordBatch:
        """Returns rows of the table probes, with the columns of `names` (batch, src, dst, protocol) filled in."""
        import numpy as np
        import pyarrow as pa

        from ..tables import PROBES

        columns = {name: np.array(values) for name, values in zip(self._fields[1:], self[1:], strict=True)}
        count = len(self.sent)
        tx_kind, sent, tx = columns.pop("tx_kind"), columns.pop("sent"), columns.pop("tx")
        lost, unknown = columns["app_recv"] == 0, columns["app_recv"] == _UNKNOWN
        kind = np.where(lost | (tx_kind == 0), tx_kind, np.minimum(tx_kind, columns.pop("rx_kind")))
        filled = {name: pa.repeat(value, count) for name, value in names.items()}
        filled |= {f"{name}_ns": pa.array(values, mask=values <= 0) for name, values in columns.items()}
        filled |= {
            "seq": pa.array(np.arange(self.first, self.first + count)),
            "tx_ns": pa.array(np.where((tx == 0) | unknown, sent, tx)),
            "rtt_ns": pa.nulls(count, pa.int64()),
            "lost": pa.array(lost),
            "stamp_kind": pa.DictionaryArray.from_arrays(pa.array(np.where(unknown, NO_KIND, kind)), pa.array(KINDS)),
        }
        return pa.RecordBatch.from_arrays([filled[name] for name in PROBES.names], PROBES.names)

"""The offset between a recorder's and a sender's clock, from canary bursts: the send times by one clock are matched
with the arrival times by the other.

The waits between canary bursts are random, so that only one offset matches many of them with arrivals. Votes over some
successive bursts find it; it is followed from there to both ends, as clocks drift. Delayed bursts do not distort the
line through the differences (slopes between pairs: Theil 1950, Sen 1968). The offset includes the transit time: one
direction cannot separate these two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model.stats import Floats, Whole

VOTING = 200  # successive bursts that vote
TRIALS = 5  # places in the run at which voting is tried
WINDOW_NS = 1_000_000  # in which votes count for one offset, in addition to the drift
FASTEST_DRIFT = 200e-6  # of undisciplined clocks
LEAST_MATCHED = 8
_LATELY = 15  # differences that predict the next arrival
_PAIRED = 400  # bursts with pairs that give the slope
_95, _MEDIANS = 1.96, 1.2533  # of a normal distribution; error of a median relative to that of a mean


@dataclass(frozen=True)
class Clock:
    """offset_ns at sender's time middle_ns (Unix), and its growth per ns (drift). matched: for each burst the index of
    its arrival; -1 for none. apart_ns: for each burst, arrival minus send time; 0 for none. The errors are half widths
    of 95 % intervals."""

    middle_ns: int
    offset_ns: int
    offset_error_ns: float
    drift: float
    drift_error: float
    scatter_ns: float
    matched: Whole
    apart_ns: Whole

    def late_ns(self, sent_ns: Whole) -> Whole:
        """Returns how much later than expected each burst arrived (queues on the way); 0 for those without an
        arrival."""
        return np.where(self.matched >= 0, np.maximum(0, sent_ns + self.apart_ns - self.arrival(sent_ns)), 0)

    def arrival(self, sent_ns: Whole) -> Whole:
        """Returns the arrival time of each burst, by the recorder's clock."""
        found: Whole = sent_ns + self.offset_ns + np.rint(self.drift * (sent_ns - self.middle_ns)).astype(np.int64)
        return found

    def error_ns(self, sent_ns: Whole) -> Floats:
        """Returns the possible error of the arrival time because of the clocks, for each burst."""
        found: Floats = np.hypot(self.offset_error_ns, self.drift_error * (sent_ns - self.middle_ns))
        return found


def compare(sent_ns: Whole, arrived_ns: Whole) -> Clock | None:
    """Compares the recorder's clock with the sender's; None if the bursts cannot be matched. Both inputs are ascending,
    in Unix ns; arrivals may lack some bursts and contain others."""
    if len(sent_ns) < LEAST_MATCHED or len(arrived_ns) < LEAST_MATCHED:
        return None
    starts = np.unique(np.linspace(0, max(0, len(sent_ns) - VOTING), TRIALS).astype(int))
    votes = [_voted(sent_ns[start : start + VOTING], arrived_ns) for start in starts]
    best = max(range(len(starts)), key=lambda i: votes[i][0])
    count, offset = votes[best]
    if count < LEAST_MATCHED:
        return None
    matched = _followed(sent_ns, arrived_ns, int(starts[best]) + min(VOTING, len(sent_ns)) // 2, offset)
    known = np.flatnonzero(matched >= 0)
    return _line(sent_ns, arrived_ns, matched) if len(known) >= LEAST_MATCHED else None


def _voted(sent: Whole, arrived: Whole) -> tuple[int, int]:
    """Returns how many of the bursts agree on an offset, and the offset; 0 if another offset is nearly as good."""
    base = int(arrived[0]) - int(sent[0])
    apart = np.sort(((arrived - arrived[0])[None, :] - (sent - sent[0])[:, None]).ravel())
    window = WINDOW_NS + int(FASTEST_DRIFT * (sent[-1] - sent[0]))
    counts = np.searchsorted(apart, apart + window, side="right") - np.arange(len(apart))
    best = int(counts.argmax())
    others = counts[np.abs(apart - apart[best]) > 2 * window]
    if len(others) and counts[best] < 2 * others.max():
        return 0, 0
    return int(min(counts[best], len(sent))), base + int(np.median(apart[best : best + counts[best]]))


def _followed(sent: Whole, arrived: Whole, middle: int, offset: int) -> Whole:
    """Returns the arrival of each burst, from the middle outwards: the one closest to the time that the previous ones
    predict."""
    matched = np.full(len(sent), -1, dtype=np.int64)
    for numbers in (range(middle, len(sent)), range(middle - 1, -1, -1)):
        lately = [offset]
        for number in numbers:
            awaited = int(sent[number]) + int(np.median(lately))
            place = int(np.searchsorted(arrived, awaited))
            near = [at for at in (place - 1, place) if 0 <= at < len(arrived)]
            nearest = min(near, key=lambda at: abs(int(arrived[at]) - awaited))
            if abs(int(arrived[nearest]) - awaited) <= 2 * WINDOW_NS:
                matched[number] = nearest
                lately = [*lately[-_LATELY + 1 :], int(arrived[nearest]) - int(sent[number])]
    return matched


def _line(sent: Whole, arrived: Whole, matched: Whole) -> Clock:
    """Returns the line through the differences of the matched bursts."""
    known = np.flatnonzero(matched >= 0)
    middle = int((sent[known[0]] + sent[known[-1]]) // 2)
    apart = arrived[matched[known]] - sent[known]
    base = int(apart[len(apart) // 2])
    x, y = (sent[known] - middle).astype(float), (apart - base).astype(float)
    some = np.unique(np.linspace(0, len(x) - 1, min(_PAIRED, len(x))).astype(int))
    i, j = np.triu_indices(len(some), 1)
    far = x[some][j] - x[some][i] > (x[-1] - x[0]) / 4  # slopes of near pairs are noise
    slope = float(np.median(((y[some][j] - y[some][i])[far]) / (x[some][j] - x[some][i])[far]))
    rest = y - slope * x
    offset = float(np.median(rest))
    scatter = 1.4826 * float(np.median(np.abs(rest - offset)))
    error = _95 * _MEDIANS * scatter / len(x) ** 0.5
    every = np.where(matched >= 0, arrived[matched] - sent, 0)
    return Clock(middle, base + round(offset), error, slope, error / max(float(x.std()), 1.0), scatter, matched, every)

"""The trigger of bursts: requests that the host itself fanned out just before.

For each source bin of a host's outgoing traffic, the store has the number of flows and the port that most of them went
to, but not the destinations. A request to another host is another flow, so the flows of a bin count the hosts asked.

Whether fan-outs come before bursts by chance is an exact test: bursts that are further apart than LEAD_NS are
independent, and each has one before it as often as any moment near it has (the probability of as many or more). Two
things with one rhythm and one phase pass it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.binomial import at_most
from ..model.stats import Floats
from ..read import sources as read_sources

if TYPE_CHECKING:
    import duckdb

LEAD_NS = 10_000_000  # how long before a burst its trigger is searched for
NEAR_NS = 200_000_000  # before and after a burst: the time in which fan-outs are counted for what chance would give
FEWEST = 3  # flows that make a fan-out
LEAST_P = 1e-300  # the floor of p_value: smaller ones are near the smallest number that a float has
SIGNIFICANT = 0.005  # the largest p_value at which fan-outs before bursts are no chance

Numbers = NDArray[np.int64]


class Trigger(NamedTuple):
    """Requests that the host sent just before its bursts came."""

    flows: int  # median, distinct ones in the requests' source bin
    port: int | None  # destination of most of those flows, in most of the bursts
    lead_ns: float  # median, from the first request to the first frame of the burst
    share: float  # of the bursts with such a fan-out before them
    usual: float  # share of the moments near bursts with a fan-out before them: what chance would give
    p_value: float  # how often chance would put fan-outs before as many bursts, or more, in any of the tested groups
    bursts: int

    @property
    def is_frequent(self) -> bool:
        """Whether most bursts have a fan-out before them, and clearly more than chance would give."""
        return self.share > 0.5 and self.share > 2 * self.usual

    @property
    def is_sure(self) -> bool:
        """Whether it is the trigger; if it is only frequent, it may be."""
        return self.is_frequent and self.p_value <= SIGNIFICANT


class FanOuts(NamedTuple):
    """Source bins in which the host opened many flows, in order of time. `begins`: there was none just before."""

    at: Numbers
    flows: Numbers
    port: Numbers
    begins: NDArray[np.bool_]
    span: tuple[int, int]  # recorded


def trigger(con: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], tested: int = 1) -> Trigger | None:
    """Returns the fan-out before these bursts; None if there is none, or if the outgoing direction was not recorded.
    TESTED: how many groups of bursts are tested like this one."""
    incoming = [row for row in rows if row["direction"] == "in"]
    if not incoming:
        return None
    least = max(FEWEST, int(np.median([row["fan_in"] or 0 for row in incoming])) // 2)
    sent = fan_outs(con, incoming[0]["host"], incoming[0]["interface"], least)
    return None if sent is None else before(sent, onsets(con, incoming), tested)


def before(sent: FanOuts, onset: Numbers, tested: int = 1) -> Trigger | None:
    """Returns the fan-out before bursts with these onsets, which are sorted; None if there is none."""
    begins = np.flatnonzero(sent.begins)
    # The first one that began in that time: when answers arrive, their acknowledgements look like a fan-out too.
    first = np.searchsorted(sent.at[begins], onset - LEAD_NS)
    led = first < len(begins)
    led[led] = sent.at[begins[first[led]]] <= onset[led]
    if not led.any():
        return None
    usual = usual_near(sent.at[begins], onset, sent.span)
    asked = begins[first[led]]
    ports = sent.port[asked][sent.port[asked] > 0]
    return Trigger(
        int(np.median(sent.flows[asked])),
        int(np.bincount(ports).argmax()) if 2 * len(ports) > len(asked) else None,
        float(np.median(onset[led] - sent.at[asked])),
        float(led.mean()),
        float(usual.mean()),
        min(1.0, max(LEAST_P, tested * chance_of(led, usual, onset))),
        len(onset),
    )


def usual_near(begins: Numbers, onset: Numbers, span: tuple[int, int]) -> Floats:
    """Returns, for each onset, the share of the recorded moments within NEAR_NS of it with a fan-out within LEAD_NS
    before them. A moment counts as often as it has fan-outs before it, which makes the share no smaller. BEGINS:
    sorted."""
    low, high = np.maximum(onset - NEAR_NS, span[0]), np.minimum(onset + NEAR_NS, span[1])
    count = np.searchsorted(begins, high, side="right") - np.searchsorted(begins, low)
    share: Floats = np.minimum(count * LEAD_NS / np.maximum(high - low, LEAD_NS), 1.0)
    return share


def chance_of(led: NDArray[np.bool_], usual: Floats, onset: Numbers) -> float:
    """Returns the probability that as many onsets or more would be led. ONSET: sorted; of those that are closer than
    LEAD_NS only the first counts, because they share what is before them. If their probabilities differ, the binomial
    tail of the mean is no smaller than theirs, from one above the expected number on (Hoeffding 1956)."""
    kept, last = [], -np.inf
    for number, at in enumerate(onset.tolist()):
        if at - last > LEAD_NS:
            kept.append(number)
            last = at
    count = int(led[kept].sum())
    return at_most(len(kept) - count, len(kept), 1 - float(usual[kept].mean()))  # of those without one


def onsets(con: duckdb.DuckDBPyConnection, bursts: list[dict[str, Any]]) -> Numbers:
    """Returns the first frame of each of these bursts that has a known sender, in order of time."""
    rows = con.execute(
        """SELECT min(onset_ns) AS onset FROM burst_sources
           WHERE known AND counted AND burst IN (SELECT unnest($bursts)) GROUP BY burst ORDER BY onset""",
        {"bursts": [burst["burst"] for burst in bursts]},
    ).fetchnumpy()
    return np.asarray(rows["onset"]).astype(np.int64)


def fan_outs(con: duckdb.DuckDBPyConnection, host: str, interface: str, least: int) -> FanOuts | None:
    """Returns the source bins in which the host sent on at least LEAST flows. None if its outgoing direction is not
    recorded."""
    span = read_sources.sent_span(con, host, interface)
    if span is None:
        return None
    first, last, width = span
    rows = read_sources.fan_outs(con, host, interface, least)
    at, flows, port = (np.asarray(rows[name]).astype(np.int64) for name in ("first_ns", "flows", "port"))
    begins = np.diff(at, prepend=at[:1] - 10 * width) > 2 * width
    # A round of requests may straddle two bins: the fuller one shows their number and destination.
    follows = np.append(~begins[1:], False)
    fuller = np.flatnonzero(follows & (np.append(flows[1:], 0) > flows)) if len(at) else np.zeros(0, dtype=np.int64)
    flows[fuller], port[fuller] = flows[fuller + 1], port[fuller + 1]
    return FanOuts(at, flows, port, begins, (int(first), int(last)))


def services(con: duckdb.DuckDBPyConnection, lane: tuple[str, str], groups: list[list[str]]) -> list[int | None]:
    """Returns, for each group of senders, the port from which most of their bytes to this host and interface come; None
    if no port has a majority."""
    if not groups:
        return []
    rows = read_sources.ports_of(con, lane, groups)
    most = {number: port for number, port, majority in rows if majority}
    return [most.get(k) for k in range(len(groups))]

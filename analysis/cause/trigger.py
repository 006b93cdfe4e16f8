"""The trigger of bursts: requests that the host itself fanned out just before.

For each source bin of a host's outgoing traffic, the store has the number of flows and the port that most of them went
to, but not the destinations. A request to another host is another flow, so the flows of a bin count the hosts asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..read import sources as read_sources

if TYPE_CHECKING:
    import duckdb

LEAD_NS = 10_000_000  # how long before a burst its trigger is searched for
FEWEST = 3  # flows that make a fan-out

Numbers = NDArray[np.int64]


class Trigger(NamedTuple):
    """Requests that the host sent just before its bursts came."""

    flows: int  # median, distinct ones in the requests' source bin
    port: int | None  # destination of most of those flows, in most of the bursts
    lead_ns: float  # median, from the first request to the first frame of the burst
    share: float  # of the bursts with such a fan-out before them
    usual: float  # share of all moments with a fan-out before them: what chance would give
    bursts: int


class FanOuts(NamedTuple):
    """Source bins in which the host opened many flows, in order of time. `begins`: there was none just before."""

    at: Numbers
    flows: Numbers
    port: Numbers
    begins: NDArray[np.bool_]
    span_ns: int


def trigger(con: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]]) -> Trigger | None:
    """Returns the fan-out before these bursts; None if there is none, or if the outgoing direction was not recorded."""
    incoming = [row for row in rows if row["direction"] == "in"]
    if not incoming:
        return None
    least = max(FEWEST, int(np.median([row["fan_in"] or 0 for row in incoming])) // 2)
    sent = fan_outs(con, incoming[0]["host"], incoming[0]["interface"], least)
    if sent is None or not len(sent.at):
        return None
    begins = np.flatnonzero(sent.begins)
    onset = onsets(con, incoming)
    # The first one that began in that time: when answers arrive, their acknowledgements look like a fan-out too.
    first = np.searchsorted(sent.at[begins], onset - LEAD_NS)
    led = first < len(begins)
    led[led] = sent.at[begins[first[led]]] <= onset[led]
    if not led.any():
        return None
    asked = begins[first[led]]
    ports = sent.port[asked][sent.port[asked] > 0]
    return Trigger(
        int(np.median(sent.flows[asked])),
        int(np.bincount(ports).argmax()) if 2 * len(ports) > len(asked) else None,
        float(np.median(onset[led] - sent.at[asked])),
        float(led.mean()),
        min(1.0, len(begins) * LEAD_NS / sent.span_ns),
        len(incoming),
    )


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
    return FanOuts(at, flows, port, begins, max(int(last - first), 1))


def services(con: duckdb.DuckDBPyConnection, lane: tuple[str, str], groups: list[list[str]]) -> list[int | None]:
    """Returns, for each group of senders, the port from which most of their bytes to this host and interface come; None
    if no port has a majority."""
    if not groups:
        return []
    rows = read_sources.ports_of(con, lane, groups)
    most = {number: port for number, port, majority in rows if majority}
    return [most.get(k) for k in range(len(groups))]

"""The senders to a port while it was full, from the stored senders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ethernet import FRAME_OVERHEAD_BYTES
from ..cause.arriving import FullStretches
from ..cause.port import Port
from .moved_senders import SenderRows

if TYPE_CHECKING:
    import duckdb

PIECES = 300_000  # of all senders and stretches, approximately
MOST_PIECES = 16  # of one sender in one stretch
UNKNOWN = -1  # the number of `other`

_SENT = """
WITH spans AS (
    SELECT unnest($begin) AS begin_ns, unnest($end) AS end_ns
), sent AS (
    SELECT source, part_within(bytes + $overhead * packets, first_ns, last_ns, from_ns, to_ns) AS bytes, members,
           greatest(first_ns, from_ns) AS first_ns, least(last_ns, to_ns - 1) AS last_ns
    FROM sources
    JOIN (SELECT unnest($recordings) AS recording_id, unnest($epochs) AS clock_epoch, unnest($from) AS from_ns,
                 unnest($to) AS to_ns) USING (recording_id, clock_epoch)
    WHERE last_ns >= $since AND ts_ns < $until AND last_ns >= from_ns AND first_ns < to_ns
), placed AS (
    SELECT *, CASE WHEN first_ns < end_ns THEN part_within(bytes, first_ns, last_ns, begin_ns, end_ns) ELSE 0 END AS inside
    FROM sent ASOF LEFT JOIN spans ON last_ns >= begin_ns
), beside AS (
    SELECT source, sum(bytes) - sum(coalesce(inside, 0)) AS beside FROM placed GROUP BY source
)
SELECT CASE WHEN source = 'other' THEN $unknown ELSE CAST(hash(source) >> 1 AS BIGINT) END AS sender,
       min(greatest(first_ns, begin_ns)) - $origin AS first, max(least(last_ns, end_ns)) - $origin AS last,
       sum(inside) AS bytes, max(members) AS members, any_value(beside) AS beside
FROM placed JOIN beside USING (source) WHERE inside > 0
GROUP BY source, begin_ns, (greatest(first_ns, begin_ns) - begin_ns) * $pieces // (end_ns - begin_ns)
ORDER BY first, sender
"""  # noqa: E501


def senders_while_full(
    con: duckdb.DuckDBPyConnection,
    port: Port,
    full: FullStretches,
    recordings: list[dict[str, Any]],
    bursts: list[dict[str, Any]],
    origin: int,
) -> SenderRows:
    """Returns the traffic of each sender in each full stretch. recordings: the used parts of those of the port; bursts:
    of the port, for the approximate number of senders."""
    pairs = max(1, sum(burst["fan_in"] for burst in bursts))
    found = con.execute(_SENT, {
        "begin": (full.begin.astype(np.int64) + origin).tolist(), "end": (full.end.astype(np.int64) + origin).tolist(),
        "recordings": [part["recording_id"] for part in recordings],
        "epochs": [part["clock_epoch"] for part in recordings],
        "from": [part["from_ns"] for part in recordings], "to": [part["end_ns"] for part in recordings],
        "since": origin + int(port.starts[0]), "until": origin + int(port.time(np.array([port.bins - 1e-9]))[0]) + 1,
        "origin": origin, "overhead": FRAME_OVERHEAD_BYTES, "unknown": UNKNOWN,
        "pieces": max(1, min(MOST_PIECES, PIECES // pairs)),
    }).fetchnumpy()  # fmt: skip
    first, last, bytes_, members, beside = (
        np.asarray(found[name]).astype(np.float64) for name in ("first", "last", "bytes", "members", "beside")
    )
    return SenderRows(np.asarray(found["sender"]).astype(np.int64), first, last, bytes_, members, beside)

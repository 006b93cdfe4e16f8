"""Compares the sums of bins and senders with the totals of their recordings. Recordings of switch ports (backend
`otlp`) have no senders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..damage import readable
from ..store import StoreFolder

if TYPE_CHECKING:
    from .checking import Findings

_SUMS = """
WITH counted AS (
    SELECT recording_id, sum(packets) AS packets, sum(bytes) AS bytes, sum(wire_bytes) AS wire_bytes
    FROM counts GROUP BY recording_id),
sent AS (SELECT recording_id, sum(packets) AS packets, sum(bytes) AS bytes FROM sources GROUP BY recording_id),
thinned_senders AS (SELECT DISTINCT recording_id, true AS is_thinned FROM thinned)
SELECT r.recording_id, r.host,
       [r.packets, r.bytes, r.wire_bytes] ||
           CASE WHEN is_thinned OR r.backend = 'otlp' THEN []
               ELSE [r.packets - unattributed_packets, r.bytes - unattributed_bytes] END,
       [coalesce(value, 0) FOR value IN
        [counted.packets, counted.bytes, counted.wire_bytes, sent.packets, sent.bytes]]
FROM recordings r LEFT JOIN counted USING (recording_id) LEFT JOIN sent USING (recording_id)
    LEFT JOIN thinned_senders USING (recording_id)
WHERE complete ORDER BY r.recording_id
"""
_NAMES = ("packets in bins", "bytes in bins", "wire bytes in bins", "packets of senders", "bytes of senders")


def compare_sums(store: Path, found: Findings) -> None:
    """Compare them for each complete recording of a host without damaged files. Each difference, whether because files
    were set aside or without a known cause, becomes a sentence in FOUND.mismatches. Raises MburstError."""
    incomplete = {damage.host for damage in found.damaged}
    if "" in incomplete:  # a file of an unknown host is missing
        return
    with StoreFolder.open(store).connect() as con, readable(con):
        for recording, host, stated, summed in con.execute(_SUMS).fetchall():
            if host in incomplete:
                continue
            found.recordings_compared += 1
            found.mismatches += [
                f"recording {recording} of host {host}: {is_now:,} {name}, and the recording says {was:,}"
                for name, was, is_now in zip(_NAMES, stated, summed, strict=False)
                if was != is_now
            ]

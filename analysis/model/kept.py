"""Which senders a recording keeps: all, or those near busy bins, with the others summed up (capture/measure/busy.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...units import format_share

if TYPE_CHECKING:
    import duckdb

REACH = 4  # before and behind a bin of senders, in widths of the wider kind of bin

# Recordings in whose bursts, as they were just detected, there may be senders that were not kept: bins below the share
# are in them, or times out of reach.
_REACHING = """
SELECT host, interface, direction, sources_above_ppb
FROM lanes JOIN (SELECT recording_id, link_bps AS recorded_bps, sources_above_ppb FROM recordings) USING (recording_id)
WHERE sources_above_ppb IS NOT NULL AND (
    warm_bytes < least_bytes(sources_above_ppb / 1e9, bin_ns, recorded_bps)
    OR greatest(source_bin_ns + 2 * bin_ns, bin_ns + join_ns // 2) > $reach * greatest(stored_ns, source_bin_ns))
GROUP BY ALL ORDER BY ALL
"""


def kept_words(above_ppb: int) -> str:
    """What a recording keeps of senders."""
    return f"kept near bins of {format_share(above_ppb / 1e9)} of line rate or more, and summed up as `other` elsewhere"


def unkept_senders(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Of the bursts that detect_bursts() left in CON: where senders may be missing that were summed up, a sentence for
    each interface and direction."""
    return [
        f"{host} {interface} {direction}: senders are {kept_words(above)}: bursts of this definition may have others "
        "(`mburst record --sources all` keeps them)"
        for host, interface, direction, above in con.execute(_REACHING, {"reach": REACH}).fetchall()
    ]

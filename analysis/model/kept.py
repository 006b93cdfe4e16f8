"""Which senders a recording keeps: all, or those near busy bins while the others are summed up
(capture/measure/busy.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...units import format_share

if TYPE_CHECKING:
    import duckdb

REACH = 4  # before and behind a bin of senders, in widths of the wider kind of bin

# Recordings that may not have kept all senders of the bursts just detected: these bursts contain bins below the share,
# or times out of reach.
_REACHING = """
SELECT host, interface, direction, sources_above_ppb
FROM lanes JOIN (SELECT recording_id, link_bps AS recorded_bps, sources_above_ppb FROM recordings) USING (recording_id)
WHERE sources_above_ppb IS NOT NULL AND (
    warm_bytes < least_bytes(sources_above_ppb / 1e9, bin_ns, recorded_bps)
    OR greatest(source_bin_ns + 2 * bin_ns, bin_ns + join_ns // 2) > $reach * greatest(stored_ns, source_bin_ns))
GROUP BY ALL ORDER BY ALL
"""


def kept_words(above_ppb: int) -> str:
    """Returns a phrase for which senders a recording keeps."""
    return f"kept near bins of {format_share(above_ppb / 1e9)} of line rate or more, and summed up as `other` elsewhere"


def unkept_senders(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Returns a sentence for each interface and direction with bursts that may lack senders because these were summed
    up. The bursts are those that detect_bursts() left in CON."""
    return [
        f"{host} {interface} {direction}: senders are {kept_words(above)}: bursts of this definition may have others "
        "(`mburst record --sources all` keeps them)"
        for host, interface, direction, above in con.execute(_REACHING, {"reach": REACH}).fetchall()
    ]

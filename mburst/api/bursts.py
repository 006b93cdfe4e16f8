"""Bursts and their senders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .options import Scope

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder

NAMED = ("recording_id", "clock_epoch", "start_ns", "end_ns", "bin_ns", "link_bps")  # columns that identify a burst
ANY_BYTE = 1e-9  # share of line rate: least_bytes counts shares to nine digits


def detected(
    store: StoreFolder, wanted: BurstDefinition, scope: Scope, *, force: bool = False
) -> duckdb.DuckDBPyConnection:
    """Returns a connection with the tables of detect_bursts. Raises MburstError if no recording matches SCOPE and,
    unless FORCE is true, if the timestamps are too coarse for the bins."""
    from ..analysis.bursts.find import detect_bursts
    from ..analysis.model.coarse import refuse_coarse

    with ExitStack() as opened:
        con = opened.enter_context(store.connect(scope.rack, scope.since_ns, scope.until_ns))
        if not force:
            refuse_coarse(con, wanted.bin_ns, **scope.filters())
        detect_bursts(con, wanted, **scope.filters())
        if not con.execute("FROM lanes LIMIT 1").fetchall():
            raise scope.no_recording(store.path)
        opened.pop_all()
        return con


def scope_of_burst(burst: Mapping[str, Any] | Any) -> tuple[BurstDefinition, Scope]:
    """Returns a definition and a scope that detect exactly BURST, a row of the table of bursts, again, whatever
    definition detected it: from its first bin to its last, every bin with a byte counts, and every gap is joined.
    Raises UsageError."""
    from ..analysis.bursts.find import BurstDefinition

    try:
        recording, _, start, end, bin_ns, link = (burst[name] for name in NAMED)
        start, end, bin_ns, link = (int(value) for value in (start, end, bin_ns, link))
    except (KeyError, TypeError, ValueError, IndexError):
        raise UsageError("this is not a burst", "give a row of store.bursts(), such as .to_pylist()[0]") from None
    found = BurstDefinition(bin_ns=bin_ns, threshold=ANY_BYTE, join_ns=end - start, link_bps=link)
    return found, Scope(recording=str(recording), since_ns=start, until_ns=end)


def only(senders: pa.Table, burst: Mapping[str, Any] | Any) -> pa.Table:
    """Returns the rows of SENDERS that belong to BURST: after a clock step another burst may have the same time."""
    import pyarrow.compute as pc

    return senders.filter(pc.equal(senders["clock_epoch"], int(burst["clock_epoch"])))

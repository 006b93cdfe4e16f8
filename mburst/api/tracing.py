"""A store as a trace for ui.perfetto.dev."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MburstError
from .options import Scope

if TYPE_CHECKING:
    from ..analysis.answers.trace import TraceData
    from ..analysis.bursts.find import BurstDefinition
    from ..sql import StoreFolder


def trace_of(store: StoreFolder, wanted: BurstDefinition, scope: Scope, path: Path) -> TraceData:
    """Write a trace of the stored data of SCOPE (a rack or host, and a time) to PATH. Raises MburstError if there is
    none."""
    from ..analysis.answers.lanes import lanes
    from ..analysis.answers.trace import gather_trace
    from ..analysis.model.whole import whole_since
    from ..dashboards.trace.layout import write

    since_ns, until_ns = scope.since_ns, scope.until_ns
    with store.connect(scope.rack, since_ns, until_ns) as con:
        since_ns = whole_since(con, "a trace", since_ns, until_ns, rack=scope.rack, hosts=scope.hosts)
        chosen = lanes(con, scope.rack, scope.hosts[0] if scope.hosts else None, wanted.link_bps)
        if not chosen and (scope.rack or scope.hosts):
            raise scope.no_recording(store.path)
        found = gather_trace(con, chosen, wanted, since_ns, until_ns)
    if found is None:
        raise MburstError(
            f"{store.path}: nothing of that time" if since_ns or until_ns else f"{store.path}: empty",
            "`mburst sql STORE recordings` lists what there is",
        )
    write(found, path)
    return found

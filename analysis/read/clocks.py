"""When recorders last said that they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def last_heard(clock: pa.Table) -> dict[tuple[str, str], int]:
    """Returns the time of the last of these rows of `clock` by host and interface. The last is the one that was written
    last, not the one with the latest time: a clock that was set back has earlier times from then on."""
    names = ["host", "interface", "ts_ns", "monotonic_raw_ns"]
    order = [("monotonic_raw_ns", "ascending"), ("ts_ns", "ascending")]
    rows = clock.select(names).sort_by(order).to_pylist()
    return {(row["host"], row["interface"]): row["ts_ns"] for row in rows}

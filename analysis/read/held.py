"""Which rows of a file are in a store already, of whatever import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...sql.damage import SECOND_COPY, DamagedFile, damaged_files
from ...sql.format.filenames import STRANGER
from ...units import NS_PER_S

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TIMES = {"probes": ("tx_ns", "tx_ns"), "queues": ("window_start_ns", "ts_ns")}
HOLDING = {"probes": ("probes", "latency_steps"), "queues": ("queues",)}  # tables that have rows, or their sums
# Rows that are equal many times are as many rows: `n` of them are held, and less by each that was seen in the file.
_HELD = """
CREATE TEMP TABLE held AS
SELECT {key} AS key_ns, hash({columns}) AS digest, count(*) AS n FROM {table}
WHERE {first} >= $since AND {last} <= $until AND list_contains($owners, {owner}) GROUP BY ALL
"""
_SUMMED = """
CREATE TEMP TABLE summed AS
SELECT DISTINCT src, dst, protocol, ts_ns AS second_ns FROM latency_steps
WHERE ts_ns >= bin_start($since, 1000000000) AND ts_ns <= $until AND list_contains($owners, src)
"""
_KEYED = """
CREATE OR REPLACE TEMP TABLE keyed AS
SELECT row, {key} AS key_ns, hash({columns}) AS digest, {is_summed} AS is_summed FROM block
"""
_IS_SUMMED = "(src, dst, protocol, bin_start(tx_ns, 1000000000)) IN (FROM summed)"
_NEW = """
SELECT row, is_summed FROM (
    SELECT *, row_number() OVER (PARTITION BY key_ns, digest ORDER BY row) AS nth FROM keyed
) LEFT JOIN held USING (key_ns, digest) WHERE nth > coalesce(n, 0) ORDER BY row
"""
_SEEN = """
UPDATE held SET n = n - seen FROM (SELECT key_ns, digest, count(*) AS seen FROM keyed GROUP BY ALL) AS of
WHERE held.key_ns = of.key_ns AND held.digest = of.digest
"""


def unreadable(connection: duckdb.DuckDBPyConnection, table: str, since_ns: int, until_ns: int) -> list[DamagedFile]:
    """Returns the files of the store of CONNECTION that are damaged or were set aside, and may hold rows of TABLE from
    SINCE_NS to UNTIL_NS, or their sums."""
    return [
        file
        for file in damaged_files(connection)
        if file.table in HOLDING[table]
        and file.reason not in (SECOND_COPY, STRANGER)
        and (file.first_ns is None or file.first_ns <= until_ns)
        and (file.last_ns is None or file.last_ns > since_ns - NS_PER_S)
    ]


class NewRows(NamedTuple):
    """Rows that a store has not, and how many more it has not but in sums (`latency_steps`)."""

    rows: pa.RecordBatch
    summed: int


class HeldRows:
    """The rows of TABLE (probes or queues) of some OWNERS from SINCE_NS to UNTIL_NS in the store of CONNECTION. Two
    rows are the same if COLUMNS are equal, OWNER among them."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        columns: Sequence[str],
        owner: str,
        owners: Sequence[str],
        since_ns: int,
        until_ns: int,
    ) -> None:
        self._con = connection
        first, last = TIMES[table]
        self._words = {
            "table": table,
            "key": last,
            "first": first,
            "last": last,
            "owner": owner,
            "columns": ", ".join(columns),
            "is_summed": _IS_SUMMED if table == "probes" else "false",
        }
        asked = {"since": since_ns, "until": until_ns, "owners": list(owners)}
        found = connection.execute(_HELD.format(**self._words), asked).fetchall()
        if table == "probes":
            found += connection.execute(_SUMMED, asked).fetchall()
        self._has_any = any(rows for (rows,) in found)

    def without(self, block: pa.RecordBatch) -> NewRows:
        """Of the next rows of the file those that are not held."""
        import pyarrow as pa

        if not self._has_any:
            return NewRows(block, 0)
        numbers = pa.array(range(block.num_rows), pa.int64())
        self._con.register("block", pa.Table.from_batches([block]).append_column("row", numbers))
        self._con.execute(_KEYED.format(**self._words))
        self._con.unregister("block")
        new = self._con.execute(_NEW).fetchnumpy()
        self._con.execute(_SEEN)
        kept = new["row"][~new["is_summed"]]
        return NewRows(block.take(pa.array(kept, pa.int64())), len(new["row"]) - len(kept))

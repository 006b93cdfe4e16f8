"""Follows a table of a store: reads the rows that its writers append, one poll at a time, and nothing twice.

Each hot log is read from the end of the last poll on, by complete frames: a frame that is still being written is left
for the next poll. A log that was sealed in between is read to its end through the file that is still open. A segment
that began and was sealed between two polls is read from its sealed files, once they are verified. Damage is skipped and
reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import plain_name
from ..units import NS_PER_DAY
from . import segments, verified
from .compaction.rules import FOLLOWED_NS
from .damage import FOUND, DamagedFile
from .format.filenames import Segment
from .format.hotlog import LogContent, LogReader
from .tables import columns

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_FOR_SEALED_S = 1.0  # time between two listings of the folders
FORGET_S = 7 * 86_400.0  # for so long, a segment that is done may be absent: the store is away, or the clock was set


class TableFollower:
    """One table of the store at STORE, of one rack or of all. Rows that exist at the start are left to queries: a
    caller that connects to the store after that misses nothing, and may see the first rows of a poll already."""

    def __init__(
        self, store: Path, table: str, rack: str | None = None, look_for_sealed_s: float = LOOK_FOR_SEALED_S
    ) -> None:
        names = [column.name for column in columns(table)]
        self._store = store
        self._table = table
        self._rack = rack if "rack" in names else None
        self._names = names
        self._logs: dict[Path, LogReader] = {}
        self._done: dict[str, float] = {}  # segments without news, and when they were last listed, in that order
        self._look_for_sealed_s = look_for_sealed_s
        self._looked = 0.0
        self._merged: set[str] = set()  # files that compaction made from others
        self._listed: float | None = None  # when they were listed
        self._damage: list[str] = []
        self._misplaced: list[str] = []
        self._begin()

    @property
    def damage(self) -> list[str]:
        """A line for each file that cannot be followed, and for anything that is now in the place of an expected
        file."""
        return [*self._damage, *self._misplaced]

    def _hot(self) -> dict[Path, Segment]:
        """The hot logs now."""
        listing = segments.list_hot(self._store, self._table)
        self._misplaced = [str(damaged) for damaged in listing.damage]
        return listing.logs

    def _begin(self) -> None:
        """Skip what exists already."""
        while True:
            before = self._hot()
            self._open_new(before)
            sealed = {file.name.segment.name for file in self._sealed()}
            if all(path in self._logs or path.stem not in sealed for path in before):
                self._finish(sealed - {path.stem for path in self._logs})
                break
        for path in list(self._logs):
            self._read(path)

    def _sealed(self) -> list[segments.SealedFile]:
        """Sealed files that can have rows of these days: older files are not new, and neither are files that compaction
        wrote."""
        yesterday = time.time_ns() - NS_PER_DAY
        listing = segments.list_sealed(self._store, self._table, segments.FileSelection(self._rack, yesterday))
        merged = {file.name.segment.name for file in listing.files if file.name.segment.compacted}
        self._check_merged(merged, time.monotonic())
        return [file for file in listing.files if not file.name.segment.compacted]

    def _check_merged(self, merged: set[str], now: float) -> None:
        """Report that files may have come and been merged since the last look: compaction waits for FOLLOWED_NS."""
        since_s = 0.0 if self._listed is None else now - self._listed
        if since_s > FOLLOWED_NS / 1e9 and merged - self._merged:
            self._damage.append(
                f"{self._store}: `mburst compact` merged rows of {self._table} while nobody looked for "
                f"{since_s:,.0f} s: what came meanwhile may be missing here"
            )
        self._merged, self._listed = merged, now

    def _open_new(self, logs: dict[Path, Segment]) -> None:
        for path, segment in logs.items():
            if path not in self._logs and segment.name not in self._done:
                try:
                    self._logs[path] = LogReader(path)
                except FileNotFoundError:
                    continue  # sealed since it was listed
                except OSError as error:
                    self._finish([segment.name])
                    self._say(
                        DamagedFile(
                            str(path), self._table, error.strerror or str(error), "", segment.host, segment.start_ns
                        )
                    )

    def _finish(self, names: Iterable[str]) -> None:
        """Note that these segments are listed now and have no news any more."""
        now = time.monotonic()
        for name in names:
            self._done.pop(name, None)
            self._done[name] = now

    def _forget(self, now: float) -> None:
        """Forget segments that were not listed for long, after all others were noted as listed."""
        while self._done and now - self._done[oldest := next(iter(self._done))] > FORGET_S:
            del self._done[oldest]

    def _say(self, damaged: DamagedFile) -> None:
        self._damage.append(str(damaged))
        FOUND.add(damaged)

    def _read(self, path: Path) -> LogContent | None:
        """Returns what was added to a log; None if it cannot be read any more."""
        try:
            content = self._logs[path].read()
        except OSError as error:
            segment = segments.segment_of(path)
            self._say(
                DamagedFile(str(path), self._table, error.strerror or str(error), "", segment.host, segment.start_ns)
            )
            return None
        for damaged in segments.damage_of_log(content, self._table):
            self._say(damaged)
        if content.about and content.about.table != self._table:
            self._say(segments.log_of_other_table(content))
            return None
        return content

    def poll(self) -> list[pa.Table]:
        """Returns the rows that came since the last poll, each with the columns of the store and in the order in which
        each writer wrote them. Empty tables are left out."""
        self._open_new(self._hot())
        found: list[pa.Table] = []
        for path, log in list(self._logs.items()):
            gone = log.is_gone()  # checked before the rest is read, so that nothing can come after it
            content = self._read(path)
            if content is not None and self._rack in (None, content.about.rack if content.about else None):
                found += content.batches
            if gone or content is None:
                log.close()
                del self._logs[path]
                self._finish([path.stem])
        return [rows.select(self._names) for rows in [*found, *self._newly_sealed()] if rows.num_rows]

    def _newly_sealed(self) -> list[pa.Table]:
        """The rows of segments that began and were sealed between two polls."""
        now = time.monotonic()
        if now - self._looked < self._look_for_sealed_s:
            return []
        self._looked = now
        hot, sealed = {segment.name for segment in self._hot().values()}, self._sealed()
        unsealed = hot | {path.stem for path in self._logs}
        done = [file for file in sealed if file.name.segment.name not in unsealed]
        new = [file for file in done if file.name.segment.name not in self._done]
        faults = verified.unverified([file.path for file in new])
        second = segments.second_copies(new, lambda _: faults)
        new = [file for file in new if file not in second]
        for file in new:
            if file.path in faults and file.path.exists():
                self._say(segments.damaged_file(file, self._table, faults[file.path]))
        self._finish({file.name.segment.name for file in done} | hot & self._done.keys())
        self._forget(now)
        return [rows for file in new if file.path not in faults for rows in _read_sealed(file.path)]

    def close(self) -> None:
        """Close the files."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()


def poll_all(tails: Mapping[str, TableFollower]) -> dict[str, list[pa.Table]]:
    """Returns the rows of each table that came since its last poll. Recordings are polled last, since a row of a
    recording is written before its bins. If a row shows that its recording has ended, everything that was written
    before that row is also there."""
    found = {table: tail.poll() for table, tail in sorted(tails.items(), key=lambda named: named[0] == "recordings")}
    for table in ("bins", "sources") if found.get("recordings") else ():
        found[table] += tails[table].poll()
    return found


def _read_sealed(path: Path) -> list[pa.Table]:
    """The rows of a verified file; none if the file is gone."""
    import pyarrow.parquet as pq

    try:
        return [pq.read_table(plain_name(path), partitioning=None)]
    except FileNotFoundError:
        return []

"""Compacts a store, day by day, the oldest first, then hours of the day that is not over. Each day or hour of a rack is
replaced in one step (sql/replacing.py)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...units import NS_PER_DAY
from .. import aside, replacing
from ..damage import readable
from ..disk import failing_as_one_line
from ..format.filenames import COMPACTED, Segment, date_of
from ..segments import FileSelection, SealedFile, snapshot
from ..store import StoreFolder, files_of
from ..tables import RECORDED
from . import clock, rewriting, thinning
from .files import WHOLE_OR_GONE, DayFiles, DayName, Target, compactable, days_of_recordings, in_time, size_of, writers
from .rules import Detail, KeepRules

if TYPE_CHECKING:
    import duckdb

SMALL = 128 << 20  # bytes: larger files are not made larger
WAIT_S = 2.0  # for readers, before what was replaced is left to the next run
UNSHIPPED_NS = 2 * NS_PER_DAY  # for how long a day may wait for its shipping before that is reported
FOR_MISSING = (
    "its day keeps every row until a sound file of that name is in its place or it is removed from there, "
    "at most for the time of --bursts"
)
KEPT_FOR_EVER = ("recordings", "links", "canary", "thinned", "names")
# Of the rows about a recording, the last one counts (views.py).
_ROWS = {
    "recordings": "FROM day_recordings "
    "QUALIFY row_number() OVER (PARTITION BY recording_id ORDER BY complete DESC, written_ns DESC) = 1"
}


@dataclass(frozen=True)
class DayCompacted:
    """What was done, or would be done, to the files of some tables of a day of a rack ('' for files without a rack).
    `after_…` are None for what was not done."""

    name: DayName
    detail: Detail
    files: int
    bytes: int
    after_files: int | None = None
    after_bytes: int | None = None
    for_size: bool = False
    tables: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Returns the facts for JSON."""
        return {
            "date": date_of(self.name.day),
            "hour": self.name.hour if self.name.is_hour else None,
            "rack": self.name.rack,
            "tables": list(self.tables),
            "kept": self.detail.name.lower(),
            "files": self.files,
            "bytes": self.bytes,
            "after_files": self.after_files,
            "after_bytes": self.after_bytes,
            "for_size": self.for_size,
        }


@dataclass
class Compacted:
    """The result of one call. `waiting` is the number of replaced files that a reader holds; `troubles` are lines about
    what was left as it is, and why, `waits` about days that are due and keep every row for now; `is_busy` means that
    another call was running, so that nothing was done."""

    store: Path
    days: list[DayCompacted] = field(default_factory=list)
    waiting: int = 0
    troubles: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    bytes: int = 0
    is_busy: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The object that `mburst compact --json` prints."""
        return {
            "store": str(self.store),
            "busy": self.is_busy,
            "days": [day.facts() for day in self.days],
            "bytes": self.bytes,
            "waiting_files": self.waiting,
            "troubles": self.troubles,
            "waits": self.waits,
        }


Report = Callable[[DayCompacted], None]


def compact(
    store: StoreFolder,
    rules: KeepRules,
    *,
    dry_run: bool = False,
    now_ns: int | None = None,
    report: Report = lambda _: None,
) -> Compacted:
    """Compact STORE by RULES, beside its writers and readers. REPORT hears of each day; ages are those at NOW_NS (None:
    now, where the clock is believed). It may be broken off at any instant: nothing is lost or counted twice. Raises
    MburstError where files cannot be read or written: the days before are done."""
    run = _Run(store, rules, dry_run, now_ns, report)
    if dry_run:
        run.all()
        return run.done
    with replacing.exclusively(store.path) as is_free:
        if not is_free:
            return Compacted(store.path, is_busy=True)
        replacing.finish(store.path)
        run.all()
        run.done.waiting = replacing.finish(store.path, WAIT_S)
        return run.done


class _Run:
    """One call of `compact`."""

    def __init__(self, store: StoreFolder, rules: KeepRules, dry_run: bool, now_ns: int | None, report: Report) -> None:
        self.done = Compacted(store.path)
        self._store = store
        self._rules = rules
        self._dry_run = dry_run
        self._report = report
        self._now_ns = time.time_ns() if now_ns is None else now_ns
        self._is_own_clock = now_ns is None

    def all(self) -> None:
        """Reduce every day as its age requires, and then as the size of the store requires."""
        self._by_age()
        self._by_size()

    def _is_clock_believed(self) -> bool:
        """Whether what is old by the clock may be removed. Raises MburstError."""
        if not self._is_own_clock:
            return True
        noted = clock.look(self._store.path, notes=not self._dry_run)
        if noted.doubts_until_ns is not None:
            self.done.troubles.append(clock.doubt(noted))
        return noted.doubts_until_ns is None

    def _by_age(self) -> None:
        least = Detail.NONE if self._is_clock_believed() else Detail.ALL
        named = set[Path]()
        for name, day in self._days().items():
            for target, newest_ns in day.unshipped.items():
                detail = self._rules.detail(max(name.end_ns, newest_ns), self._now_ns - UNSHIPPED_NS)
                if detail > Detail.ALL and target.path not in named:
                    named.add(target.path)
                    self.done.waits.append(_wait(self._store.path, date_of(name.day), target))
            self.done.troubles += [f"{line}: its day stays as it is" for line in day.damaged]
            detail = self._rules.detail(max(name.end_ns, day.newest_ns), self._now_ns)
            if (detail := min(detail, least)) is Detail.BURSTS and day.missing and day.is_whole:
                detail = Detail.ALL
                lines = [f"{file}: {FOR_MISSING}" for file in day.missing]
                self.done.waits += [line for line in lines if line not in self.done.waits]
            self._bring(name, day, detail)

    def _by_size(self) -> None:
        """Remove detail, the oldest first, then sums, until the store is no larger than allowed."""
        total = _size(self._store.path) - self._replaced_bytes()
        if self._rules.size is not None:
            for detail in (Detail.STEPS, Detail.NONE):
                over = {name: day for name, day in self._days().items() if not name.is_hour}
                for name, day in over.items() if total > self._rules.size else ():
                    if total > self._rules.size and (made := self._bring(name, day, detail, for_size=True)):
                        total += (made.after_bytes or 0) - made.bytes
        self.done.bytes = total

    def _replaced_bytes(self) -> int:
        """The size of the replaced files that are still there."""
        hidden = replacing.hidden(self._store.path)
        return sum(size_of(self._store.path / path) for path in hidden.paths)

    def _days(self) -> dict[DayName, DayFiles]:
        with self._store.connect(since_ns=0, until_ns=0) as con, readable(con):  # only rows about recordings
            self._lanes = thinning.lanes(con)
            known, needed = writers(con), days_of_recordings(con)
        with failing_as_one_line(self._store.path, "read"):
            return compactable(self._store.path, known, needed, self._now_ns)

    def _bring(self, name: DayName, day: DayFiles, detail: Detail, for_size: bool = False) -> DayCompacted | None:
        """Reduce a day to DETAIL, unless there is nothing to do. An hour keeps every row. So does a merged day while
        files of an interface are left: what is kept of a recording is decided over its whole day."""
        if name.is_hour or (day.is_unfinished and day.is_merged):
            detail = Detail.ALL
        files = {table: _due(table, files, detail, day) for table, files in day.files.items()}
        files = {table: of for table, of in files.items() if of}
        if not files:
            return None
        made = DayCompacted(
            name,
            detail,
            sum(map(len, files.values())),
            sum(size_of(file.path) for of in files.values() for file in of),
            for_size=for_size,
            tables=tuple(sorted(files)),
        )
        if not self._dry_run:
            try:
                made = self._replace(made, files, day)
            except _UnknownRecording as error:
                self.done.waits.append(
                    f"{self._store.path}: {date_of(name.day)} of rack {name.rack!r} keeps every row until `recordings` "
                    f"has a row of recording {error} again, at most for the time of --bursts"
                )
                return self._bring(name, day, Detail.ALL)
        self.done.days.append(made)
        self._report(made)
        return made

    def _replace(self, made: DayCompacted, files: dict[str, list[SealedFile]], day: DayFiles) -> DayCompacted:
        replacement = replacing.Replacement(self._store.path)
        try:
            begun_ns = day.newest_ns or made.name.start_ns
            segment = Segment("", begun_ns, replacement.writer, COMPACTED * made.detail)
            new = rewriting.NewFiles(self._store.path, made.name.rack, segment)
            _Day(self._store.path, made, files, day, self._lanes, self._rules).write(new)
            new.publish()
            after = replacement.files()
            replaced = [file for of in files.values() for file in of]
            with failing_as_one_line(self._store.path, "write"):
                aside.mark_copies(self._store.path, replaced)
            replacement.commit(file.path for file in replaced)
        except BaseException:
            replacement.take_back()
            raise
        return replace(made, after_files=len(after), after_bytes=sum(map(size_of, after)))


def _wait(store: Path, date: str, target: Target) -> str:
    """A sentence on days that are not compacted because they have not been shipped."""
    return (
        f"{store}: days from {date} on keep every row until {target.name} has them (see `mburst ship`; if nothing is "
        f"shipped there any more, remove {target.path})"
    )


def _is_gone(table: str, detail: Detail, day: DayFiles) -> bool:
    """Whether DETAIL keeps no rows of a table of DAY; bins and senders are thinned instead."""
    if table in day.superseded:
        return True
    if detail is Detail.NONE:
        return table not in (*KEPT_FOR_EVER, *RECORDED)
    return detail is Detail.STEPS and table in WHOLE_OR_GONE


def _due(table: str, files: list[SealedFile], detail: Detail, day: DayFiles) -> list[SealedFile]:
    """Those of the FILES of a table of a day that do not match DETAIL, or are small and many. Bins with sums in `steps`
    are never mixed with others: the number of their segment marks them."""
    if _is_gone(table, detail, day):
        return files
    due = [file for file in files if table in RECORDED and file.name.segment.compacted < detail]
    like = [file for file in files if table not in RECORDED or file.name.segment.compacted == detail]
    small = [file for file in like if size_of(file.path) < SMALL]
    return due + small if len(small) > (0 if due else 1) else due


def _size(store: Path) -> int:
    """Bytes of STORE that its size limits."""
    return sum(facts.st_size for _, facts, is_packets in files_of(store) if not is_packets)


class _UnknownRecording(Exception):
    """A recording with bins on a day has no row: what is kept of it cannot be decided."""


class _Day:
    """A day of a rack; its FILES are rewritten."""

    def __init__(
        self,
        store: Path,
        made: DayCompacted,
        files: dict[str, list[SealedFile]],
        day: DayFiles,
        lanes: dict[str, thinning.CompactedLane],
        rules: KeepRules,
    ) -> None:
        self._name = made.name
        self._detail = made.detail
        self._files = {table: in_time(of) for table, of in files.items()}
        self._day = day
        self._is_merged = day.is_merged
        self._near = [file for file in day.near if _reaches(file, made.name)]
        of_day = FileSelection(made.name.rack, made.name.start_ns, made.name.end_ns)
        self._before = {table: snapshot(store, table, of_day).files for table in ("thinned", "steps")}
        self._lanes = lanes
        self._rules = rules

    def write(self, new: rewriting.NewFiles) -> None:
        """Write the replacements of the files. Raises MburstError."""
        every = [file for files in self._files.values() for file in files]
        before = [file for files in self._before.values() for file in files]
        with rewriting.reading([*every, *self._near, *before]) as con, readable(con):
            if self._detail is not Detail.ALL:
                rewriting.show(con, "day_near_bins", "bins", self._near)
                thinned = self._thinned(con)
                for batch in self._batches():
                    self._thin(con, batch, thinned, new)
            if self._detail is Detail.STEPS and (probes := self._files.get("probes")):
                rewriting.show(con, "day_probes", "probes", probes)
                new.write("latency_steps", thinning.latency_steps(con))
            for table, files in self._files.items():
                if not (
                    _is_gone(table, self._detail, self._day) or (table in RECORDED and self._detail is not Detail.ALL)
                ):
                    rewriting.show(con, f"day_{table}", table, files)
                    new.write(table, con.sql(_ROWS.get(table, f"FROM day_{table}")))

    def _thinned(self, con: duckdb.DuckDBPyConnection) -> set[str]:
        """The recordings for which the day was thinned before: either table shows it if files of the other are
        missing."""
        for table, files in self._before.items():
            rewriting.show(con, f"before_{table}", table, files)
        rows = con.execute(
            "SELECT recording_id FROM before_thinned WHERE start_ns = $1 "
            "UNION SELECT recording_id FROM before_steps WHERE ts_ns >= $1 AND ts_ns < $2",
            [self._name.start_ns, self._name.end_ns],
        ).fetchall()
        return {recording for (recording,) in rows}

    def _batches(self) -> Iterator[dict[str, list[SealedFile]]]:
        """Bins and senders of one writer at a time, which limits the memory. If files were merged, the recordings of a
        writer have rows in several files, together with those of other writers."""
        every: dict[str, dict[str, list[SealedFile]]] = defaultdict(lambda: {"bins": [], "sources": []})
        for table in RECORDED:
            for file in self._files.get(table, ()):
                segment = file.name.segment
                is_together = self._is_merged and segment.compacted < Detail.BURSTS
                every["" if is_together else segment.writer][table].append(file)
        yield from every.values()

    def _thin(
        self,
        con: duckdb.DuckDBPyConnection,
        batch: dict[str, list[SealedFile]],
        thinned: set[str],
        new: rewriting.NewFiles,
    ) -> None:
        for table in RECORDED:
            rewriting.show(con, f"day_{table}", table, batch[table])
        rows = con.execute("SELECT recording_id FROM day_bins UNION SELECT recording_id FROM day_sources").fetchall()
        of_day = sorted(recording for (recording,) in rows)
        if self._detail is Detail.BURSTS and (unknown := [of for of in of_day if of not in self._lanes]):
            raise _UnknownRecording(unknown[0])
        every = [self._lanes[recording] for recording in of_day if recording in self._lanes]
        if all(file.name.segment.compacted >= Detail.BURSTS for files in batch.values() for file in files):
            fresh = [lane for lane in every if lane.recording_id not in thinned]  # of others, the sums are in `steps`
        else:
            fresh = every
        if self._detail is Detail.BURSTS:
            every = fresh = [lane for lane in fresh if lane.link_bps]
        if self._detail is not Detail.NONE:
            thinning.load_lanes(con, fresh, of_day)
            thinning.prepare(con, self._name, self._rules, self._detail)
            new.write("steps", thinning.steps(con))
        thinning.load_lanes(con, every, of_day)
        thinning.keep(con, self._detail)
        for table in RECORDED:
            new.write(table, con.sql(f"FROM kept_{table}"))
        new.write("kept", thinning.spans(con, self._name))
        new.write("thinned", thinning.marks(con, self._name, self._rules, self._detail))


def _reaches(file: SealedFile, name: DayName) -> bool:
    """Whether a file of the day before or after has rows that matter to a day."""
    reach = thinning.NEAR_NS
    return file.name.first_ns < name.end_ns + reach and file.name.last_ns >= name.start_ns - reach

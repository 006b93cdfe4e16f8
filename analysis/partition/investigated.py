"""Why the probes of hosts were late in a span of time, such as a day of a rack. Each host is investigated by itself
(answers/investigate.py), over its own recordings and over data that belongs to no host, such as probes and the
telemetry of switches.

The result for a host is therefore the same in a partition of its rack and in one of its own. An investigation holds
each bin and probe of its time in memory: a span that has too many is divided into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import MburstError
from ...sql import listed
from ...sql.damage import readable
from ...sql.format.filenames import SealedName
from ...sql.segments import FileSelection
from ..answers.chosen import choose_recordings
from ..answers.investigate import InvestigationResult, investigate, is_at
from ..answers.memory import NoRoom, needed_bytes
from ..bursts.find import BurstDefinition
from ..cause.read import Question, own_addresses, probes_by_time, read_paths, read_recordings
from .detect import check_whole

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

PARTS = (1, 2, 3, 4, 6, 8, 12, 24, 48, 72, 144, 288)  # possible numbers of parts: of a day, down to 5 minutes
HELD_BYTES = 1 << 30  # the most that an investigation holds, as memory.py estimates it
MEMORY = "500MB"  # of the database in addition: together less than the 2 GB that a task may take
_HOLDING = ("recordings", "links", "canary")  # tables with rows that stay valid: files of any time are read

Files = Mapping[str, Iterable[Path]]


class HostInvestigation(NamedTuple):
    """The investigation of the probes of [SINCE_NS, UNTIL_NS) for HOST. needed_bytes: the memory that it holds; answer:
    None if that is more than HELD_BYTES."""

    host: str
    since_ns: int
    until_ns: int
    needed_bytes: int
    answer: InvestigationResult | None = None

    @property
    def is_of_host(self) -> bool:
        """Whether the deciding path crosses a port that the host recorded, by a name or an address."""
        crossing = self.answer.findings[0].evidence.crossing if self.answer and self.answer.findings else None
        return crossing is not None and not crossing.assumed


def investigate_hosts(
    files: Files, definition: BurstDefinition, *, since_ns: int, until_ns: int, scratch: Path | None = None
) -> Iterator[HostInvestigation]:
    """Yields the investigation of each host that a path of the probes in [SINCE_NS, UNTIL_NS) names, one after the
    other, with the defaults of `mburst investigate`; in parts of that time if its arrays would be too large. FILES, by
    table: those for detect.detect, and `probes`, `gaps`, `ports`, `queues` and `links`. A host is left out if the
    deciding path crosses no port of it. SCRATCH: as in sql/listed.py. Raises MburstError if a file is damaged or
    missing, or if memory has no room."""
    question = Question(definition, link_bps=definition.link_bps, since_ns=since_ns, until_ns=until_ns)
    files = {table: [*paths] for table, paths in files.items()}
    for part in _parts(files, question, scratch):
        if part.needed_bytes > HELD_BYTES:
            yield part
            continue
        asked = replace(question, hosts=(part.host,), since_ns=part.since_ns, until_ns=part.until_ns)
        with _connected(_of_part(files, part), scratch) as con:
            answered = part._replace(answer=_investigate(con, asked))
        if answered.is_of_host:
            yield answered


def _investigate(con: duckdb.DuckDBPyConnection, question: Question) -> InvestigationResult:
    try:
        return investigate(con, question, considers_changes=False)
    except NoRoom as error:
        raise MburstError(str(error), "run fewer tasks at once, or give them more memory") from None


def _parts(files: Files, question: Question, scratch: Path | None) -> Iterator[HostInvestigation]:
    """Yields the parts to investigate of each host that a path names."""
    hosts = {_host_of(path) for path in files.get("bins", ())}
    with _connected(files, scratch) as con, readable(con):
        recordings, paths, addresses = read_recordings(con, question), read_paths(con, question), own_addresses(con)
        names = {name for path in paths for name in path[:2]}
        probes = _probes_in(con, question)
    for host in sorted({recording["host"] for recording in recordings} & hosts):  # without switches
        own = [recording for recording in recordings if recording["host"] == host]
        if any(is_at(name, host, recording["interface"], addresses) for name in names for recording in own):
            yield from _parts_of(host, own, probes, question)


def _parts_of(
    host: str, recordings: list[dict[str, Any]], probes: Counts, question: Question
) -> Iterator[HostInvestigation]:
    """Returns the fewest parts that are small enough, or else the shortest ones; parts without a bin or a probe are
    left out."""
    chosen = [recording for of_lane in choose_recordings(recordings, [], []).values() for recording in of_lane]
    bins = np.array([_bins_in(chosen, *span) for span in _spans(question, PARTS[-1])])
    for count in PARTS:
        of_parts = zip(*(of.reshape(count, -1).sum(axis=1).tolist() for of in (bins, probes)), strict=True)
        parts = [
            HostInvestigation(host, *span, needed_bytes(*of))
            for span, of in zip(_spans(question, count), of_parts, strict=True)
            if all(of)
        ]
        if all(part.needed_bytes <= HELD_BYTES for part in parts):
            break
    yield from parts


def _spans(question: Question, count: int) -> list[tuple[int, int]]:
    """Returns COUNT equal parts of a question's time."""
    since, until = question.since_ns, question.until_ns
    assert since is not None and until is not None
    edges = [since + (until - since) * number // count for number in range(count + 1)]
    return list(pairwise(edges))


def _bins_in(recordings: Iterable[Mapping[str, Any]], since_ns: int, until_ns: int) -> int:
    """Returns the number of bins in RECORDINGS within a time."""
    return sum(
        max(min(recording["end_ns"], until_ns) - max(recording["first_ns"], since_ns), 0) // recording["bin_ns"]
        for recording in recordings
    )


def _probes_in(con: duckdb.DuckDBPyConnection, question: Question) -> Counts:
    """Returns the number of probes in each of the shortest parts."""
    [(since, until), *_] = _spans(question, PARTS[-1])
    counts = np.zeros(PARTS[-1], dtype=np.int64)
    for number, count in probes_by_time(con, question, until - since).items():
        counts[min(number, PARTS[-1] - 1)] = count
    return counts


def _of_part(files: Files, part: HostInvestigation) -> Files:
    """Returns the files of the part's host and of no host that overlap its time or are valid for it."""
    near = FileSelection(None, part.since_ns, part.until_ns)

    def is_wanted(table: str, path: Path) -> bool:
        name = SealedName.parse(path.name)
        return name is not None and name.segment.host in ("", part.host) and (table in _HOLDING or near.takes(name))

    return {table: [path for path in paths if is_wanted(table, path)] for table, paths in files.items()}


@contextmanager
def _connected(files: Files, scratch: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a database over FILES. Raises MburstError if one is damaged or missing."""
    with listed.connect(files, threads=1, memory=MEMORY, scratch=scratch) as con:
        check_whole(con)
        yield con


def _host_of(path: Path) -> str:
    name = SealedName.parse(path.name)
    return name.segment.host if name else ""

"""The names of the files of a store. A name states whose rows a file holds, of which time, and the checksum of its
content.

- a segment: `HOST-START-WRITER-NUMBER`: the host (percent-encoded, at most 100 characters of it), when it was begun
  (Unix nanoseconds, 20 digits), the writer (12 hexadecimal digits), and its number among the segments of that writer,
  from 0;
- its hot form: `hot/TABLE/SEGMENT.log`, and `SEGMENT.new` until its header is on the disk;
- its sealed form: `TABLE/date=YYYY-MM-DD/rack=RACK/SEGMENT.PART.cCOLUMNS.FIRST-LAST.DIGEST.parquet`: how many columns
  the table had then, the first and last time of its rows, and XXH3-64 of the file; `SEGMENT.PART.tmp` until it is
  complete. Rows of many days, few of each, are in `date=mixed`;
- a segment that compaction wrote from others (sql/compaction) has rows of any host, so the host is ''. Its number
  divided by COMPACTED states the detail: 1 all rows, 2 those around bursts, 3 one-second sums.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from ...errors import UsageError
from ...units import NS_PER_DAY

HOT = "hot"
MIXED = "date=mixed"
STRANGER = "not a file name of mburst"  # why a file is left out
ASIDE = "damaged"  # the folder that `mburst repair` moves files into (sql/aside.py): no rows are read from it
REPLACED = "replaced"  # the folder of what compaction replaces (sql/replacing.py): no rows are read from it
SHIPPED = "shipped"  # the folder of receipts, and of what a store remembers of them: no rows are read from it
PACKETS = "packets"  # the folder of rings of packets (mburst/packets/ring.py): no rows are read from it
EARLIEST_NS, LATEST_NS = -(2**63), 2**63 - 1  # range of the times of rows
COMPACTED = 10**9  # segments from this number on are those of compaction: no recorder reaches it
LONGEST_HOST = 100  # most characters of a percent-encoded host in the name of a file
LONGEST = 255  # bytes of a name, on Linux file systems

_SEGMENT = re.compile(r"(?P<host>[^/]*)-(?P<start>\d{20})-(?P<writer>[0-9a-f]{12})-(?P<number>\d+)", re.ASCII)
_SEALED = re.compile(
    r"(?P<segment>.+)\.(?P<part>\d+)\.c(?P<columns>\d+)\.(?P<first>-?\d+)-(?P<last>-?\d+)\.(?P<digest>[0-9a-f]{16})\.parquet",
    re.ASCII,
)
_CUT_ESCAPE = re.compile(r"\ufffd*(?:%[0-9A-F]?)?\Z")
_BOUNDS = ("first", "last")
_UNFINISHED = re.compile(r"(?P<segment>.+)\.(?:new|\d+\.tmp)", re.ASCII)


@dataclass(frozen=True)
class Segment:
    """What one writer wrote of one table without a pause."""

    host: str
    start_ns: int
    writer: str
    number: int

    @property
    def compacted(self) -> int:
        """How far it was compacted (above); 0: as its writer wrote it."""
        return self.number // COMPACTED

    @property
    def name(self) -> str:
        """The segment in names of files."""
        return f"{quote(self.host, safe='')[:LONGEST_HOST]}-{self.start_ns:020d}-{self.writer}-{self.number}"

    @classmethod
    def parse(cls, name: str) -> Segment | None:
        """Returns the segment called NAME; None if NAME is not the name of a segment."""
        match = _SEGMENT.fullmatch(name)
        if match is None or int(match["start"]) > LATEST_NS:
            return None
        return cls(unquote(match["host"]), int(match["start"]), match["writer"], int(match["number"]))


@dataclass(frozen=True)
class SealedName:
    """The name of a sealed file."""

    segment: Segment
    part: int
    columns: int
    first_ns: int
    last_ns: int
    digest: str

    @property
    def name(self) -> str:
        """The file's name."""
        bounds = f"{self.first_ns}-{self.last_ns}"
        return f"{self.segment.name}.{self.part}.c{self.columns}.{bounds}.{self.digest}.parquet"

    @classmethod
    def parse(cls, name: str) -> SealedName | None:
        """Returns the parts of NAME; None if it is not the name of a sealed file."""
        match = _SEALED.fullmatch(name)
        segment = Segment.parse(match["segment"]) if match else None
        if match is None or segment is None or not all(EARLIEST_NS <= int(match[end]) <= LATEST_NS for end in _BOUNDS):
            return None
        return cls(
            segment, int(match["part"]), int(match["columns"]), int(match["first"]), int(match["last"]), match["digest"]
        )


def may_be_cut(host: str) -> bool:
    """Whether HOST, from the name of a file, may be only the beginning of the name of a host."""
    return len(quote(host, safe="")) >= LONGEST_HOST


def without_escape(host: str) -> str:
    """HOST, from the name of a file that has only its beginning, without the part of a letter at its end."""
    return _CUT_ESCAPE.sub("", host)


def new_writer() -> str:
    """Returns an id that no other writer has."""
    return os.urandom(6).hex()


def new_segment(host: str, writer: str, number: int) -> Segment:
    """The next segment of a writer."""
    return Segment(host, time.time_ns(), writer, number)


def unfinished_segment(name: str) -> str | None:
    """Returns the segment in the name of a file that is not yet complete; None if NAME is not of such a file."""
    match = _UNFINISHED.fullmatch(name)
    return match["segment"] if match else None


def hot_path(store: Path, table: str, segment: Segment) -> Path:
    """The path of the hot form of a segment."""
    return store / HOT / table / f"{segment.name}.log"


def date_of(day: int) -> str:
    """ "2026-11-20" for the number of days since 1970-01-01."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()


def times_of(folder: str) -> tuple[int, int] | None:
    """Returns the first and the last nanosecond of the rows in a day's folder; None if its name has no day."""
    try:
        day = (datetime.date.fromisoformat(folder.removeprefix("date=")) - datetime.date(1970, 1, 1)).days
    except ValueError:
        return None
    return day * NS_PER_DAY, (day + 1) * NS_PER_DAY - 1


def date_folder(day: int | None) -> str:
    """The name of a day's folder; for None, of the folder for rows of many days."""
    return MIXED if day is None else f"date={date_of(day)}"


def rack_folder(rack: str) -> str:
    """The name of a rack's folder. Reversible, and safe as a file name for any rack."""
    return f"rack={quote(rack, safe='')}"


def rack_of(folder: str) -> str:
    """The rack of a folder of that name."""
    return unquote(folder.removeprefix("rack="))


def check_rack(rack: str) -> None:
    """Raises UsageError if no folder can be named after RACK."""
    if len(rack_folder(rack)) > LONGEST:
        raise UsageError(
            f"invalid rack name {rack[:20]!r}…: longer than {LONGEST - len('rack=')} bytes in a file name",
            "choose a shorter name (a letter outside a-z counts three bytes for each of its own)",
        )

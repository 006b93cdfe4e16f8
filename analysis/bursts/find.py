"""Bursts as sql/queries/bursts.sql defines them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...sql.damage import readable
from ...sql.limits import note_answerable
from ...sql.named import FETCH, prepare, set_variables
from ...units import format_duration, format_share

if TYPE_CHECKING:
    import duckdb

# The fields of a burst, in the order of `mburst bursts --json`.
COLUMNS = (
    "host",
    "rack",
    "interface",
    "direction",
    "start_ns",
    "end_ns",
    "duration_ns",
    "bytes",
    "packets",
    "mean_utilization",
    "peak_utilization",
    "sources",
    "fan_in",
    "effective_sources",
    "onset_spread_ns",
    "pattern",
    "top_sources",
    "services",
    "quality",
    "recording_id",
    "clock_epoch",
    "bin_ns",
    "link_bps",
)

# The variables of bursts.sql that select the bins of the detection, in addition to `hosts` and those of the definition.
FILTERS = ("rack", "interface", "direction", "recording", "since_ns", "until_ns")
CHOSEN_BY = (*FILTERS, "recordings")
THRESHOLD, JOINED_BINS = 0.5, 5  # defaults of bursts.sql
PATTERNS = ("single-source", "incast", "many-sources", "canary", "unknown")


@dataclass(frozen=True)
class BurstDefinition:
    """The definition of a burst. None selects the default that depends on the recording."""

    bin_ns: int | None = None  # bin width to use: the stored one or a multiple
    threshold: float = THRESHOLD  # share of line rate at which a bin is hot
    release: float | None = None  # a burst continues while at or above this; default: the threshold
    join_ns: int | None = None  # gaps up to this are joined; 5 bins
    min_duration_ns: int | None = None  # shorter bursts are left out; 1 bin
    link_bps: int | None = None  # instead of the recorded line rate

    def __post_init__(self) -> None:
        """Raises UsageError if the definition contradicts itself."""
        if self.bin_ns is not None and self.bin_ns <= 0:
            raise UsageError("a bin must be longer than 0")
        if not 0 < self.threshold <= 10:
            raise UsageError(f"invalid threshold {self.threshold}: not a share of line rate", "examples: 0.5, 50%")
        if self.release is not None and not 0 < self.release <= self.threshold:
            raise UsageError(f"release {self.release} must be above 0 and at most the threshold, {self.threshold}")

    @property
    def explicit(self) -> BurstDefinition:
        """The same definition with each default that does not depend on the recording."""
        lower = self.threshold if self.release is None else self.release
        if self.bin_ns is None:
            return replace(self, release=lower)
        return replace(
            self, release=lower, join_ns=self.joined_ns(self.bin_ns), min_duration_ns=self.shortest_ns(self.bin_ns)
        )

    def width_ns(self, stored_ns: int) -> int:
        """Returns the bin width of the detection for stored bins of STORED_NS."""
        return self.bin_ns or stored_ns

    def joined_ns(self, stored_ns: int) -> int:
        """Returns the largest gap over which bursts are joined, for these bins."""
        return JOINED_BINS * self.width_ns(stored_ns) if self.join_ns is None else self.join_ns

    def shortest_ns(self, stored_ns: int) -> int:
        """Returns the length of the shortest burst that is listed, for these bins."""
        return self.width_ns(stored_ns) if self.min_duration_ns is None else self.min_duration_ns

    def line_bps(self, recorded_bps: int | None) -> int | None:
        """Returns the line rate of the detection for a link of RECORDED_BPS; None if it is unknown."""
        return self.link_bps or recorded_bps or None


def definition_text(threshold: float, release: float | None, join_ns: int, min_duration_ns: int) -> str:
    """ "a burst is 80 % of line rate or more, joined over gaps up to 5 ms, 3 ms or longer" """
    lower = "" if release is None or release == threshold else f", goes on at {format_share(release)} or more"
    return (
        f"a burst is {format_share(threshold)} of line rate or more{lower}, joined over gaps up to "
        f"{format_duration(join_ns)}, {format_duration(min_duration_ns)} or longer"
    )


def find_bursts(
    con: duckdb.DuckDBPyConnection,
    definition: BurstDefinition | None = None,
    *,
    hosts: str | Sequence[str] | None = None,
    rack: str | None = None,
    interface: str | None = None,
    direction: str | None = None,
    recording: str | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> list[dict[str, Any]]:
    """Returns the bursts in the store behind CON, sorted by start, of bins that start in [since_ns, until_ns).

    Each is a dict of COLUMNS. CON keeps the TEMP TABLEs `bursts` (the same without top_sources and services, and with
    quality as a bit set), `burst_sources` (every sender of each), `burst_names` (the names of these senders) and
    `lanes` (the recordings that were examined). Raises UsageError if the width does not fit the recording, and
    MburstError if a line rate is unknown or the store cannot be read."""
    detect_bursts(
        con,
        definition,
        hosts=hosts,
        rack=rack,
        interface=interface,
        direction=direction,
        recording=recording,
        since_ns=since_ns,
        until_ns=until_ns,
    )
    return list(listed(con))


def listed(con: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    """Yields the list of find_bursts from the tables that detect_bursts left in CON, reading some thousands at a time
    so that callers need not hold all of them. CON is busy until the last one is taken."""
    for row in _rows(con, "FROM listed"):
        yield dict(zip(COLUMNS, row, strict=True))


def listed_json(con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yields the same, each as the text of a JSON object that the database writes: with tens of thousands, creating
    Python objects takes longer than the detection."""
    for (burst,) in _rows(con, "SELECT CAST(to_json(listed) AS VARCHAR) FROM listed"):
        yield burst


def _rows(con: duckdb.DuckDBPyConnection, query: str) -> Iterator[tuple[Any, ...]]:
    with readable(con):
        result = con.execute(query)
        while some := result.fetchmany(FETCH):
            yield from some


def detect_bursts(
    con: duckdb.DuckDBPyConnection,
    definition: BurstDefinition | None = None,
    *,
    hosts: str | Sequence[str] | None = None,
    **where: str | int | list[str] | None,
) -> None:
    """Leaves the tables of find_bursts in CON without listing the bursts. `recordings`: only these are examined."""
    settings = {
        **asdict(definition or BurstDefinition()),
        "hosts": [hosts] if isinstance(hosts, str) else None if hosts is None else list(hosts),
        **{name: where.get(name) for name in CHOSEN_BY},
    }
    if unknown := where.keys() - set(CHOSEN_BY):
        raise TypeError(f"unknown filter {min(unknown)!r}")
    with readable(con):
        set_variables(con, **settings)
        prepare(con, "bursts")
        note_answerable(con)


def overlapping_recordings(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Returns pairs of recordings of the last `find_bursts` that cover the same host, interface and direction at the
    same time, so that each burst is found in both."""
    return con.execute("""
        WITH spans AS (
            SELECT recording_id, rack, host, interface, direction, start_ns, end_ns
            FROM lanes JOIN (SELECT recording_id, start_ns, end_ns FROM recordings) USING (recording_id))
        SELECT a.recording_id, b.recording_id
        FROM spans AS a JOIN spans AS b USING (rack, host, interface, direction)
        WHERE a.recording_id < b.recording_id AND a.start_ns <= b.end_ns AND b.start_ns <= a.end_ns
        ORDER BY ALL""").fetchall()

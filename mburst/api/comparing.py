"""The answer of `mburst compare`: two situations side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from ..errors import MburstError, UsageError
from ..units import format_duration, format_number, format_share
from .asked import LaneDirection, check_word
from .options import Duration, NewestData, Time, duration_ns, span_of

if TYPE_CHECKING:
    import duckdb

    from ..analysis.answers.compare import BurstSummary, Comparison, SituationLatency
    from ..analysis.bursts.find import BurstDefinition
    from ..analysis.model.stats import Estimate
    from ..sql import StoreFolder
    from ..sql.damage import DamagedFile


PROBE_KEYS = ("src", "dst", "protocol", "batch")
RECORDING_KEYS = ("host", "rack", "interface", "direction")


class ComparisonSide(NamedTuple):
    """One side of a comparison: the part of a store that is compared. None selects all; a DIRECTION of None selects
    `in`, or all directions if `in` was not recorded."""

    since: Time | None = None
    until: Time | None = None
    src: str | None = None
    dst: str | None = None
    protocol: str | None = None
    batch: str | None = None
    host: str | None = None
    rack: str | None = None
    interface: str | None = None
    direction: str | None = None


def side_of(given: Mapping[str, Any]) -> ComparisonSide:
    """Returns the ComparisonSide with the fields GIVEN. Raises UsageError for an unknown field."""
    if unknown := sorted(given.keys() - set(ComparisonSide._fields)):
        raise UsageError(f"unknown key {unknown[0]!r}", f"valid keys: {', '.join(ComparisonSide._fields)}")
    if given.get("direction") is not None:
        check_word("direction", given["direction"], *get_args(LaneDirection))
    return ComparisonSide(**given)


@dataclass(frozen=True)
class Compared:
    """A comparison. `comparison` has the figures (mburst.analysis.answers.compare); `notes` say what was left out and
    what makes the sides hard to compare."""

    comparison: Comparison
    notes: list[str]
    damaged: list[DamagedFile]

    @property
    def verdict(self) -> str:
        """The verdict on B against A: `better`, `worse`, `alike` or `undetermined`."""
        return self.comparison.verdict

    @cached_property
    def summary(self) -> str:
        """One sentence that says whether B is better."""
        return sentence(self.comparison)

    def __str__(self) -> str:
        return self.summary

    def to_dict(self) -> dict[str, Any]:
        """The object that `mburst compare --json` prints. Times are in ns."""
        found = self.comparison
        return {
            "verdict": found.verdict,
            "decided_by": found.decided_by,
            "summary": self.summary,
            "a": _side(found.a, found.bursts_a),
            "b": _side(found.b, found.bursts_b),
            "percentiles": [
                {"share": level.share, "a_ns": level.a, "b_ns": level.b, "ratio": level.ratio and level.ratio._asdict()}
                for level in found.levels
            ],
            "damaged_files": [file.facts() for file in self.damaged],
            "slow_ns": found.threshold_ns,
            "fan_out": [asdict(fan) for fan in found.fans],
        }

    def table(self) -> Any:
        """Returns a pyarrow.Table with a row for each percentile: share, a_ns and b_ns (ns), ratio (B / A), and
        ratio_low and ratio_high, its 95 % interval. Values are NULL if there are too few probes."""
        from .tables import of_rows

        return of_rows(
            [
                {
                    "share": level.share,
                    "a_ns": level.a,
                    "b_ns": level.b,
                    **{
                        name: level.ratio and getattr(level.ratio, of)
                        for name, of in (("ratio", "value"), ("ratio_low", "low"), ("ratio_high", "high"))
                    },
                }
                for level in self.comparison.levels
            ],
            self.damaged,
        )


def _side(latency: SituationLatency, bursts: BurstSummary | None) -> dict[str, Any]:
    return {
        "n": latency.n,
        "sent": latency.sent,
        "lost": latency.lost,
        "measures": list(latency.measures),
        "start_ns": latency.span and latency.span[0],
        "end_ns": latency.span and latency.span[1],
        "bursts": bursts
        and {
            "count": bursts.count,
            "recorded_ns": bursts.recorded_ns,
            "share_of_time": bursts.share_of_time,
            "per_minute": bursts.per_minute._asdict(),
            "directions": list(bursts.directions),
        },
    }


def compared(
    a: tuple[StoreFolder, ComparisonSide],
    b: tuple[StoreFolder, ComparisonSide],
    wanted: BurstDefinition,
    *,
    measure: str | None = None,
    slow: Duration | None = None,
    seed: int = 1,
) -> Compared:
    """Read both sides and compare them. Raises MburstError if there is nothing to compare."""
    from ..analysis.answers.compare import compare

    slow_ns = None if slow is None else duration_ns(slow)
    damaged: dict[str, DamagedFile] = {}
    notes: list[str] = []
    newest = NewestData()
    spans = [span_of(store, side.since, side.until, side.rack, newest) for store, side in (a, b)]
    (latency_a, bursts_a), (latency_b, bursts_b) = (
        _read(store, side, span, wanted, measure, damaged, notes)
        for (store, side), span in zip((a, b), spans, strict=True)
    )
    if not (latency_a.n and latency_b.n) and not (bursts_a and bursts_b):
        both = (("A", latency_a.n or bursts_a), ("B", latency_b.n or bursts_b))
        lacking = " and ".join(name for name, there in both if not there)
        have = "have" if " and " in lacking else "has"
        raise MburstError(
            f"nothing to compare: {lacking} {have} no probes of that kind, and no recording"
            if lacking
            else "nothing to compare: one has probes only, the other recordings only",
            "`mburst sql STORE` shows what there is",
        )
    if latency_a.n and latency_b.n and latency_a.measures != latency_b.measures:
        how = [", ".join(latency.measures) for latency in (latency_a, latency_b)]
        notes.append(f"A is measured by {how[0]}, B by {how[1]}: choose a measure that both have (--measure)")
    if bursts_a and bursts_b and bursts_a.directions != bursts_b.directions:
        ways = [" and ".join(bursts.directions) for bursts in (bursts_a, bursts_b)]
        notes.append(
            f"bursts of A are of direction {ways[0]}, of B of {ways[1]}: choose one that both have (direction=)"
        )
    return Compared(compare(latency_a, latency_b, slow_ns, bursts_a, bursts_b, seed), notes, list(damaged.values()))


def _read(
    store: StoreFolder,
    side: ComparisonSide,
    span: tuple[int | None, int | None],
    wanted: BurstDefinition,
    measure: str | None,
    damaged: dict[str, DamagedFile],
    notes: list[str],
) -> tuple[SituationLatency, BurstSummary | None]:
    """Returns the probes and the bursts of one side in SPAN. Adds damaged files to DAMAGED, by path, and what is left
    out to NOTES."""
    from ..analysis.answers.compare import read_latency
    from ..analysis.answers.paths import ProbeSelection
    from ..sql.damage import damaged_files

    since, until = span
    with store.connect() as con:
        damaged |= {file.path: file for file in damaged_files(con)}
        selection = ProbeSelection(side.batch, side.src, side.dst, side.protocol, since, until)
        latency = read_latency(con, selection, measure)
        if not latency.sent and not (measure and read_latency(con, selection).sent):
            _refuse_nothing(con, store, side, "probe", PROBE_KEYS)
        try:
            bursts = _bursts(con, side, wanted, since, until)
        except UsageError:
            raise
        except MburstError as error:
            if not latency.n:
                raise
            notes.append(f"{store.path}: bursts are left out: {error}")
            return latency, None
        if bursts is None:
            _refuse_nothing(con, store, side, "recording", RECORDING_KEYS)
        return latency, bursts


def _refuse_nothing(
    con: duckdb.DuckDBPyConnection, store: StoreFolder, side: ComparisonSide, kind: str, keys: tuple[str, ...]
) -> None:
    """Raise MburstError if SIDE selects by KEYS, and STORE has rows of KIND: then none of them is selected, such as by
    a name that is misspelt, and a verdict would be about something else."""
    given = ", ".join(f"{key}={value}" for key in keys if (value := getattr(side, key)) is not None)
    if given and con.execute(f"FROM {kind}s LIMIT 1").fetchall():
        then = "" if side.since is None and side.until is None else " in this time"
        raise MburstError(
            f"{store.path}: no {kind} with {given}{then}", f"`mburst sql {store.path} 'FROM {kind}s'` lists all"
        )


def _bursts(
    con: duckdb.DuckDBPyConnection, side: ComparisonSide, wanted: BurstDefinition, since: int | None, until: int | None
) -> BurstSummary | None:
    """Returns the bursts of the side's direction. If the side names none, returns those of direction `in`, or of all
    directions if `in` was not recorded."""
    from ..analysis.answers.compare import read_bursts
    from ..analysis.model.whole import whole_since

    hosts = None if side.host is None else [side.host]
    since = whole_since(con, "a comparison of bursts", since, until, rack=side.rack, hosts=hosts)
    of_directions = (
        read_bursts(
            con,
            wanted,
            hosts=hosts,
            rack=side.rack,
            interface=side.interface,
            direction=direction,
            since_ns=since,
            until_ns=until,
        )
        for direction in ([side.direction] if side.direction else ["in", None])
    )
    return next(filter(None, of_directions), None)


# --- in words ---------------------------------------------------------------------------------------------------------


def interval(estimate: Estimate) -> str:
    """Returns a number with its interval as text."""
    value, low, high = (format_number(number) for number in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low} to {high})"


def sentence(found: Comparison) -> str:
    """Returns one sentence that says whether B is better."""
    head = {
        "better": "B is better",
        "worse": "B is worse",
        "alike": "B is like A",
        "undetermined": "Inconclusive: no significant difference between A and B",
    }[found.verdict]
    if found.verdict == "undetermined" and not found.decided_by:
        return f"{head}: there are too few probes, or they span too short a time."
    if found.decided_by == "bursts" and found.bursts_a and found.bursts_b:
        return (
            f"{head}: {interval(found.bursts_b.per_minute)} bursts a minute against "
            f"{interval(found.bursts_a.per_minute)}."
        )
    if found.decided_by == "loss":
        return f"{head}: it loses {format_share(found.b.loss)} of the probes, A {format_share(found.a.loss)}."
    level = next((one for one in found.levels if f"p{100 * one.share:g}" == found.decided_by), None)
    if level is None or level.ratio is None or level.a is None or level.b is None:
        return f"{head}: no percentile differs significantly, and by 5 % or more."
    difference = (
        f"the {level_name(found.decided_by)} is {format_duration(level.b)} against {format_duration(level.a)}, "
        f"{interval(level.ratio)} times as long"
    )
    if found.verdict == "undetermined":
        return f"{head}: {difference}, but another percentile or the loss shows the opposite."
    return f"{head}: {difference}."


def level_name(name: str) -> str:
    """Returns the usual name of a percentile: p50 is the median."""
    return "median" if name == "p50" else name

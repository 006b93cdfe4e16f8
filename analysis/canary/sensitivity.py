"""The smallest burst that is detected: the detection curve from the canary bursts in the table `canary`.

The share of detected bursts has an exact interval (analysis/model/binomial.py). A size holds if, with 95 % confidence
(one-sided), the share is PROMISED or more there and at all larger sizes of the same length. Sizes are tested from the
largest down, and the first failure ends the test, so that several sizes need no correction."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...quality import Quality
from ..model import binomial
from ..read import canary as read_canary
from .detection import settings_of, stamps_of

if TYPE_CHECKING:
    import duckdb

    from ..bursts.find import BurstDefinition

PROMISED = 0.95  # least share of bursts that are detected
DOUBT = 0.05  # probability that the share is smaller
_WHERE = ("rack", "host", "interface", "direction")
_SETTING = (*_WHERE, "stamps", "bin_ns", "link_bps", "threshold_ppb", "release_ppb", "join_ns", "min_duration_ns")


class DetectionError(NamedTuple):
    """Error of an edge in ns, or of bytes as a share: the median with its sign, and the 95th percentile of its absolute
    value; None if nothing was detected."""

    median: float | None
    p95: float | None


@dataclass(frozen=True)
class CurvePoint:
    """The bursts of one size and length: how many were sent, how many count, and how many of these were detected, with
    the 95 % interval of that share. Errors are those of the detected burst; later and more are positive."""

    size_bytes: int
    length_ns: int
    sent: int
    n: int
    detected: int
    low: float
    high: float
    start_ns: DetectionError
    end_ns: DetectionError
    bytes: DetectionError

    @property
    def share(self) -> float | None:
        return self.detected / self.n if self.n else None

    @property
    def holds(self) -> bool:
        """Whether at least PROMISED of them are detected."""
        return self.n > 0 and binomial.lower(self.detected, self.n, DOUBT) >= PROMISED


@dataclass(frozen=True)
class DetectionCurve:
    """The detection curve of one interface and direction by one definition and kind of stamps, from its newest run.
    excluded: the number of bursts that do not count, by reason."""

    setting: dict[str, Any]
    batch: str
    source: str
    since_ns: int
    until_ns: int
    points: list[CurvePoint]
    excluded: dict[str, int]
    offset_ns: int
    offset_error_ns: int
    drift_ppb: int
    sent_error_ns: int
    missed_dropping: int = 0  # undetected bursts in times in which the recorder dropped packets

    def is_of(self, batch: str, row: Mapping[str, Any]) -> bool:
        """Returns whether the curve is from that run, and of the interface and definition of ROW, a row of `canary`."""
        return self.batch == batch and all(row[name] == value for name, value in self.setting.items())

    def limits(self) -> list[CurvePoint]:
        """Returns, for each length, the smallest size down to which PROMISED of the bursts are detected, if there is
        one; short lengths first."""
        found = []
        for length in sorted({point.length_ns for point in self.points}):
            held = None
            for point in sorted((p for p in self.points if p.length_ns == length), key=lambda p: -p.size_bytes):
                if not point.holds:
                    break
                held = point
            if held is not None:
                found.append(held)
        return found


class CurveSetting(NamedTuple):
    """An interface and direction, its definition of a burst as columns of `canary`, and the stamps of its bins."""

    where: dict[str, str]
    settings: dict[str, int]
    stamps: frozenset[str]


def curve_setting(recording: Mapping[str, Any], definition: BurstDefinition, quality: int) -> CurveSetting | None:
    """Returns the setting of a recording with that QUALITY; None if the speed of its link is unknown."""
    link = definition.line_bps(recording["link_bps"])
    if not link:
        return None
    return CurveSetting(
        {name: recording[name] for name in _WHERE},
        settings_of(definition, recording["bin_ns"], link),
        frozenset(filter(None, stamps_of(quality).split(", "))),
    )


def curves(con: duckdb.DuckDBPyConnection) -> list[DetectionCurve]:
    """Returns the newest detection curve of each setting in a store."""
    grouped: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in read_canary.readings(con):
        grouped.setdefault(tuple(row[name] for name in _SETTING), {}).setdefault(row["batch"], []).append(row)
    newest = [
        (key, max(batches.items(), key=lambda item: max(row["sent_ns"] for row in item[1])))
        for key, batches in grouped.items()
    ]
    return [_curve(dict(zip(_SETTING, key, strict=True)), batch, rows) for key, (batch, rows) in newest]


def _curve(setting: dict[str, Any], batch: str, rows: Sequence[dict[str, Any]]) -> DetectionCurve:
    cells: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["length_ns"], row["size_bytes"]), []).append(row)
    middle = rows[len(rows) // 2]
    return DetectionCurve(
        setting,
        batch,
        rows[0]["source"],
        min(row["start_ns"] for row in rows),
        max(row["end_ns"] for row in rows),
        [_point(size, length, cells[length, size]) for length, size in sorted(cells)],
        dict(Counter(row["excluded"] for row in rows if row["excluded"])),
        middle["offset_ns"],
        max(row["offset_error_ns"] for row in rows),
        middle["drift_ppb"],
        int(np.median([row["sent_error_ns"] for row in rows])),
        sum(not row["detected"] and not row["excluded"] and bool(row["quality"] & Quality.DROPS) for row in rows),
    )


def _point(size: int, length: int, rows: Sequence[dict[str, Any]]) -> CurvePoint:
    counted = [row for row in rows if not row["excluded"]]
    found = [row for row in counted if row["detected"]]
    k, n = len(found), len(counted)
    return CurvePoint(
        size,
        length,
        len(rows),
        n,
        k,
        binomial.lower(k, n) if n else 0.0,
        binomial.upper(k, n) if n else 1.0,
        _error([row["found_start_ns"] - row["start_ns"] for row in found]),
        _error([row["found_end_ns"] - row["end_ns"] for row in found]),
        _error([row["found_bytes"] / row["bytes"] - 1 for row in found]),
    )


def _error(values: Sequence[float]) -> DetectionError:
    if not values:
        return DetectionError(None, None)
    return DetectionError(float(np.median(values)), float(np.quantile(np.abs(values), 0.95, method="inverted_cdf")))


def fitting(known: Iterable[DetectionCurve], asked: CurveSetting) -> DetectionCurve | None:
    """Returns the newest curve of that interface and definition with stamps among the requested ones."""
    fits = [
        curve
        for curve in known
        if _is_at(curve, asked)
        and all(curve.setting[name] == value for name, value in asked.settings.items())
        and (not asked.stamps or asked.stamps & set(curve.setting["stamps"].split(", ")))
    ]
    return max(fits, key=lambda curve: curve.until_ns, default=None)


def others(known: Iterable[DetectionCurve], asked: CurveSetting) -> list[DetectionCurve]:
    """Returns the curves of that interface, of any definition and stamps; the newest first."""
    return sorted((curve for curve in known if _is_at(curve, asked)), key=lambda curve: -curve.until_ns)


def _is_at(curve: DetectionCurve, asked: CurveSetting) -> bool:
    return all(curve.setting[name] == value for name, value in asked.where.items())


class CanaryContext(NamedTuple):
    """Canary bursts relevant to an answer: the curves of the store, the settings to look up in them, and how many of
    the answer's bursts are canary bursts, by sender."""

    curves: Sequence[DetectionCurve] = ()
    asked: Sequence[CurveSetting] = ()
    canaries: int = 0
    senders: Sequence[str] = ()


def canary_context(
    con: duckdb.DuckDBPyConnection,
    lanes: Iterable[Sequence[Mapping[str, Any]]],
    bursts: Sequence[Mapping[str, Any]],
    definition: BurstDefinition,
) -> CanaryContext:
    """Returns the canary context of an answer about LANES (rows of recordings each) in which detect_bursts found BURSTS
    (rows of `bursts`)."""
    known, bits = curves(con), read_canary.recording_qualities(con)
    asked = [
        one
        for recordings in lanes
        for one in [
            curve_setting(
                recordings[0], definition, _together(bits.get(recording["recording_id"], 0) for recording in recordings)
            )
        ]
        if one
    ]
    if not known or not bursts:
        return CanaryContext(known, asked)
    canaries = read_canary.bursts_of_canaries(con)
    senders = [canaries[burst["burst"]] for burst in bursts if burst["burst"] in canaries]
    return CanaryContext(known, asked, len(senders), sorted(set(senders)))


def _together(qualities: Iterable[int]) -> int:
    return functools.reduce(operator.or_, qualities, 0)

"""The smallest burst that is detected, in words: the same in reports, investigations, Python and at the command
line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...analysis.bursts.find import definition_text
from ...analysis.canary.sensitivity import (
    DOUBT,
    PROMISED,
    CanaryContext,
    CurvePoint,
    CurveSetting,
    DetectionCurve,
    DetectionError,
    fitting,
    others,
)
from ...quality import STAMP_NAMES, STAMP_WORDS
from ...units import NS_PER_DAY, format_bytes, format_count, format_duration, format_number, format_rate, format_share

UNMEASURED = "How small a burst would have been seen was not measured (`mburst canary HOST` measures it)."
HEAD = ["size", "sent over", "n", "detected", "95 % interval", "begin", "end", "bytes"]
MOST_STATED = 3  # interfaces and directions
STAMPS = {name: STAMP_WORDS[bit] for bit, name in STAMP_NAMES.items()}
EXCLUDED = {
    "held up": "the sender was held up",
    "not recorded": "nothing was recorded then",
    "lost": "packets were lost on the way",
    "joined": "the definition joins bursts that are so near (`--gap`)",
    "hidden": "another burst was there",
}


def day(ns: int) -> str:
    """ "2026-11-21" in UTC."""
    from .words import date

    return date(ns)


def size_words(point: CurvePoint) -> str:
    """ "25 kB or more within 2 ms" """
    how = f"within {format_duration(point.length_ns)}" if point.length_ns else "back to back"
    return f"{format_bytes(point.size_bytes)} or more {how}"


def part_words(point: CurvePoint) -> str:
    """Returns a phrase if less than half of such a burst is found: they barely reach the threshold."""
    if point.bytes.median is None or point.bytes.median > -0.5:
        return ""
    return f" (of which the bursts that are found have {format_share(1 + point.bytes.median)} of the bytes)"


def stamps_words(stamps: str) -> str:
    """ "kernel stamps" """
    return f"{', '.join(STAMPS.get(name, name) for name in stamps.split(', '))} stamps" if stamps else "unknown stamps"


def age_words(curve: DetectionCurve, until_ns: int | None) -> str:
    """Returns the date of the measurement, and how long it was before the end of the data it is compared with."""
    days = 0 if until_ns is None else (until_ns - curve.until_ns) // NS_PER_DAY
    return day(curve.until_ns) + (f", {format_count(days, 'day')} before" if days > 0 else "")


def limit_words(curve: DetectionCurve, until_ns: int | None = None) -> str:
    """Returns a sentence on the size down to which bursts are detected."""
    limits, stamps = curve.limits(), stamps_words(curve.setting["stamps"])
    width = f"bins of {format_duration(curve.setting['bin_ns'])}"
    if not limits:
        best = max(curve.points, key=lambda point: (point.low, point.n), default=None)
        best_one = f"; at best {best.detected:,} of {best.n:,}, of {size_words(best)}" if best and best.n else ""
        return (
            f"No canary burst of any size was shown to be detected with {format_share(PROMISED)} or more{best_one} "
            f"({age_words(curve, until_ns)}, {stamps}, {width})."
        )
    sizes = ", and of ".join(size_words(point) + part_words(point) for point in limits)
    sizes += "," if len(limits) > 1 else ""
    counts = " and ".join(f"{point.detected:,} of {point.n:,}" for point in limits)
    return (
        f"Bursts of {sizes} are detected with {format_share(PROMISED)} or more ({counts} canary bursts, "
        f"{age_words(curve, until_ns)}, {stamps}, {width})."
    )


def seen_words(known: Sequence[DetectionCurve], asked: Iterable[CurveSetting], until_ns: int | None = None) -> str:
    """Returns what is known of the smallest detectable burst, for one or several interfaces and directions: a sentence
    for each measured one, or else a sentence that none was measured."""
    wanted = list(asked)
    sentences = {}
    for one in wanted:
        name = f"{one.where['host']} {one.where['interface']} {one.where['direction']}: " if len(wanted) > 1 else ""
        if curve := fitting(known, one):
            sentences[name] = limit_words(curve, until_ns)
        elif have := others(known, one):
            sentences[name] = (
                f"How small a burst is detected was measured on {day(have[0].until_ns)}, but not by "
                "this definition of a burst and these stamps (`mburst import canary` reads the run "
                "again)."
            )
    lines = [name + sentence for name, sentence in sentences.items()]
    more = [f"And {len(lines) - MOST_STATED:,} more that were measured."] if len(lines) > MOST_STATED else []
    return " ".join([*lines[:MOST_STATED], *more]) or UNMEASURED


def heading(curve: DetectionCurve) -> str:
    """Returns where and by which definition the curve was measured."""
    one = curve.setting
    return (
        f"{one['host']} {one['interface']} {one['direction']}: {format_rate(one['link_bps'])}, bins of "
        f"{format_duration(one['bin_ns'])}, {stamps_words(one['stamps'])}; "
        + definition_text(one["threshold_ppb"] / 1e9, one["release_ppb"] / 1e9, one["join_ns"], one["min_duration_ns"])
    )


def facts(curve: DetectionCurve) -> dict[str, Any]:
    """Returns a curve for programs, with its sentence."""
    return {
        **curve.setting,
        "batch": curve.batch,
        "source": curve.source,
        "since_ns": curve.since_ns,
        "until_ns": curve.until_ns,
        "offset_ns": curve.offset_ns,
        "offset_error_ns": curve.offset_error_ns,
        "drift_ppb": curve.drift_ppb,
        "sent_error_ns": curve.sent_error_ns,
        "missed_dropping": curve.missed_dropping,
        "excluded": curve.excluded,
        "summary": limit_words(curve),
        "points": [point_facts(point) for point in curve.points],
    }


def point_facts(point: CurvePoint) -> dict[str, Any]:
    """Returns a point of the curve, flat. Errors: the median with its sign, and the 95th percentile of the absolute
    value."""
    flat = {
        "size_bytes": point.size_bytes,
        "length_ns": point.length_ns,
        "sent": point.sent,
        "n": point.n,
        "detected": point.detected,
        "share": point.share,
        "low": point.low,
        "high": point.high,
        "holds": point.holds,
    }
    errors = {"start_error_ns": point.start_ns, "end_error_ns": point.end_ns, "bytes_error": point.bytes}
    for name, error in errors.items():
        flat |= {f"{name}_median": error.median, f"{name}_p95": error.p95}
    return flat


def answer_words(seen: CanaryContext, until_ns: int) -> str:
    """Returns the smallest detectable burst for an answer about ports until UNTIL_NS; '' if none was recorded."""
    return seen_words(seen.curves, seen.asked, until_ns) if seen.asked else ""


def canary_words(seen: CanaryContext, bursts: int) -> str:
    """Returns which of an answer's bursts mburst itself sent, or ''."""
    if not seen.canaries:
        return ""
    of = (
        f"{seen.canaries:,} of {format_count(bursts, 'burst')}"
        if seen.canaries < bursts
        else f"All of them, {format_count(bursts, 'burst')},"
    )
    return (
        f"{of} {'is a canary burst' if seen.canaries == 1 else 'are canary bursts'}: `mburst canary` sent "
        f"{'it' if seen.canaries == 1 else 'them'} from {', '.join(seen.senders[:3])}."
    )


def row(point: CurvePoint) -> list[str]:
    """Returns a row of the curve, under HEAD."""
    share = "–" if point.share is None else f"{point.detected:,} ({format_share(point.share)})"
    interval = "–" if not point.n else f"{format_share(point.low)} to {format_share(point.high)}"
    return [
        format_bytes(point.size_bytes),
        format_duration(point.length_ns) if point.length_ns else "back to back",
        f"{point.n:,}",
        share,
        interval,
        edge(point.start_ns),
        edge(point.end_ns),
        share_error(point.bytes),
    ]


def edge(error: DetectionError) -> str:
    """ "−12 µs, 95 % within 80 µs" """
    if error.median is None or error.p95 is None:
        return "–"
    sign = "−" if error.median < 0 else "+"
    return f"{sign}{format_duration(abs(error.median))}, 95 % within {format_duration(error.p95)}"


def share_error(error: DetectionError) -> str:
    """ "+0.2 %, 95 % within 1 %" """
    if error.median is None or error.p95 is None:
        return "–"
    sign = "−" if error.median < 0 else "+"
    return f"{sign}{format_number(100 * abs(error.median), 2)} %, 95 % within {format_number(100 * error.p95, 2)} %"


def excluded_words(curve: DetectionCurve) -> str:
    """Returns which bursts do not count and why, and which were missed because of dropped packets; or ''."""
    left_out = [f"{count:,} ({EXCLUDED.get(why, why)})" for why, count in sorted(curve.excluded.items())]
    dropping = (
        f"{curve.missed_dropping:,} were missed while the recorder dropped packets." if curve.missed_dropping else ""
    )
    return " ".join(filter(None, [f"Left out of the curve: {', '.join(left_out)}." if left_out else "", dropping]))


def clock_words(curve: DetectionCurve) -> str:
    """Returns the offset of the two clocks, as bursts show it."""
    drift = f"{'-' if curve.drift_ppb < 0 else '+'}{format_number(abs(curve.drift_ppb) / 1000)}"
    return (
        f"The recorder's clock, the way there included, is {format_duration(abs(curve.offset_ns))} "
        f"{'ahead of' if curve.offset_ns >= 0 else 'behind'} the sender's "
        f"(± {format_duration(curve.offset_error_ns)}, drift {drift} ppm); sending times are "
        f"known within {format_duration(curve.sent_error_ns)}. One direction alone cannot separate the way from "
        "the clocks, so edges are relative to the median burst."
    )


def confidence() -> str:
    """Returns the meaning of `detected with 95 % or more`."""
    return (
        f"`{format_share(PROMISED)} or more` is shown with {format_share(1 - DOUBT)} confidence at that size and "
        "at every larger one (exact binomial bound)."
    )

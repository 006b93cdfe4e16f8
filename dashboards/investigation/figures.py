"""Figures of an investigation: from its arrays to plotly's input, as plain data. Colours are those of palette.LIGHT, so
that the page can exchange them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...analysis.answers.investigate import Finding, InvestigationResult
from ...analysis.cause.align import Alignment, align, met_by_late
from ...analysis.model.stats import Floats
from ...names import label
from ...units import format_count
from ..common.palette import LIGHT
from .phrases import group_name, member_name

LINE = 17  # px, of the text of axes
POINTS = 4000  # of a line; with more, the largest of each step
PATH_COLOURS = ("latency", "mean", "queue", "second", "muted")
PATH_DASHES = ("solid", "9px,4px", "2px,3px", "9px,3px,2px,3px")
MOST_PATHS = len(PATH_COLOURS) * len(PATH_DASHES)  # in the figure of distributions
GROUPS, MEMBERS = 8, 40  # of senders in the tree
ACCOUNTS = (("bursts", "burst"), ("host", "queue"), ("elsewhere", "mean"), ("unknown", "muted"))


@dataclass(frozen=True)
class Figure:
    """question: of the section that it belongs to. drawing: data and layout for plotly. legend: the colour, dashes and
    name of each line, if the page lists them: plotly hides entries of a long legend, and cuts long names."""

    question: str
    title: str
    drawing: dict[str, Any]
    legend: Sequence[tuple[str, str, str]] = ()


def numbers(values: Floats, digits: int = 5) -> list[float | None]:
    """Returns values for JSON: NaN as null, and no more digits than a figure shows."""
    return [None if not np.isfinite(v) else float(f"{v:.{digits}g}") for v in values]


def layout(height: int, **more: Any) -> dict[str, Any]:
    axis = {"gridcolor": LIGHT["rule"], "zerolinecolor": LIGHT["rule"], "linecolor": LIGHT["rule"]}
    axes = {key: {**axis, **value} for key, value in more.items() if "axis" in key}
    for one in axes.values():
        if "title" in one:
            one["title"] = {**one["title"], "font": {"size": 12}, "standoff": 8}
    rest = {key: value for key, value in more.items() if "axis" not in key}
    for key in axes.keys() & {"yaxis2"}:  # ticks of its own: aligned with the other axis, they would be odd numbers
        axes[key] |= {"tickmode": "auto", "showgrid": False}
    return {
        "height": height,
        "margin": {"l": 62, "r": 62 if "yaxis2" in more else 16, "t": 12, "b": 44},
        "paper_bgcolor": LIGHT["paper"],
        "plot_bgcolor": LIGHT["paper"],
        "font": {"color": LIGHT["ink"], "size": 13},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "hovermode": "x",
        **rest,
        **axes,
    }


def line(name: str, x: Any, y: Any, colour: str, width: float = 1.6, **more: Any) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": y,
        "line": {"color": LIGHT[colour], "width": width},
        **more,
    }


def distribution(answer: InvestigationResult) -> Figure | None:
    """Returns the share of probes later than a time, for every path up to MOST_PATHS, with both axes logarithmic: a
    distribution, not one percentile."""
    measured = [(f.evidence.path, f.evidence.delays.total) for f in answer.findings]
    measured += [(f"{other.path} (control)", other.total) for other in answer.others]
    known = [(path, values) for path, total in measured if len(values := np.sort(total[np.isfinite(total)]))]
    traces, legend = [], []
    for number, (path, values) in enumerate(known[:MOST_PATHS]):
        ranks = np.unique(len(values) - np.geomspace(1, len(values), 400).astype(int))
        later = 100 * (len(values) - ranks) / len(values)
        colour, dashes = PATH_COLOURS[number % len(PATH_COLOURS)], PATH_DASHES[number // len(PATH_COLOURS)]
        trace = line(label(path), numbers(values[ranks] / 1e6), numbers(later), colour, showlegend=False)
        trace["line"]["dash"] = dashes
        traces.append(trace)
        legend.append((colour, dashes, path))
    if not traces:
        return None
    axes = {
        "xaxis": {"type": "log", "title": {"text": "latency, ms"}},
        "yaxis": {"type": "log", "title": {"text": "% of probes"}, "dtick": 1, "tickformat": "~g"},
    }
    title = "How many probes take at least so long"
    if len(known) > MOST_PATHS:
        title += f": {MOST_PATHS} of {len(known):,} paths"
    return Figure("Is there a tail?", title, {"data": traces, "layout": layout(320, **axes)}, legend)


def card(finding: Finding) -> Figure | None:
    """Returns the accounts of the late probes' excess, with their intervals, and the part of the excess that was spent
    at a port that was asked to stop."""
    evidence = finding.evidence
    if not evidence.ledger.late.size:
        return None
    bars = [(name, colour, evidence.shares[name]) for name, colour in ACCOUNTS]
    stood = evidence.paused.stood if evidence.paused else None
    bars += [("paused", "latency", stood)] if stood else []
    values = [estimate for _, _, estimate in bars]
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [100 * v.value for v in values],
        "y": [name for name, _, _ in bars],
        "marker": {"color": [LIGHT[colour] for _, colour, _ in bars]},
        "showlegend": False,
        "error_x": {
            "type": "data",
            "symmetric": False,
            "color": LIGHT["ink"],
            "array": [100 * max(0.0, v.high - v.value) for v in values],
            "arrayminus": [100 * max(0.0, v.value - v.low) for v in values],
        },
    }
    axes = {
        "xaxis": {"range": [0, 105], "title": {"text": "% of the late probes' excess"}},
        "yaxis": {"autorange": "reversed", "automargin": True},
    }
    around = {"l": 88, "r": 16, "t": 12, "b": 44}  # the longest name fits before automargin has measured it
    figure = {"data": [trace], "layout": layout(240, margin=around, **axes)}
    title = "Where the late probes' time went, with 95 % intervals"
    title += "; paused: of elsewhere, at an idle port that was asked to stop" if stood else ""
    return Figure("Do bursts explain it, and how much of it?", title, figure)


def aligned(answer: InvestigationResult, finding: Finding) -> Figure | None:
    """Returns bursts aligned by onset: utilization and senders above, delay and queue below. If bursts are the cause,
    only those that late probes met; otherwise all, since bursts selected by lateness always show some."""
    explain = met_by_late(finding.scene, finding.evidence) if finding.verdict.cause == "bursts" else None
    found: Alignment | None = align(finding.scene, finding.evidence, explain)
    if found is None:
        return None
    x = numbers(found.offset / 1e6)
    traces = [line("utilization, % (median)", x, numbers(100 * found.utilization), "mean")]
    traces += senders_begun(answer, found)
    traces += [
        line("latency, ms (p90)", x, numbers(found.delay_high / 1e6), "latency-median", yaxis="y3"),
        line("latency, ms (median)", x, numbers(found.delay / 1e6), "latency", yaxis="y3"),
    ]
    port = finding.evidence.crossing.port if finding.evidence.crossing else None
    if port is not None and np.isfinite(found.queue).any():
        drain = numbers(found.queue * 8e3 / port.link_bps)
        dotted = {"color": LIGHT["queue"], "width": 1.6, "dash": "dot"}
        name = "switch queue at line rate, ms (median)"
        traces.append({**line(name, x, drain, "queue", yaxis="y3"), "line": dotted})
    axes = {
        "xaxis": {"title": {"text": "ms after the burst's onset"}, "anchor": "y3"},
        "yaxis": {"title": {"text": "% of line rate"}, "rangemode": "tozero", "domain": [0.54, 1]},
        "yaxis2": {
            "overlaying": "y", "side": "right", "title": {"text": "senders"}, "rangemode": "tozero",
        },
        "yaxis3": {"title": {"text": "ms"}, "rangemode": "tozero", "domain": [0, 0.46]},
    }  # fmt: skip
    begins = {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1}
    begins |= {"line": {"color": LIGHT["muted"], "width": 1, "dash": "dash"}}
    return Figure(
        "Do bursts explain it, and how much of it?",
        f"{laid_words(found, explain is not None)} laid over each other by onset, with "
        f"{format_count(found.probes, 'probe')}",
        {"data": traces, "layout": layout(480, shapes=[begins], **axes)},
    )


def laid_words(found: Alignment, met_by_late: bool) -> str:
    """Returns which bursts are aligned, and how many."""
    if len(found.bursts) == found.of:
        return format_count(found.of, "burst")
    part = f"{len(found.bursts):,} of {found.of:,}"
    return f"The bursts that late probes met, {part}," if met_by_late else f"{part} bursts"


def senders_begun(answer: InvestigationResult, found: Alignment) -> list[dict[str, Any]]:
    """Returns how many senders of a burst have begun at each time after its onset, on average."""
    if answer.onsets is None or not len(answer.onsets.since):
        return []
    bursts = answer.main_bursts
    laid = np.isin(answer.onsets.burst, [bursts[number]["burst"] for number in found.bursts])
    begun = np.searchsorted(answer.onsets.since[laid], found.offset, side="right") / len(found.bursts)
    return [line("senders that have begun (mean)", numbers(found.offset / 1e6), numbers(begun), "burst", yaxis="y2")]


def lag_scan(finding: Finding) -> Figure | None:
    """Returns how full the link was while late probes waited, if bursts and latency were shifted against each other."""
    scan = finding.evidence.scan
    if scan is None or len(scan.lags) < 2:
        return None
    # All points near zero, where the peak is; of the others as many as a figure shows.
    near = np.abs(np.arange(len(scan.lags)) - len(scan.lags) // 2) < POINTS // 4
    near[:: max(1, len(scan.lags) // (POINTS // 2))] = True
    fits = numbers(100 * scan.fits[near])
    trace = line("link full while they waited, %", numbers(scan.lags[near] / 1e6), fits, "mean")
    axes = {
        "xaxis": {"title": {"text": "ms, latency after bursts"}},
        "yaxis": {"title": {"text": "% of line rate"}, "rangemode": "tozero"},
    }
    marked = {"type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1}
    marked |= {"line": {"color": LIGHT["muted"], "width": 1, "dash": "dash"}}
    return Figure(
        "Do bursts explain it, and how much of it?",
        f"Lag scan: how full the link was while {scan.waits:,} late probes waited, had they come earlier or later; "
        "0 is as recorded",
        {"data": [{**trace, "showlegend": False}], "layout": layout(280, shapes=[marked], **axes)},
    )


def fan_in(answer: InvestigationResult) -> Figure | None:
    """Returns the tree from the port to groups of senders and their members."""
    if not answer.groups or answer.findings[0].evidence.crossing is None:
        return None
    port = answer.findings[0].evidence.crossing.port.name
    labels, ids, parents, values, colours = [label(port)], [label(port)], [""], [0.0], ["rule"]
    for k, group in enumerate(answer.groups[:GROUPS]):
        shown = group.members[: MEMBERS if k == 0 else MEMBERS // 4] if len(group.members) > 1 else []
        part = group.share_of_bytes * group.member_share / max(len(group.members), 1)
        whole = label(group_name(group))
        labels += [whole, *(label(member_name(group, address)) for address in shown)]
        name = whole if whole not in ids else f"{whole} <{k}>"  # no label has <
        ids += [name, *(f"<{k}, {i}>" for i in range(len(shown)))]  # one sender may be in several groups
        parents += [label(port), *(name for _ in shown)]
        values += [round(group.share_of_bytes - part * len(shown), 8), *(round(part, 8) for _ in shown)]
        colours += ["burst", *("chosen-fill" for _ in shown)]
    trace = {
        "type": "icicle",
        "labels": labels,
        "ids": ids,
        "parents": parents,
        "values": values,
        "branchvalues": "remainder",
        "sort": False,
        "tiling": {"orientation": "h"},
        "pathbar": {"visible": False},
        "textposition": "middle left",
        "textfont": {"color": [LIGHT["paper" if colour == "burst" else "ink"] for colour in colours]},
        "marker": {"colors": [LIGHT[colour] for colour in colours], "line": {"color": LIGHT["paper"], "width": 1}},
    }
    height = 60 + 17 * max(8, min(len(labels), MEMBERS + 8))
    return Figure(
        "Which senders?",
        "Fan-in: the port, groups of senders and their members, by bytes in bursts",
        {"data": [trace], "layout": {**layout(height), "margin": {"l": 0, "r": 0, "t": 8, "b": 8}}},
    )


def unpredicted(names: list[str], ranges: list[tuple[float, float, bool]], most: float) -> dict[str, Any]:
    """Returns the ranges of p99 values that cannot be predicted: bars from the lower end to the upper, or to `most`
    (ns)."""
    lengths = [(min(high, 1.3 * most) - low) / 1e6 if unsure else None for low, high, unsure in ranges]
    return {
        "type": "bar",
        "orientation": "h",
        "name": "p99 not predicted: between, ms",
        "y": names,
        "base": [low / 1e6 for low, _, _ in ranges],
        "x": lengths,
        "marker": {"color": LIGHT["muted"]},
    }


def remedies(answer: InvestigationResult) -> Figure | None:
    """Returns p99 and p99.9 of each change."""
    replay = answer.replay
    if replay is None:
        return None
    shown = [("as measured", replay.recorded), ("as modelled", replay.modelled)]
    shown += [(outcome.change.name, outcome) for outcome in answer.outcomes]
    wrapped = [textwrap.wrap(name, 26) for name, _ in shown]
    names = ["<br>".join(map(label, lines)) for lines in wrapped]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": label,
            "y": names,
            "marker": {"color": LIGHT[colour]},
            "x": [None if o.unsure or (ns := o.quantiles_ns[k]) is None else ns / 1e6 for _, o in shown],
        }
        for k, label, colour in ((2, "p99.9, ms", "latency-median"), (1, "p99, ms", "latency"))
    ]
    seen = [ms for trace in traces for ms in trace["x"] if ms]
    ranges = [(*(o.p99_range or (0.0, np.inf)), bool(o.unsure)) for _, o in shown]
    seen += [bound / 1e6 for low, high, unsure in ranges for bound in (low, high) if unsure and np.isfinite(bound)]
    if any(unsure for _, _, unsure in ranges):
        traces.append(unpredicted(names, ranges, max(seen) * 1e6))
    slot = 20 + LINE * max(2, *map(len, wrapped))  # so that names do not overlap
    span = [float(np.log10(min(seen) / 2)), float(np.log10(max(seen) * 1.3))] if seen else None
    axes = {
        "xaxis": {"type": "log", "title": {"text": "latency, ms"}, "range": span, "dtick": 1, "tickformat": "~g"},
        "yaxis": {"autorange": "reversed", "automargin": True},
    }
    return Figure(
        "What would help?",
        "Predicted tail of the recorded probes",
        {"data": traces, "layout": layout(60 + slot * len(names), barmode="group", **axes)},
    )

"""An investigation as JSON that programs rely on, as Markdown for a ticket, and as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from .. import __version__
from ..analysis.fanin import Group
from ..analysis.fanout import slow_requests
from ..analysis.investigate import Finding, Investigation
from ..analysis.queue import Outcome
from ..analysis.stats import Estimate
from ..errors import MburstError
from . import investigation_figures, palette
from .investigation_words import CAUSES, Section, missing, sections, summary
from .packing import compress

_HERE = Path(__file__).parent


def facts(answer: Investigation) -> dict[str, Any]:
    """The answer as JSON: the keys that DESIGN promises, then more. Times in whole ns, null where not measured."""
    main = answer.findings[0] if answer.findings else None
    return {
        "cause": answer.cause,
        "summary": summary(answer),
        "tail": tail_facts(main),
        "evidence": evidence_facts(main),
        "bursts": {
            "count": main.evidence.bursts if main and main.evidence.crossing else len(answer.bursts),
            "stored": len(answer.bursts),
        },
        "fan_in": [group_facts(group) for group in answer.groups],
        "missing": missing(answer),
        "reasons": main.verdict.reasons if main else [],
        "notes": answer.notes,
        "paths": [path_facts(finding) for finding in answer.findings],
        "what_if": what_if_facts(answer),
        "fan_out": fan_out_facts(main),
        "mburst": __version__,
    }


def whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


def tail_facts(finding: Finding | None) -> dict[str, Any]:
    names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
    if finding is None:
        return {
            "n": 0,
            "lost": 0,
            **dict.fromkeys(names),
            "judged": None,
            "threshold_ns": None,
            "late": 0,
            "present": None,
        }
    tail = finding.evidence.tail
    return {
        "n": tail.n,
        "lost": tail.lost,
        **dict(zip(names, map(whole, tail.quantiles_ns), strict=True)),
        "judged": tail.judged,
        "threshold_ns": whole(tail.threshold_ns),
        "late": int(tail.spikes.sum() + tail.late_losses.sum()),
        "late_losses": int(tail.late_losses.sum()),
        "present": tail.present,
        "percentile": None if tail.level is None else 100 * tail.level,
    }


def estimate_facts(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None or not math.isfinite(estimate.value):
        return None
    low, high = (bound if math.isfinite(bound) else None for bound in (estimate.low, estimate.high))
    return {"value": estimate.value, "low": low, "high": high, "n": estimate.n}


def evidence_facts(finding: Finding | None) -> dict[str, Any]:
    """Evidence of the deciding path; every key is there, null where it was not measured."""
    if finding is None:
        keys = ("relative_risk", "p_value", "lag_ns", "excess_share", "dose_response", "host_share")
        return {**dict.fromkeys(keys), "correlation": {"bin": None, "second": None, "queue": None}, "controls": []}
    evidence = finding.evidence
    dose = evidence.dose
    return {
        "relative_risk": estimate_facts(evidence.relative_risk),
        "p_value": evidence.p_value,
        "q_value": evidence.q_value,
        "pairing_p": evidence.pairing_p,
        "lag_ns": whole(evidence.lag_ns),
        "excess_share": evidence.excess_share.value if evidence.excess_share else None,
        "excess_share_interval": estimate_facts(evidence.excess_share),
        "dose_response": None
        if dose is None
        else {"slope": dose.slope, "r": dose.r, "n": dose.n, "dose": evidence.dose_kind},
        "correlation": {
            "bin": evidence.correlation_bin,
            "second": evidence.correlation_second,
            "queue": evidence.correlation_queue,
        },
        "host_share": evidence.host_share.value if evidence.host_share else None,
        "host_share_interval": estimate_facts(evidence.host_share),
        "controls": [
            {"name": c.name, "relative_risk": estimate_facts(c.risk), "spikes": c.spikes} for c in evidence.controls
        ],
        "shares": {name: estimate_facts(share) for name, share in evidence.shares.items()},
        "stages": evidence.stage_shares,
        "episodes": evidence.episodes,
        "burst_episodes": evidence.burst_episodes,
        "exposed": evidence.exposed,
        "queue_agreement": evidence.queue_agreement,
        "port": evidence.crossing.port.name if evidence.crossing else None,
    }


def group_facts(group: Group) -> dict[str, Any]:
    trigger = group.trigger
    return {
        "group": group.name,
        "fan_in": group.fan_in,
        "bursts": len(group.bursts),
        "share": group.share_of_bytes,
        "member_share": group.member_share,
        "senders": group.members,
        "racks": group.racks,
        "onset_spread_ns": whole(group.onset_spread_ns),
        "pattern": group.pattern,
        "trigger": None
        if trigger is None
        else {
            "flows": trigger.flows,
            "lead_ns": whole(trigger.lead_ns),
            "share": trigger.share,
            "by_chance": trigger.usual,
        },
    }


def path_facts(finding: Finding) -> dict[str, Any]:
    probes = finding.scene.probes
    return {
        "src": probes.src,
        "dst": probes.dst,
        "protocol": probes.protocol,
        "cause": finding.verdict.cause,
        "reasons": finding.verdict.reasons,
        "missing": finding.verdict.missing,
        "tail": tail_facts(finding),
        "evidence": evidence_facts(finding),
    }


def outcome_facts(outcome: Outcome) -> dict[str, Any]:
    p50, p99, p999 = map(whole, outcome.quantiles_ns)
    return {
        "change": outcome.change.name,
        "p50_ns": p50,
        "p99_ns": p99,
        "p999_ns": p999,
        "dropped": outcome.dropped,
        "late": outcome.slow,
    }


def what_if_facts(answer: Investigation) -> dict[str, Any] | None:
    replay = answer.replay
    if replay is None:
        return None
    return {
        "model": {
            "error_ns": whole(replay.error_ns),
            "relative_error": replay.relative_error,
            "r": replay.r,
            "n": replay.n,
            "arrival_share": replay.arrival_share,
        },
        "recorded": outcome_facts(replay.recorded),
        "modelled": outcome_facts(replay.modelled),
        "changes": [outcome_facts(outcome) for outcome in answer.outcomes],
    }


def fan_out_facts(finding: Finding | None) -> list[dict[str, Any]]:
    if finding is None or not finding.evidence.tail.n:
        return []
    tail = finding.evidence.tail
    p = float(tail.spikes.sum() + tail.late_losses.sum()) / tail.n
    return [{"answers": slow.width, "slow": slow.share} for slow in slow_requests(p)]


def markdown(answer: Investigation) -> str:
    """For a ticket: the verdict, then every question with its answer."""
    parts = [f"## {CAUSES[answer.cause]}", summary(answer)]
    for section in sections(answer):
        parts.append(f"### {section.question}")
        parts.extend(section.sentences)
        if section.rows:
            lines = [section.head, ["---"] * len(section.head), *section.rows]
            parts.append(
                "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
            )
    return "\n\n".join(parts) + f"\n\nmburst {__version__}\n"


def plain(answer: Investigation) -> str:
    """For a terminal: the verdict, then every question with its answer, tables aligned."""
    lines = [summary(answer)]
    for section in sections(answer):
        lines += ["", section.question.upper(), *section.sentences]
        if section.rows:
            table = [section.head, *section.rows]
            widths = [max(len(row[k]) for row in table) for k in range(len(section.head))]
            lines += [
                "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in table
            ]
    return "\n".join(lines) + "\n"


def section_html(number: int, section: Section, figures: str) -> str:
    """A question as a section; `figures` are places that the script fills."""
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in section.sentences)
    table = ""
    if section.rows:
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in section.head)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in section.rows)
        table = (
            f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )
    return (
        f'<section aria-labelledby="q{number}"><h3 id="q{number}">{escape(section.question)}</h3>'
        f'<div class="answer">{said}</div>{table}{figures}</section>'
    )


def page(answer: Investigation) -> str:
    """One HTML page that asks the network for nothing. The same answer gives the same bytes."""
    from plotly.offline import get_plotlyjs

    figures = investigation_figures.all_figures(answer)
    places = {question: "" for question in {figure.question for figure in figures}}
    for k, figure in enumerate(figures):
        places[figure.question] += (
            f'<figure><div class="plot" data-figure="{k}" role="img" aria-label="{escape(figure.title)}">'
            f"</div><figcaption>{escape(figure.title)}</figcaption></figure>"
        )
    told = json.dumps(
        {"figures": [figure.drawing for figure in figures], "light": palette.LIGHT, "dark": palette.DARK},
        ensure_ascii=False,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    script = "\n".join(
        (_HERE / "static" / name).read_text(encoding="utf-8") for name in ("unpack.js", "investigation.js")
    )
    script = f'"use strict";\n(() => {{\n{script}\n}})();'
    plotly = get_plotlyjs()
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (script, plotly)
    )
    css = palette.css() + (_HERE / "static" / "report.css").read_text(encoding="utf-8")
    css += (_HERE / "static" / "investigation.css").read_text(encoding="utf-8")
    return Template((_HERE / "templates" / "investigation.html").read_text(encoding="utf-8")).substitute(
        title=escape(CAUSES[answer.cause]),
        cause=escape(answer.cause),
        summary=escape(summary(answer)),
        css=css,
        policy=f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'",
        sections="".join(section_html(k, s, places.get(s.question, "")) for k, s in enumerate(sections(answer))),
        facts=compress(told.encode()),
        plotly=compress(plotly.encode()),
        script=script,
        version=escape(__version__),
    )


def write_page(answer: Investigation, path: Path) -> None:
    """Write the page whole or not at all. Raises MburstError where it cannot be written."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    text = page(answer)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise MburstError(f"{path}: cannot be written: {error.strerror}", "name another file with -o") from error

"""The table `verdicts` of a partition: the verdict of an investigation of each host, in the words and numbers of
`mburst investigate`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..units import format_bytes
from .plan import PartitionPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from ..analysis.answers.investigate import InvestigationResult
    from ..analysis.partition.investigated import HostInvestigation

_PLACE = ("interface", "direction", "src", "dst", "protocol")
_TAIL = ("measure", "n", "lost", "late", "p50_ns", "p99_ns", "p999_ns", "threshold_ns")
_ESTIMATES = ("cause_share", "excess_share", "relative_risk")
_KINDS = {
    **dict.fromkeys(("rack", "host", "cause", "summary", "measure", *_PLACE), "string"),
    "has_tail": "bool",
    **{f"{name}{bound}": "double" for name in _ESTIMATES for bound in ("", "_low", "_high")},
}
COLUMNS = (
    *("rack", "host", "start_ns", "end_ns", "cause", "summary", *_PLACE, "paths", "bursts", *_TAIL),
    *("has_tail", "excess_ns", *(name for name in _KINDS if _KINDS[name] == "double")),
)  # numbers that are not in a line above are integers


def verdicts_of(plan: PartitionPlan, files: Mapping[str, Iterable[Path]], scratch: Path) -> pa.Table:
    """Returns a row for each host of the partition that appears in a path of the probes, and for each part of the day
    that was investigated separately. FILES are by table. Raises MburstError."""
    from ..analysis.partition.investigated import investigate_hosts  # loaded only if verdicts are wanted

    span = {"since_ns": plan.since_ns, "until_ns": plan.until_ns}
    return _table(_row(plan.name.rack, of) for of in investigate_hosts(files, plan.definition, **span, scratch=scratch))


def no_verdicts() -> pa.Table:
    """Returns the table without a row."""
    return _table([])


def _table(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([(name, pa.type_for_alias(_KINDS.get(name, "int64"))) for name in COLUMNS])
    return pa.Table.from_pylist(list(rows), schema)


def _row(rack: str, of: HostInvestigation) -> dict[str, Any]:
    time = {"rack": rack, "host": of.host, "start_ns": of.since_ns, "end_ns": of.until_ns}
    if of.answer is None:
        return {**time, "summary": _too_large(of)}
    return {**time, **_answered(of.answer)}


def _too_large(of: HostInvestigation) -> str:
    from ..analysis.partition.investigated import HELD_BYTES

    needed, most = format_bytes(of.needed_bytes), format_bytes(HELD_BYTES)
    return f"Not investigated: the bins and probes take {needed} of memory, and a task may take {most} for them."


def _answered(answer: InvestigationResult) -> dict[str, Any]:
    """Returns the columns of an investigation with a deciding path."""
    from ..dashboards.investigation.facts import evidence_facts, tail_facts
    from ..dashboards.investigation.summary import summary

    finding = answer.findings[0]
    evidence, probes, crossing = finding.evidence, finding.scene.probes, finding.evidence.crossing
    tail, weighed = tail_facts(evidence.tail), evidence_facts(finding)
    estimates = {
        "cause_share": weighed["shares"].get(answer.cause),
        "excess_share": weighed["excess_share_interval"],
        "relative_risk": weighed["relative_risk"],
    }
    return {
        "cause": answer.cause,
        "summary": summary(replace(answer, others=[])),  # another host may have recorded the ports of these
        **({"interface": crossing.port.interface, "direction": crossing.port.direction} if crossing else {}),
        **{"src": probes.src, "dst": probes.dst, "protocol": probes.protocol},
        "paths": len(answer.findings),
        "bursts": evidence.bursts,
        **{name: tail[name] for name in _TAIL},
        "has_tail": tail["present"],
        "excess_ns": round(float(evidence.ledger.excess.sum())),
        **dict(_bounds(estimates)),
    }


def _bounds(estimates: Mapping[str, Mapping[str, Any] | None]) -> Iterator[tuple[str, float | None]]:
    for name, estimate in estimates.items():
        for suffix, key in (("", "value"), ("_low", "low"), ("_high", "high")):
            yield name + suffix, None if estimate is None else estimate[key]

"""The answers of `mburst investigate` and `mburst what-if`: what causes the latency tail, and what a change would
do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ..errors import MburstError, UsageError
from ..names import label
from ..units import format_bytes, format_duration, format_rate
from .asked import ChangeOptions, takes
from .options import Duration, Rate, Scope, Size, Time, duration_ns, rate_bps, size_bytes, span_of

if TYPE_CHECKING:
    import os

    import plotly.graph_objects as go

    from ..analysis.answers.investigate import Finding, InvestigationResult
    from ..analysis.bursts.find import BurstDefinition
    from ..analysis.whatif.replay import PredictedLatency, Replay, WhatIfChange
    from ..dashboards.investigation.figures import Figure
    from ..sql import StoreFolder
    from ..sql.damage import DamagedFile


_RECORDED = "FROM recordings WHERE coalesce(list_contains($1::VARCHAR[], host), true)"


def investigated(
    store: StoreFolder,
    wanted: BurstDefinition,
    *,
    hosts: Sequence[str] = (),
    rack: str | None = None,
    alias: Sequence[str] = (),
    tail: Duration | None = None,
    tail_factor: float = 5.0,
    seed: int = 1,
    since: Time | None = None,
    until: Time | None = None,
) -> InvestigationResult:
    """Investigate the probes and recordings in STORE. Raises MburstError if there is neither a recording nor a probe,
    or no recording of RACK and any of HOSTS."""
    from ..analysis.answers.investigate import investigate
    from ..analysis.cause.read import Question
    from ..analysis.cause.tail import TailRule
    from ..analysis.model.whole import whole_since

    if tail_factor < 1:
        raise UsageError(f"--tail-factor {tail_factor} is below the median", "write 1 or more")
    rule = TailRule(tail_factor, None if tail is None else float(duration_ns(tail)))
    since_ns, until_ns = span_of(store, since, until, rack)
    with store.connect(rack, since_ns, until_ns) as con:
        if (hosts or rack) and not con.execute(_RECORDED, [[*hosts] or None]).fetchone():
            raise Scope(hosts=[*hosts], rack=rack).no_recording(store.path)
        since_ns = whole_since(con, "an investigation", since_ns, until_ns, rack=rack)
        return investigate(
            con, Question(wanted, rule, wanted.link_bps, tuple(hosts), tuple(alias), since_ns, until_ns, seed)
        )


def changes_of(
    link: Rate | None = None,
    priority: bool = False,
    stagger: Duration | None = None,
    fan_in: int | None = None,
    buffer: Size | None = None,
) -> list[WhatIfChange]:
    """Returns each change that is given, and, if there are several, all of them together. Raises UsageError."""
    from ..analysis.whatif.replay import WhatIfChange, together

    changes: list[WhatIfChange] = []
    if link is not None:
        rate = rate_bps(link)
        changes.append(WhatIfChange(f"a link of {format_rate(rate)}", link_bps=float(rate)))
    if priority:
        changes.append(WhatIfChange("strict priority or a separate link", priority=True))
    if stagger is not None:
        time = duration_ns(stagger)
        changes.append(WhatIfChange(f"senders staggered over {format_duration(time)}", stagger_ns=float(time)))
    if fan_in is not None:
        if fan_in < 1:
            raise UsageError(f"--fan-in must be at least 1, not {fan_in}", "write 1 or more")
        changes.append(WhatIfChange(f"at most {fan_in} senders at once", fan_in=fan_in))
    if buffer is not None:
        size = size_bytes(buffer)
        changes.append(WhatIfChange(f"a buffer of {format_bytes(size)}", buffer_bytes=float(size)))
    return [*changes, together(changes)] if len(changes) > 1 else changes


@dataclass(frozen=True)
class Investigation:
    """The cause of the latency tail of the probes. `answer` has the evidence (mburst.analysis.answers.investigate)."""

    answer: InvestigationResult

    @property
    def cause(self) -> str:
        """The cause on the deciding path: `bursts`, `host`, `elsewhere`, `none` (there is no tail) or
        `undetermined`."""
        return self.answer.cause

    @cached_property
    def summary(self) -> str:
        """The verdict in a few sentences, with units."""
        from ..dashboards.investigation.summary import summary

        return summary(self.answer)

    @property
    def bursts(self) -> list[dict[str, Any]]:
        """The bursts that the probes were compared with."""
        return self.answer.bursts

    @property
    def findings(self) -> list[Finding]:
        """Each path with its evidence and verdict, the deciding one first."""
        return self.answer.findings

    @property
    def notes(self) -> list[str]:
        """What was left out or assumed, one sentence each."""
        return self.answer.notes

    @property
    def damaged(self) -> list[DamagedFile]:
        """The damaged files of the store, which the answer leaves out."""
        return self.answer.damaged

    @property
    def figures(self) -> dict[str, go.Figure]:
        """The plotly figures of the page, except those without data: `distribution` of latency, `card` (where the late
        probes spent their time), `over_time` (latency over utilization in the worst seconds), `aligned` (all bursts by
        onset), `lag_scan`, `fan_in` and `remedies`."""
        from ..dashboards.investigation.page import all_figures

        return {name: _drawn(figure) for name, figure in all_figures(self.answer).items()}

    def to_dict(self) -> dict[str, Any]:
        """The object that `mburst investigate --json` prints."""
        from ..dashboards.investigation.facts import facts

        return facts(self.answer)

    def markdown(self) -> str:
        """The text that `mburst investigate --markdown` prints."""
        from ..dashboards.investigation.page import markdown

        return markdown(self.answer)

    def __str__(self) -> str:
        from ..dashboards.investigation.page import plain

        return plain(self.answer)

    def _repr_markdown_(self) -> str:
        """The same text, for notebooks."""
        return self.markdown()

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page of `mburst investigate -o` as one HTML file, and return its path. Raises MburstError."""
        from ..dashboards.investigation.page import write_page

        page = Path(path)
        if page.is_dir():
            raise UsageError(f"-o {page} is a folder", "name a file, such as report.html")
        write_page(self.answer, page)
        return page

    @takes(ChangeOptions)
    def what_if(self, **change: Unpack[ChangeOptions]) -> WhatIf:
        """Predict what a change would do to these probes: see Store.what_if."""
        return predicted(self.answer, changes_of(**change))


@dataclass(frozen=True)
class WhatIf:
    """Predicted latency of the recorded probes: as `recorded`, as `modelled` without a change, and under each of
    `changes`. The difference of the first two is the error of the model."""

    answer: InvestigationResult
    replay: Replay
    changes: list[PredictedLatency]

    @property
    def recorded(self) -> PredictedLatency:
        return self.replay.recorded

    @property
    def modelled(self) -> PredictedLatency:
        return self.replay.modelled

    @property
    def damaged(self) -> list[DamagedFile]:
        """The damaged files of the store, which the answer leaves out."""
        return self.answer.damaged

    @property
    def figure(self) -> go.Figure | None:
        """Latency under each of `changes`, drawn as on the page of the investigation."""
        from ..dashboards.investigation.figures import remedies

        figure = remedies(replace(self.answer, outcomes=self.changes))
        return None if figure is None else _drawn(figure)

    def to_dict(self) -> dict[str, Any]:
        """The object that `mburst what-if --json` prints."""
        from ..dashboards.investigation.facts import of_what_facts, outcome_facts, what_if_facts

        return {
            **(what_if_facts(self.answer) or {}),
            "cause": self.answer.cause,
            **of_what_facts(self.answer),
            "damaged_files": [file.facts() for file in self.answer.damaged],
            "changes": [outcome_facts(outcome) for outcome in self.changes],
        }

    def table(self) -> Any:
        """Returns a pyarrow.Table with a row for recorded, for modelled and for each change: change, p50_ns, p99_ns,
        p999_ns (ns), p99_low_ns and p99_high_ns (the range that the recording leaves open), unsure (why that range is
        too wide), late and dropped (shares of the probes; late ones include dropped ones)."""
        from .tables import of_rows

        facts = self.to_dict()
        before = [
            {**facts[name], "change": f"as {word}"}
            for name, word in (("recorded", "measured"), ("modelled", "modelled"))
        ]
        return of_rows([*before, *facts["changes"]], self.damaged)


def _drawn(figure: Figure) -> go.Figure:
    import plotly.graph_objects as go

    return go.Figure(figure.drawing).update_layout(title={"text": label(figure.title)}, margin={"t": 80})


def predicted(answer: InvestigationResult, changes: Sequence[WhatIfChange]) -> WhatIf:
    """Returns the predictions for CHANGES, or for the usual changes if CHANGES is empty. Raises MburstError if no late
    probe met a full port."""
    from ..analysis.whatif.replay import what_if

    if answer.replay is None and answer.without_speed and not answer.ports:
        raise MburstError(
            f"there is nothing to replay: the link speed of {', '.join(answer.without_speed)} is not known",
            "give it with --recorded-link",
        )
    if answer.replay is None:
        raise MburstError(
            "there is nothing to replay: no late probe met a full port",
            "`mburst investigate` says the cause of the tail",
        )
    return WhatIf(answer, answer.replay, what_if(answer.replay, list(changes)) if changes else answer.outcomes)

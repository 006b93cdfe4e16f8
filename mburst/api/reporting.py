"""Reports: the page of hosts and interfaces with figures that zoom, and the page of a rack in a period."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UsageError
from ..units import format_duration, format_rate
from .options import Scope

if TYPE_CHECKING:
    import os

    import plotly.graph_objects as go

    from ..analysis.answers.lane_report import LaneReport
    from ..analysis.answers.lanes import ReportLane
    from ..analysis.answers.paths import PathProbes
    from ..analysis.bursts.find import BurstDefinition
    from ..analysis.rack.period import Period
    from ..analysis.rack.report import RackFigures
    from ..sql import StoreFolder
    from ..sql.damage import DamagedFile


class Files(NamedTuple):
    """The files of a report: the page, which is self-contained, and the same facts as JSON."""

    page: Path
    facts: Path


@dataclass(frozen=True)
class Report:
    """A report with a section for each interface and direction (`lanes`), and for each probed path (`paths`)."""

    lanes: list[LaneReport]
    paths: list[PathProbes]
    definition: BurstDefinition
    damaged: list[DamagedFile]

    @property
    def figures(self) -> dict[str, go.Figure]:
        """The plotly figures of the page, by name. For each interface and direction: utilization with latency and the
        depth of a switch queue, in seconds since the second in which the data begins. For each path: the distribution
        of its latency. If several have the same name, rack, bin width and link speed are appended to it."""
        from ..dashboards.common.figures import timeline
        from ..dashboards.report.path_words import name_of
        from ..dashboards.report.paths import distribution_figure

        names = _names_apart([report.lane for report in self.lanes])
        drawn = {
            name: timeline(report, self.definition.threshold)
            for name, report in zip(names, self.lanes, strict=True)
            if report.bins
        }
        return drawn | {
            name_of(met): distribution_figure(met)
            for met in self.paths
            if any(measured.n for measured in met.measured.values())
        }

    @property
    def has_data(self) -> bool:
        """Whether anything was recorded or probed in the time of the report."""
        return bool(self.paths) or any(report.bins for report in self.lanes)

    def to_dict(self) -> dict[str, Any]:
        """The facts of the page: the object that `mburst report` writes next to it as JSON."""
        from ..dashboards.report.page import facts_json

        return facts_json(self.lanes, self.definition, self.paths, self.damaged)

    def write(self, folder: str | os.PathLike[str]) -> Files:
        """Write the page and its facts into a folder, which is created if it does not exist. Raises MburstError."""
        from ..dashboards.report.page import write

        return Files(*write(self.lanes, self.definition, Path(folder), self.paths, self.damaged))


@dataclass(frozen=True)
class RackReport:
    """A report of a rack in a period. `report` has the figures (mburst.analysis.rack.report)."""

    report: RackFigures

    @property
    def damaged(self) -> Sequence[DamagedFile]:
        """The damaged files of the store, which the report leaves out."""
        return self.report.damaged

    @property
    def summary(self) -> str:
        """One sentence on what happened."""
        from ..dashboards.rack.words import verdict

        return verdict(self.report)

    def __str__(self) -> str:
        return self.summary

    def to_dict(self) -> dict[str, Any]:
        """The facts of the page."""
        from ..dashboards.rack.page import facts

        return facts(self.report)

    def write(self, folder: str | os.PathLike[str]) -> Files:
        """Write the page, its facts and the index of all reports into a folder, which is created if it does not exist.
        Raises MburstError."""
        from ..dashboards.rack import page

        written = Files(*page.write(self.report, Path(folder)))
        page.write_index(Path(folder))
        return written


def _names_apart(lanes: Sequence[ReportLane]) -> list[str]:
    """Returns a unique name for each lane."""
    from ..dashboards.common.words import lane_name

    named = Counter(map(lane_name, lanes))
    return [
        lane_name(lane)
        if named[lane_name(lane)] == 1
        else f"{lane_name(lane)} ({', '.join(filter(None, _what_differs(lane)))})"
        for lane in lanes
    ]


def _what_differs(lane: ReportLane) -> list[str]:
    speed = format_rate(lane.link_bps) if lane.link_bps else "speed not known"
    return [f"rack {lane.rack}" if lane.rack else "", f"bins of {format_duration(lane.bin_ns)}", speed]


def report_of(
    store: StoreFolder,
    wanted: BurstDefinition,
    rack: str | None,
    host: str | None,
    since_ns: int | None,
    until_ns: int | None,
) -> Report:
    """Returns the report of all stored data, or of one rack or host. Raises MburstError if there is none."""
    from ..analysis.answers.host import gather
    from ..analysis.answers.lanes import detect, lanes
    from ..analysis.answers.paths import ProbeSelection, read_met
    from ..analysis.model.whole import whole_since
    from ..sql.damage import damaged_files

    with store.connect(rack, since_ns, until_ns) as con:
        hosts = [host] if host else None
        since_ns = whole_since(con, "a report of hosts", since_ns, until_ns, rack=rack, hosts=hosts)
        chosen = lanes(con, rack, host, wanted.link_bps)
        probed = read_met(con, ProbeSelection(since_ns=since_ns, until_ns=until_ns))
        if not chosen and (not probed or rack or host):
            raise Scope([host] if host else None, rack).no_recording(store.path)
        found = gather(con, chosen, detect(con, chosen, wanted, since_ns, until_ns), since_ns, until_ns)
        return Report(found, probed, wanted, damaged_files(con))


def period_of(store: StoreFolder, span: tuple[int | None, int | None], last: str | None, rack: str | None) -> Period:
    """Returns the last whole hour, day or week, or the time SPAN. An open end of SPAN becomes that of the recordings,
    of RACK if it is given. Raises MburstError."""
    from ..agent.schedule import reports

    if last is None:
        return reports.period_of(store, *span, rack)
    if span != (None, None):
        raise UsageError("--last excludes --since and --until", "leave them out")
    return reports.last_period(last)


def rack_report_of(store: StoreFolder, wanted: BurstDefinition, rack: str, period: Period) -> RackReport:
    """Returns the report of a rack. If nothing of it was recorded, the report says so. Raises MburstError."""
    from ..analysis.rack.report import gather

    return RackReport(gather(store, rack, period, wanted))

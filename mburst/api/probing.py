"""The result of `mburst probe`: the latency of each path, and what became of its probes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..analysis.answers.paths import PathProbes, ProbeSelection, read_met, together

if TYPE_CHECKING:
    from ..services.prober import PathCounts, ProbeRun
    from ..sql import StoreFolder
    from ..telemetry.probe.exchanges import ProbeCounts

COUNTS = ("sent", "lost", "lost_back", "late", "overflowed", "duplicates", "reordered", "stray", "restarts")


@dataclass(frozen=True)
class ProbeResult:
    """The measurements of each path, and then of each target with several paths together; `counts` are those of the
    prober, of each path."""

    paths: list[PathProbes]
    counts: PathCounts

    def counts_of(self, met: PathProbes) -> ProbeCounts:
        """Returns the counts of the probes of a path, or of all paths to a target."""
        from ..telemetry.probe.exchanges import total

        return total(
            [
                count
                for names, count in self.counts
                if names["dst"] == met.dst and (met.paths > 1 or names["src"] == met.src)
            ]
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """The list that `mburst probe --json` prints: an object for each of `paths`. Times are in ns."""
        return [self._facts(met) for met in self.paths]

    def _facts(self, met: PathProbes) -> dict[str, Any]:
        count = self.counts_of(met)
        return {
            "src": met.src,
            "dst": met.dst,
            "protocol": met.protocol,
            "paths": met.paths,
            "stamps": met.stamps,
            "start_ns": met.start_ns,
            "end_ns": met.end_ns,
            "n": met.sent - met.lost,
            **{name: getattr(count, name) for name in COUNTS},
            "clocks": met.clocks and asdict(met.clocks),
            **{name: measured.facts() for name, measured in met.measured.items()},
        }


def result_of(store: StoreFolder, done: ProbeRun) -> ProbeResult:
    """Returns the result of the run DONE, which stored its probes in STORE."""
    with store.connect() as con:
        found = read_met(con, ProbeSelection(batch=done.batch))
    return ProbeResult([*found, *together(found)], done.counts)

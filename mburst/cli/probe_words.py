"""What `mburst probe` prints: progress, and each path as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..columns import aligned, widths_of
from ..messages import print_progress
from ..units import format_count, format_duration, format_share

if TYPE_CHECKING:
    from ..analysis.answers.paths import PathProbes
    from ..api.probing import ProbeResult
    from ..telemetry.probe.exchanges import ProbeCounts


def described(found: ProbeResult) -> list[str]:
    """Returns a heading, a table and notes for each path, as text."""
    from ..dashboards.report.path_words import clock_note, sample_note

    return [
        "\n".join(
            filter(None, [heading(met, found.counts_of(met)), table(met), clock_note(met.clocks), sample_note(met)])
        )
        for met in found.paths
    ]


def heading(met: PathProbes, count: ProbeCounts) -> str:
    """Returns the ends of a path, and the counts of its probes."""
    from ..dashboards.report.path_words import name_of, stamped_by

    back = f", {count.lost_back:,} of them on the way back" if count.lost and count.lost_back is not None else ""
    parts = [
        f"{format_count(met.sent, 'probe')} in {format_duration(met.end_ns - met.start_ns)}",
        f"{met.lost:,} lost" + (f" ({format_share(met.lost / met.sent)}{back})" if met.lost else ""),
    ]
    parts += [
        f"{value:,} {one if value == 1 else many}"
        for value, one, many in (
            (count.overflowed, "answer dropped: socket buffer full", "answers dropped: socket buffer full"),
            (count.late, *["answered after the timeout"] * 2),
            (count.duplicates, *["duplicate answers"] * 2),
            (count.reordered, *["out of order"] * 2),
            (count.stray, "invalid answer", "invalid answers"),
            (count.restarts, "restart of the other end", "restarts of the other end"),
        )
        if value
    ]
    stamps = stamped_by(met)
    return f"{name_of(met)}: {', '.join(parts)}" + (f"; stamps by {stamps}" if stamps else "")


def table(met: PathProbes) -> str:
    """Returns the measured distributions as a table."""
    from ..dashboards.report import path_words

    rows = [["", "n", *path_words.HEADS], *path_words.table(met)]
    widths, right = widths_of(rows), [False, *(True for _ in rows[0][1:])]
    return "\n".join(aligned(row, widths, right) for row in rows) if len(rows) > 1 else "no answer"


class ProbeLine:
    """A progress line on standard error, updated with each batch of probes that is stored."""

    def __init__(self) -> None:
        self.sent = self.lost = 0

    def show(self, rows: Any) -> None:
        """Take rows of the table probes that were just stored."""
        import numpy as np

        from ..analysis.model.distributions import quantile

        lost = rows.column("lost").to_numpy()
        self.sent += len(lost)
        self.lost += int(lost.sum())
        took = rows.column("app_recv_ns").to_numpy() - rows.column("app_send_ns").to_numpy()
        took = took[~np.isnan(took)]  # NaN for probes without an answer, and for those in flight when the clock was set
        text = f"{format_count(self.sent, 'probe')}, {self.lost:,} lost"
        if len(took):
            known = [(name, quantile(np.sort(took), share)) for name, share in (("p50", 0.5), ("p99", 0.99))]
            levels = ", ".join(f"{name} {format_duration(value)}" for name, value in known if value is not None)
            text += f", the last ones {levels} (application)"
        print_progress(text)

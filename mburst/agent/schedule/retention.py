"""How long the reports of a schedule are kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...dashboards.common.summaries import is_fleet, summaries
from ...errors import MburstError
from ...units import NS_PER_DAY
from .reports import LENGTH_NS, last_period

LEAST_NS = 7 * NS_PER_DAY  # deliveries of a period that failed are retried for as long


@dataclass(frozen=True)
class KeptReports:
    """The reports that a schedule keeps: those of its newest periods that together are `keep_ns` long. Periods are
    counted, so that a clock that is wrong for a while removes nothing. `racks` of None are all racks in the store."""

    every: str
    of_fleet: bool
    racks: list[str] | None
    keep_ns: int

    def _has(self, name: str, summary: Mapping[str, Any]) -> bool:
        """Whether the schedule wrote the report NAME with this SUMMARY: another schedule or a user may use its
        folder."""
        period = last_period(self.every, summary["until_ns"])
        return (
            is_fleet(name) == self.of_fleet
            and (self.racks is None or summary["rack"] in self.racks)
            and (period.since_ns, period.until_ns) == (summary["since_ns"], summary["until_ns"])
        )

    def remove_older(self, folder: Path) -> int:
        """Remove the other reports of this schedule and this user from FOLDER. Returns their number. Raises
        MburstError."""
        own = [(name, summary) for name, summary in summaries(folder, own=True) if self._has(name, summary)]
        periods = sorted({summary["since_ns"] for _, summary in own}, reverse=True)
        kept = set(periods[: -(-self.keep_ns // LENGTH_NS[self.every])])
        older = [name for name, summary in own if summary["since_ns"] not in kept]
        try:
            for name in older:
                if self.of_fleet and (folder / name).is_dir():
                    shutil.rmtree(folder / name)  # the pages of its racks; refuses a link
                for kind in ("json", "html"):  # without the first one the index does not name the report
                    (folder / f"{name}.{kind}").unlink(missing_ok=True)
        except OSError as error:
            raise MburstError(
                f"{error.filename or folder}: cannot remove an old report: {error.strerror}",
                "check the folder's rights",
            ) from error
        return len(older)

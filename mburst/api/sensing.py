"""The detection limit: the size from which bursts are detected, measured by the canary bursts in a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from ..analysis.canary.sensitivity import DetectionCurve


@dataclass(frozen=True)
class Sensitivity:
    """The detection curves of a store. `curves` has one for each interface, direction, burst definition and kind of
    timestamps, from the newest canary bursts (mburst.analysis.canary.sensitivity)."""

    curves: list[DetectionCurve]

    @property
    def summary(self) -> str:
        """The smallest size at which bursts are detected, in the words of the reports, one line for each curve."""
        from ..dashboards.common.sensitivity_words import UNMEASURED, limit_words

        where = ("host", "interface", "direction")
        lines = [f"{' '.join(curve.setting[name] for name in where)}: {limit_words(curve)}" for curve in self.curves]
        return "\n".join(lines) or UNMEASURED

    def __str__(self) -> str:
        return self.summary

    def to_dict(self) -> list[dict[str, Any]]:
        """The object that `mburst canary --json` prints."""
        from ..dashboards.common.sensitivity_words import facts

        return [facts(curve) for curve in self.curves]

    def table(self) -> pa.Table:
        """Returns a row for each point of each curve: where and how it was measured, size_bytes (B), length_ns (ns; 0:
        back to back), n, detected, share with its 95 % interval low and high, holds (at least 95 % are detected at
        this size, with 95 % confidence), and the errors of begin and end (ns) and of bytes (share)."""
        import pyarrow as pa

        from ..dashboards.common.sensitivity_words import point_facts

        return pa.Table.from_pylist(
            [
                {**curve.setting, "batch": curve.batch, "until_ns": curve.until_ns, **point_facts(point)}
                for curve in self.curves
                for point in curve.points
            ]
        )

"""How small a burst is detected, from the canary bursts that a store holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from ..analysis.canary.sensitivity import DetectionCurve


@dataclass(frozen=True)
class Sensitivity:
    """The detection curves of a store: `curves` has one for each interface, direction, definition of a burst and kind
    of stamps, from its newest canary bursts (mburst.analysis.canary.sensitivity)."""

    curves: list[DetectionCurve]

    @property
    def summary(self) -> str:
        """Down to which size bursts are detected, a line for each curve: as reports say it."""
        from ..dashboards.common.sensitivity_words import UNMEASURED, limit_words

        where = ("host", "interface", "direction")
        lines = [f"{' '.join(curve.setting[name] for name in where)}: {limit_words(curve)}" for curve in self.curves]
        return "\n".join(lines) or UNMEASURED

    def __str__(self) -> str:
        return self.summary

    def to_dict(self) -> list[dict[str, Any]]:
        """What `mburst canary --json` prints."""
        from ..dashboards.common.sensitivity_words import facts

        return [facts(curve) for curve in self.curves]

    def table(self) -> pa.Table:
        """A row for each point of each curve: where and how it was measured, size_bytes (B), length_ns (ns; 0: back to
        back), n, detected, share with its 95 % interval low and high, holds (95 % or more is shown there and at no
        smaller size alone), and errors of begin and end (ns) and of bytes (share)."""
        import pyarrow as pa

        from ..dashboards.common.sensitivity_words import point_facts

        return pa.Table.from_pylist(
            [
                {**curve.setting, "batch": curve.batch, "until_ns": curve.until_ns, **point_facts(point)}
                for curve in self.curves
                for point in curve.points
            ]
        )

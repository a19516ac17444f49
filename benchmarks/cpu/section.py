"""Sections of the `cpu` benchmark: figures and measurements, with the same columns in all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vdla.benchmarks.cpu.paired_timing import PairedTimes, geomean

ReportStep = Callable[[str], None]  # called with the name of the next measurement


@dataclass(frozen=True, slots=True)
class Measurement:
    """Times of one kernel on both sides; `operations` counts additions and multiplications.

    `error` is the greatest difference of the results over the greatest result.
    """

    name: str
    times: PairedTimes
    operations: int
    error: float

    @property
    def row(self) -> dict[str, Any]:
        """The row of the table, rounded to significant digits."""
        return {
            "name": self.name,
            "ours_us": round(self.times.ours * 1e6, 1),
            "theirs_us": round(self.times.theirs * 1e6, 1),
            "ratio": round(self.times.ratio, 3),
            "gops": round(self.operations / self.times.ours / 1e9, 1),
            "error": round(self.error, 9),
        }


@dataclass(frozen=True, slots=True)
class Section:
    """Figures by name, and the measurements behind them."""

    figures: Mapping[str, float]
    measurements: Sequence[Measurement]


def comparison(what: str, measurements: Sequence[Measurement]) -> Section:
    """The comparison with a library: geometric mean and worst of the ratios, and largest error."""
    ratios = [one.times.ratio for one in measurements]
    figures = {"geomean": geomean(ratios), "worst": min(ratios), "error": max(one.error for one in measurements)}
    return Section({f"{what}_{name}": value for name, value in figures.items()}, measurements)

# SPDX-License-Identifier: Apache-2.0
"""Measurements of the `cpu` benchmark: kernels on both sides, with the same columns in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.benchmarks.harness import PairedTimes, Row, Section, geomean


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
    def row(self) -> Row:
        """The row of the table, rounded to significant digits."""
        return {
            "name": self.name,
            "ours_us": round(self.times.ours * 1e6, 1),
            "theirs_us": round(self.times.theirs * 1e6, 1),
            "ratio": round(self.times.ratio, 3),
            "gops": round(self.operations / self.times.ours / 1e9, 1),
            "error": round(self.error, 9),
        }


def comparison(what: str, measurements: Sequence[Measurement]) -> Section:
    """The comparison with a library: geometric mean and worst of the ratios, and largest error."""
    ratios = [one.times.ratio for one in measurements]
    figures = {"geomean": geomean(ratios), "worst": min(ratios), "error": max(one.error for one in measurements)}
    return section({f"{what}_{name}": value for name, value in figures.items()}, measurements)


def section(figures: dict[str, float], measurements: Sequence[Measurement]) -> Section:
    """Figures, and the rows of the measurements behind them."""
    return Section(figures, [one.row for one in measurements])

"""A part of the `cpu` benchmark: its figures, and its rows, which have the same columns in every part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vdla.benchmarks.cpu.paired_timing import Times, geomean

Step = Callable[[str], None]  # says what is measured next


@dataclass(frozen=True, slots=True)
class Measured:
    """One piece of work on both sides: its name, times, additions and multiplications, and the greatest difference of
    the results over the greatest result."""

    name: str
    times: Times
    operations: int
    error: float

    @property
    def row(self) -> dict[str, Any]:
        """What the table shows, with the digits that mean something."""
        return {
            "name": self.name,
            "ours_us": round(self.times.ours * 1e6, 1),
            "theirs_us": round(self.times.theirs * 1e6, 1),
            "ratio": round(self.times.ratio, 3),
            "gops": round(self.operations / self.times.ours / 1e9, 1),
            "error": round(self.error, 9),
        }


@dataclass(frozen=True, slots=True)
class Part:
    """Figures by name, and what was measured."""

    figures: Mapping[str, float]
    measured: Sequence[Measured]


def against(what: str, measured: Sequence[Measured]) -> Part:
    """How we stand against a library: over all, at worst, and how far results differ."""
    ratios = [one.times.ratio for one in measured]
    figures = {"geomean": geomean(ratios), "worst": min(ratios), "error": max(one.error for one in measured)}
    return Part({f"{what}_{name}": value for name, value in figures.items()}, measured)

# SPDX-License-Identifier: Apache-2.0
"""One trial: a point of a space and what it cost, or why it has no cost.

As JSON, a failed trial has the cost null: JSON has no infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vdla.compiler.tune import Point
from vdla.support.errors import Error


class TuningError(Error, ValueError):
    """A log, a worker or an option that a tuning run cannot use."""


CYCLES = "cycles"
SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Trial:
    """The cost of a point in its unit, `cycles` or `seconds`; infinite if it failed with `error`.

    `seconds` is what building and measuring took.
    """

    point: Point
    cost: float
    unit: str
    error: str = ""
    seconds: float = 0.0

    @staticmethod
    def failed(point: Point, unit: str, error: str, seconds: float = 0.0) -> Trial:
        """A trial without a cost."""
        return Trial(point, math.inf, unit, error, seconds)

    @property
    def ok(self) -> bool:
        """Whether there is a cost."""
        return math.isfinite(self.cost)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        return {
            "point": dict(self.point),
            "cost": self.cost if self.ok else None,
            "unit": self.unit,
            "error": self.error,
            "seconds": round(self.seconds, 6),
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Trial:
        """The inverse of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: not such values.
        """
        cost, point = values["cost"], values["point"]
        if not isinstance(point, dict) or not all(isinstance(value, str | int) for value in point.values()):
            raise ValueError(f"point must have an integer, text or truth value for each knob, got {point!r}")
        return Trial(
            point, math.inf if cost is None else float(cost), str(values["unit"]), str(values["error"]),
            float(values["seconds"]),
        )  # fmt: skip


def best_trial(trials: Iterable[Trial]) -> Trial | None:
    """The first trial of least cost; None if all failed."""
    return min((trial for trial in trials if trial.ok), key=lambda trial: trial.cost, default=None)

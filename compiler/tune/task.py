# SPDX-License-Identifier: Apache-2.0
"""What a tuner works on: an operator for a machine, with a space of ways to build it.

Estimates and features are of many points at once, by their indices in the space.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.tune.space import Ints, Point, Space
from vdla.hardware.program import Program

Built = Program | ir.Function
"""A program for the accelerator, or a scheduled function for a CPU."""


def content_key(content: str) -> str:
    """The key of all that the cost of a point depends on, as text."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class FunctionTask(ABC):
    """What tasks of scheduled functions have in common: nothing runs outside of what is built."""

    @abstractmethod
    def build(self, point: Point) -> Any:  # noqa: ANN401  `Built`, or one kind of it
        """What a measurer runs."""

    @property
    @abstractmethod
    def default(self) -> Point:
        """The point of what is built without tuning."""

    def changes(self, point: Point) -> dict[str, str]:
        """How a point differs from the default one: for each such knob both values, as "1 to 4"."""
        default = self.default
        return {name: f"{default[name]} to {value}" for name, value in point.items() if value != default[name]}

    def of_log(self, point: Point) -> Point:
        """The same point."""
        return point

    def draft(self, point: Point) -> Any:  # noqa: ANN401
        """The same as `build`: a schedule may be illegal."""
        return self.build(point)

    def overhead(self, point: Point) -> float:
        """Nothing."""
        return 0.0


class TuningTask(Protocol):
    """An operator to tune. Tasks can be pickled, so that workers can build points.

    `key` is a hash of all that the cost of a point depends on: the plain operator, the machine, the
    version of the space. Tasks with equal `feature_names` can share a cost model.
    """

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits."""
        ...

    @property
    def space(self) -> Space:
        """The points; tiles that do not fit the machine are not among them."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of `features`."""
        ...

    def of_log(self, point: Point) -> Point:
        """A point of a log, which may be older than some knobs, as one of the space."""
        ...

    def build(self, point: Point) -> Built:
        """What a measurer runs."""
        ...

    def draft(self, point: Point) -> Built:
        """The same as `build`, for a trial: without checks of what is legal by construction."""
        ...

    def overhead(self, point: Point) -> float:
        """What is added to a measured cost: work outside of what is built."""
        ...

    def estimate(self, indices: Ints) -> NDArray[np.float64]:
        """A draft of the costs of points, without building them; their order matters most."""
        ...

    def features(self, indices: Ints) -> NDArray[np.float32]:
        """[point, feature]."""
        ...

# SPDX-License-Identifier: Apache-2.0
"""One operator of a model that was written, with the values of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.rounding import round_half_away
from vdla.verification.tflite_models.writer import TfliteWriter


class OperatorStep:
    """An operator with its values, scales and zero points."""

    def __init__(
        self,
        writer: TfliteWriter,
        values: Mapping[int, Array],
        read: Sequence[int],
        written: Sequence[int],
        options: dict[str, Any],
    ) -> None:
        self.tensors, self.options = writer.tensors, options
        self.read, self.written = read, written
        self.x = [None if n < 0 else values[n] for n in read]

    def __getitem__(self, n: int) -> Array:
        value = self.x[n]
        assert value is not None
        return value

    def scale(self, n: int) -> np.float32:
        """The scale of an input."""
        return np.float32(self.tensors[self.read[n]].scale[0])

    def scales(self, n: int) -> Array:
        """The scales of a weight."""
        return np.array(self.tensors[self.read[n]].scale, np.float32)

    def zero(self, n: int) -> int:
        """The zero point of an input."""
        return self.tensors[self.read[n]].zero_point

    def wide(self, n: int) -> Array:
        """The input less its zero point."""
        return np.asarray(self[n].astype(np.int64) - self.zero(n))

    @property
    def y_scale(self) -> np.float32:
        """The scale of the first result."""
        return np.float32(self.tensors[self.written[0]].scale[0])

    @property
    def y_zero(self) -> int:
        """The zero point of the first result."""
        return self.tensors[self.written[0]].zero_point

    @property
    def y_dtype(self) -> str:
        """The element type of the first result."""
        return self.tensors[self.written[0]].dtype

    @property
    def y_shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.tensors[self.written[0]].shape

    def result(self, rescaled: Array, activation: int | None = None) -> Array:
        """Rescaled sums with the zero point, within the limits of the fused activation."""
        kind = self.options.get("FusedActivationFunction", 0) if activation is None else activation
        low, high = -128, 127
        if kind in (1, 3, 4):
            low = max(low, self.quantised(0.0))
        if kind in (3, 4):
            high = min(high, self.quantised(6.0 if kind == 3 else 1.0))
        if kind == 2:
            low, high = max(low, self.quantised(-1.0)), min(high, self.quantised(1.0))
        return np.asarray(np.clip(rescaled + self.y_zero, low, high).astype(np.int8))

    def quantised(self, value: float) -> int:
        """A number in the scale of the first result."""
        return self.y_zero + round_half_away(float(np.float32(value) / self.y_scale))


Kernel = Callable[[OperatorStep], Any]
"""What an operator computes: the value of its result, or a list of those of its results."""
Kernels = Mapping[str, Kernel]

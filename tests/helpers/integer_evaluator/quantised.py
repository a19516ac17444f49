# SPDX-License-Identifier: Apache-2.0
"""`Quantised`: integers with scale and zero point, and ONNX's two conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FEW_BITS = ("int4", "uint4", "int8", "uint8", "int16", "uint16")
"""The element types of quantised tensors; int32 is that of sums and biases."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """real = (values - zero_point) * scale; `scale` float32 and `zero_point` int64 are scalars, or
    vectors along `axis`.
    """

    values: Array
    scale: Array
    zero_point: Array
    axis: int = 0

    @property
    def is_per_tensor(self) -> bool:
        """Whether one scale and zero point hold for all elements."""
        return self.scale.size == 1 and self.zero_point.size == 1

    @property
    def centred(self) -> Array:
        """The int64 values minus the zero point."""
        return self.values.astype(np.int64) - self.along_axis(self.zero_point)

    @property
    def real(self) -> Array:
        """DequantizeLinear in float32."""
        return self.centred.astype(np.float32) * self.along_axis(self.scale)

    def along_axis(self, vector: Array) -> Array:
        """A scale or zero point in a shape that broadcasts with the values."""
        if vector.size == 1:
            return vector.reshape(())
        return vector.reshape([-1 if at == self.axis else 1 for at in range(self.values.ndim)])


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The smallest and the largest integer of an element type, those of four bits included."""
    name = dtype.name
    bits = int("".join(letter for letter in name if letter.isdigit()))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def quantised_real(real: Array, scale: Array, zero_point: Array, dtype: np.dtype[Any]) -> Array:
    """QuantizeLinear: round half to even of a float32 quotient, plus the zero point, saturated."""
    rounded = np.rint(real.astype(np.float32) / scale).astype(np.float64)
    return np.clip(rounded + zero_point, *limits(dtype)).astype(dtype)

# SPDX-License-Identifier: Apache-2.0
"""A model of one operator in work, with random scales, zero points and data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.writer import TfliteWriter

_Random = np.random.Generator


@dataclass(frozen=True, slots=True, eq=False)
class OperatorCase:
    """A file with one operator, as it was written, its inputs by name, and its results."""

    operator: str
    writer: TfliteWriter
    content: bytes
    inputs: Mapping[str, Array]
    outputs: tuple[int, ...]


class CaseDraft:
    """A model in work with random parameters."""

    def __init__(self, random: _Random) -> None:
        self.random, self.writer = random, TfliteWriter()
        self.inputs: dict[str, Array] = {}

    def scale(self, low: float = 0.01, high: float = 0.1) -> float:
        """A scale, in float32."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def zero(self) -> int:
        """A zero point."""
        return int(self.random.integers(-100, 101))

    def data(self, shape: Sequence[int]) -> Array:
        """Elements of int8."""
        return self.random.integers(-128, 128, tuple(shape)).astype(np.int8)

    def input(self, *shape: int, scale: float | None = None, zero_point: int | None = None) -> int:
        """An int8 input with its data."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.data(shape)
        return self.result(*shape, scale=scale, zero_point=zero_point, name=name)

    def result(
        self,
        *shape: int,
        scale: float | None = None,
        zero_point: int | None = None,
        name: str = "y",
        dtype: str = "int8",
    ) -> int:
        """A tensor with a scale and a zero point."""
        factor = self.scale() if scale is None else scale
        zero = self.zero() if zero_point is None else zero_point
        return self.writer.tensor(shape, dtype, scale=factor, zero_point=zero, name=name)

    def like(self, tensor: int, *shape: int, name: str = "y") -> int:
        """A result of the scale and zero point of another tensor."""
        of = self.writer.tensors[tensor]
        return self.result(*shape, scale=of.scale[0], zero_point=of.zero_point, name=name)

    def given(self, value: Array) -> int:
        """An input of this value that is not quantised."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = value
        return self.writer.tensor(value.shape, value.dtype.name, name=name)

    def weight(self, shape: Sequence[int], axis: int, *, per_channel: bool) -> int:
        """A constant int8 weight."""
        values = self.random.integers(-127, 128, tuple(shape)).astype(np.int8)
        scales = [self.scale(0.002, 0.02) for _ in range(shape[axis] if per_channel else 1)]
        return self.writer.constant(values, scale=scales, axis=axis)

    def bias(self, outputs: int) -> int:
        """A constant int32 bias."""
        return self.writer.constant(self.random.integers(-5000, 5000, outputs).astype(np.int32), scale=0.001)

    def pick(self, *values: Any) -> Any:  # noqa: ANN401  one of them
        """One of the values."""
        return values[int(self.random.integers(len(values)))]

    def case(self, operator: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> OperatorCase:  # noqa: ANN401
        """The finished model of one operator."""
        self.writer.operator(operator, inputs, outputs, **options)
        read = [n for n, tensor in enumerate(self.writer.tensors) if tensor.name in self.inputs]
        content = self.writer.bytes(read, outputs)
        return OperatorCase(operator, self.writer, content, self.inputs, tuple(outputs))


Maker = Callable[[CaseDraft], OperatorCase]
"""What draws a case."""


def ints(*values: Any) -> Array:  # noqa: ANN401  integers, or rows of them
    """A constant of int32."""
    return np.array(values, np.int32)

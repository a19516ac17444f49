# SPDX-License-Identifier: Apache-2.0
"""One operator of a model and the graph in work: what its converter reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.integer.affine import multipliers
from vdla.compiler.graph.tflite.builder import IMAGE, GraphBuilder
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.model import ABSENT, ELEMENT_TYPES, TfliteOperator, TfliteTensor
from vdla.hardware.fixed_point import fixed_point

LOW, HIGH = -128, 127
_LEAST_SCALE = 2.0**-40  # quotients and products of a few scales are numbers of float32


@dataclass(frozen=True, slots=True)
class Affine:
    """The scale and the zero point of an int8 tensor."""

    scale: np.float32
    zero_point: int

    @property
    def wide(self) -> float:
        """The scale as the double that the reference kernels compute with."""
        return float(self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class OperatorContext:
    """An operator of a model."""

    builder: GraphBuilder
    operator: TfliteOperator

    def option(self, name: str, default: Any = 0) -> Any:  # noqa: ANN401  of the schema
        """A field of the options; a file without options has the defaults of the schema."""
        value = self.operator.options.get(name)
        return default if value is None else value

    # --- inputs -----------------------------------------------------------------------------------

    def has(self, position: int) -> bool:
        """Whether an input is present."""
        return position < len(self.operator.inputs) and self.operator.inputs[position] != ABSENT

    def index(self, position: int) -> int:
        """The tensor of an input that must be present."""
        if not self.has(position):
            decline(f"have input {position}")
        return self.operator.inputs[position]

    def tensor(self, position: int = 0) -> TfliteTensor:
        """The tensor of an input."""
        return self.builder.tensor(self.index(position))

    def read(self, position: int = 0) -> str:
        """The value of an input in the order of the file."""
        return self.builder.read(self.index(position))

    def read_image(self, position: int = 0) -> str:
        """The value of an input with its channels first."""
        return self.builder.read_image(self.index(position))

    def constant(self, position: int, what: str) -> Array:
        """The value of an input that must be constant."""
        value = self.tensor(position).data
        if value is None:
            decline(f"have constant {what}")
        return value

    def integers(self, position: int, what: str) -> tuple[int, ...]:
        """A constant input as integers."""
        values = self.constant(position, what)
        if values.dtype.kind not in "iu":
            decline(f"have {what} that are integers, got {values.dtype.name}")
        return tuple(int(value) for value in values.reshape(-1))

    def axis(self, value: int, position: int = 0) -> int:
        """An axis of an input, which may count from the end."""
        rank = len(self.tensor(position).shape)
        if not -rank <= value < rank:
            decline(f"have an axis of {rank} dimensions, got {value}")
        return value % rank

    # --- results ----------------------------------------------------------------------------------

    @property
    def output(self) -> TfliteTensor:
        """The tensor of the first result."""
        if not self.operator.outputs or self.operator.outputs[0] == ABSENT:
            decline("have a result")
        tensor = self.builder.tensor(self.operator.outputs[0])
        if tensor.dtype not in ELEMENT_TYPES:
            decline(f"have a result of numbers, got {tensor.dtype}")
        return tensor

    def define(self, name: str, position: int = 0, *, is_image: bool = False) -> None:
        """The value of a result."""
        self.builder.define(self.operator.outputs[position], name, is_image=is_image)

    # --- quantised tensors ------------------------------------------------------------------------

    @property
    def is_quantised(self) -> bool:
        """Whether the operator computes int8 from int8."""
        return self.output.dtype == "int8" and self.tensor(self._activation()).dtype == "int8"

    def _activation(self) -> int:
        return 2 if self.operator.name == "TRANSPOSE_CONV" else 0

    def affine(self, position: int = 0) -> Affine:
        """Scale and zero point of an int8 input."""
        return affine(self.tensor(position))

    @property
    def result(self) -> Affine:
        """Scale and zero point of the int8 result."""
        return affine(self.output)

    def add(
        self, op: str, inputs: Sequence[str], attributes: dict[str, Any] | None = None, kind: TensorType | None = None
    ) -> str:
        """A node of one result."""
        return self.builder.add(op, inputs, attributes, kind)

    def rescaled(self, factors: Array | float, bounds: tuple[int, int] | None = None) -> dict[str, Any]:
        """The attributes of an integer operator that say what becomes of its sums."""
        low, high = bounds or self.bounds()
        return {
            **multipliers(np.asarray(factors)),
            "fixed_point": fixed_point(factors),
            "y_zero_point": self.result.zero_point,
            "low": low,
            "high": high,
        }

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest result after the fused activation."""
        return activation_bounds(self.activation, self.result)

    @property
    def activation(self) -> str:
        """The fused activation."""
        number = self.option("FusedActivationFunction")
        names = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
        if number not in range(len(names)):
            decline(f"have a known fused activation, got number {number}")
        return names[number]


def affine(tensor: TfliteTensor) -> Affine:
    """Scale and zero point of an int8 tensor."""
    parameters = tensor.quantisation
    if tensor.dtype != "int8" or parameters is None or parameters.scale.size != 1:
        decline(f"have int8 tensors of one scale, got {tensor.dtype} for {tensor.name}")
    zero = int(parameters.zero_point[0])
    if not LOW <= zero <= HIGH or not _LEAST_SCALE <= parameters.scale[0] <= 1 / _LEAST_SCALE:
        rule = "have a scale from 2**-40 to 2**40 and an int8 zero point"
        decline(f"{rule}, got {parameters.scale[0]} and {zero} for {tensor.name}")
    return Affine(parameters.scale[0], zero)


LIMITS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU_0_TO_1": (0.0, 1.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
}


def activation_bounds(name: str, at: Affine) -> tuple[int, int]:
    """The limits of an activation as int8 of a scale; quotients are rounded half away from zero."""
    if name not in LIMITS:
        decline(f"have a fused activation that is a bound, got {name}")
    low, high = (None if limit is None else _quantised(limit, at) for limit in LIMITS[name])
    return max(LOW, LOW if low is None else low), min(HIGH, HIGH if high is None else high)


def _quantised(value: float, at: Affine) -> int:
    quotient = np.float32(value) / at.scale
    return at.zero_point + int(np.trunc(quotient + np.copysign(np.float32(0.5), quotient)))


def same_shape(kind: TensorType, dtype: str) -> TensorType:
    """A type of other elements."""
    return replace(kind, dtype=dtype)


__all__ = ["HIGH", "IMAGE", "LOW", "Affine", "OperatorContext", "activation_bounds", "affine", "same_shape"]

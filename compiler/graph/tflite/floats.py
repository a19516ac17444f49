# SPDX-License-Identifier: Apache-2.0
"""What float operators share: constants that are stored as integers, and fused activations."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.tflite.context import LIMITS, OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.model import TfliteTensor


def check_float(at: OperatorContext, *positions: int) -> None:
    """Refuses an operator on other activations than float32, or int8 with an int8 result."""
    kinds = [at.tensor(position).dtype for position in positions or (0,)] + [at.output.dtype]
    if set(kinds) != {"float32"}:
        decline(f"{_rule(kinds)}, got {', '.join(kinds)}{_remedy(kinds)}")


def _rule(kinds: list[str]) -> str:
    return "be of float32" if set(kinds) == {"int8"} else "be of float32 or of int8 throughout"


def _remedy(kinds: list[str]) -> str:
    if set(kinds) == {"int8"}:
        return "; keep the operator in float when you quantise"
    if "int16" in kinds or "uint8" in kinds:
        return "; convert the model with TFLITE_BUILTINS_INT8 and int8 activations"
    return ""


def float_weight(tensor: TfliteTensor) -> Array:
    """A constant weight as float32; integers are those of a model with a dynamic range."""
    value, parameters = tensor.data, tensor.quantisation
    if value is None:
        decline(f"have a constant weight, got {tensor.name}")
    if value.dtype.kind == "f":
        return value.astype(np.float32)
    if parameters is None:
        decline(f"have a weight with scales, got {value.dtype.name} for {tensor.name}")
    sides = [1] * value.ndim
    if parameters.scale.size > 1:
        sides[parameters.axis] = -1
    centred = value.astype(np.float32) - parameters.zero_point.reshape(sides).astype(np.float32)
    return np.asarray(centred * parameters.scale.reshape(sides), np.float32)


def activated(at: OperatorContext, name: str) -> str:
    """A float value after the fused activation."""
    match at.activation:
        case "NONE":
            return name
        case "RELU":
            return at.add("Relu", [name])
        case "TANH":
            return at.add("Tanh", [name])
        case "RELU6" | "RELU_N1_TO_1":
            low, high = LIMITS[at.activation]
            limits = [
                at.builder.constant(np.array(limit, np.float32), f"{at.builder.label}_limit") for limit in (low, high)
            ]
            return at.add("Clip", [name, *limits])
        case kind:
            decline(f"have a fused activation of RELU, RELU6, RELU_N1_TO_1 or TANH, got {kind}")

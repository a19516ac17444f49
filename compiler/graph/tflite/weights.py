# SPDX-License-Identifier: Apache-2.0
"""Weights, biases and factors of quantised products."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.tflite.context import LOW, OperatorContext
from vdla.compiler.graph.tflite.errors import decline

_INT32 = 1 << 31


def quantised_weight(at: OperatorContext, position: int, outputs_axis: int) -> Array:
    """A constant weight as int8, in the order of the file, with scales along its outputs."""
    tensor = at.tensor(position)
    value, parameters = tensor.data, tensor.quantisation
    if value is None or parameters is None or tensor.dtype not in ("int8", "int4"):
        decline(f"have a constant int8 weight with scales, got {tensor.dtype} for {tensor.name}")
    if parameters.scale.size > 1 and parameters.axis != outputs_axis:
        decline(f"have weight scales along axis {outputs_axis}, got {parameters.axis} for {tensor.name}")
    sides = [1] * value.ndim
    if parameters.scale.size > 1:
        sides[parameters.axis] = -1
    centred = value.astype(np.int64) - parameters.zero_point.reshape(sides)
    if centred.size and (centred.min() < LOW or centred.max() > -LOW - 1):
        decline(f"have weights of zero point 0, got {int(found.zero_point[0])} for {tensor.name}")
    return centred.astype(np.int8)


def quantised_bias(at: OperatorContext, position: int, outputs: int) -> Array:
    """A constant int32 bias in the scale of the sums; zeros where there is none."""
    if not at.has(position):
        return np.zeros(outputs, np.int32)
    value = at.constant(position, "bias")
    if value.dtype not in (np.dtype(np.int32), np.dtype(np.int64)) or value.size != outputs:
        decline(f"have an int32 bias of {outputs}, got {value.dtype.name} of {value.size}")
    if value.size and (value.min() < -_INT32 or value.max() >= _INT32):
        decline("have a bias of 32 bits")
    return value.reshape(-1).astype(np.int32)


def product_factors(at: OperatorContext, data: int, weight: int, outputs: int) -> Array:
    """Input scale * weight scale / result scale as doubles: one, or one an output.

    A dense layer with one scale rounds the product of both to float32 first.
    """
    parameters = at.tensor(weight).quantisation
    assert parameters is not None
    if parameters.scale.size not in (1, outputs):
        decline(f"have one weight scale, or {outputs}, got {parameters.scale.size}")
    if at.operator.name == "FULLY_CONNECTED" and parameters.scale.size == 1:
        return np.asarray((at.affine(data).scale * parameters.scale).astype(np.float64) / at.result.wide)
    return np.asarray(at.affine(data).wide * parameters.scale.astype(np.float64) / at.result.wide)

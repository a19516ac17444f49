# SPDX-License-Identifier: Apache-2.0
"""QUANTIZE, DEQUANTIZE, CAST: between floats and the integers that stand for them."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import float_weight
from vdla.compiler.graph.tflite.functions import elementwise, operand
from vdla.compiler.graph.tflite.model import TfliteTensor

_EIGHT_BITS = ("int8", "uint8")
_SHIFT = 128


def quantise(at: OperatorContext) -> None:
    """QUANTIZE: of float32, or from one scale of int8 to another."""
    source = at.tensor(0)
    if source.dtype == "uint8" and at.output.dtype == "int8":
        return _to_int8(at)
    if source.dtype == "int8" and at.output.dtype == "uint8":
        return _to_uint8(at)
    if at.is_quantised:
        x = at.affine(0)
        factor = x.wide / at.result.wide
        return elementwise(at, "vdla.QRescale", {"x_zero_point": x.zero_point, **at.rescaled(factor, (-128, 127))})
    if source.dtype != "float32" or at.output.dtype not in (*_EIGHT_BITS, "int16"):
        decline(f"quantise float32 or int8 to 8 or 16 bits, got {source.dtype} to {at.output.dtype}")
    return elementwise(at, "QuantizeLinear", {"vdla.rounding": "away"}, *_parameters(at, at.output))


def _to_int8(at: OperatorContext) -> None:
    """uint8 of the same scale, whose zero point is 128 more."""
    _check_same_scale(at, at.tensor(0), at.output)
    return elementwise(at, "vdla.ToInt8", {})


def _to_uint8(at: OperatorContext) -> None:
    _check_same_scale(at, at.output, at.tensor(0))
    return elementwise(at, "vdla.ToUint8", {})


def _check_same_scale(at: OperatorContext, unsigned: TfliteTensor, signed: TfliteTensor) -> None:
    unsigned_parameters, signed_parameters = unsigned.quantisation, signed.quantisation
    if (
        unsigned_parameters is None
        or signed_parameters is None
        or unsigned_parameters.scale.size != 1
        or signed_parameters.scale.size != 1
    ):
        decline("have one scale for each of its tensors")
    if (
        unsigned_parameters.scale[0] != signed_parameters.scale[0]
        or unsigned_parameters.zero_point[0] != signed_parameters.zero_point[0] + _SHIFT
    ):
        decline("convert uint8 and int8 of one scale, with zero points that differ by 128")


def _parameters(at: OperatorContext, tensor: TfliteTensor) -> list[str]:
    """Scale and zero point of a tensor as constants."""
    parameters = tensor.quantisation
    if parameters is None or parameters.scale.size != 1 or parameters.scale[0] <= 0:
        decline(f"have one scale above 0, got none for {tensor.name}")
    limits = np.iinfo(tensor.dtype)
    if not limits.min <= parameters.zero_point[0] <= limits.max:
        decline(f"have a zero point of {tensor.dtype}, got {parameters.zero_point[0]}")
    zero = np.array(parameters.zero_point[0], tensor.dtype)
    values = (("scale", parameters.scale.reshape(())), ("zero_point", zero))
    return [at.builder.constant(value, f"{at.builder.label}_{name}") for name, value in values]


def dequantise(at: OperatorContext) -> None:
    """DEQUANTIZE: to float32; constants at once, those of float16 too."""
    source = at.tensor(0)
    if at.output.dtype != "float32":
        decline(f"have a float32 result, got {at.output.dtype}")
    if source.data is not None:
        return at.define(at.builder.constant(float_weight(source), f"{at.builder.label}_value"))
    if source.dtype == "float16":
        return elementwise(at, "Cast", {"to": "float32"})
    if source.dtype not in (*_EIGHT_BITS, "int16"):
        decline(f"dequantise 8 or 16 bits, got {source.dtype}")
    return elementwise(at, "DequantizeLinear", {}, *_parameters(at, source))


def cast(at: OperatorContext) -> None:
    """CAST of numbers."""
    name, is_image = operand(at)
    kind = TensorType(at.output.dtype, at.builder.type_of(name).extents)
    at.define(at.add("Cast", [name], {"to": at.output.dtype}, kind), is_image=is_image)

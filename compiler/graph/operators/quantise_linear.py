"""Rules of QuantizeLinear and DequantizeLinear between float32 and integers of 8, 16 or 32 bits.

Scales and zero points are one number, one for each index along an axis, or one for each block.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.graph.integer.elementwise import fuse_rescale
from vdla.compiler.graph.operators.record import Trait, records
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall

_RESULTS = ("int8", "uint8", "int16", "uint16")
_SOURCES = (*_RESULTS, "int32")


def _at(call: NodeCall, parameter: te.Tensor, x: te.Tensor, index: Sequence[te.Value]) -> te.Value:
    """The parameter of an element of x."""
    if tuple(parameter.shape) == (1,):
        return parameter[0]
    axis = call.attribute("axis", 1) % len(x.shape)
    block = call.attribute("block_size", 0)
    if block:
        return parameter[tuple(i // block if d == axis else i for d, i in enumerate(index))]
    if len(parameter.shape) != 1 or parameter.shape[0] != x.shape[axis]:
        call.decline(f"have one scale for each of {x.shape[axis]} indices along axis {axis}")
    return parameter[index[axis]]


def _quantise(call: NodeCall) -> te.Tensor:
    """round(x / scale) + zero point, half to even, saturated."""
    x, scale, zero_point, dtype = call.tensor(0), call.tensor(1), call.optional(2), call.result.dtype
    if x.dtype != "float32" or scale.dtype != "float32" or dtype not in _RESULTS:
        call.decline(f"quantise float32 to 8 or 16 bits, got {x.dtype} to {dtype}")

    def value(*i: te.Value) -> te.Value:
        rounded = te.round(x[i] / _at(call, scale, x, i))
        if zero_point is not None:
            rounded = rounded + te.cast("float32", _at(call, zero_point, x, i))
        return te.cast(dtype, rounded)

    return te.compute(x.shape, value, call.name())


def _dequantise(call: NodeCall) -> te.Tensor:
    """(x - zero point) * scale."""
    x, scale, zero_point = call.tensor(0), call.tensor(1), call.optional(2)
    if x.dtype not in _SOURCES or scale.dtype != "float32" or call.result.dtype != "float32":
        call.decline(f"dequantise 8, 16 or 32 bits to float32, got {x.dtype} to {call.result.dtype}")

    def value(*i: te.Value) -> te.Value:
        element = te.cast("int32", x[i])
        if zero_point is not None:
            element = element - te.cast("int32", _at(call, zero_point, x, i))
        return te.cast("float32", element) * _at(call, scale, x, i)

    return te.compute(x.shape, value, call.name())


_TRAITS = Trait.ELEMENTWISE | Trait.CONVERSION
QUANTISE_LINEAR = (
    *records(FusionClass.INJECTIVE, {"QuantizeLinear": _quantise}, _TRAITS),
    *records(FusionClass.INJECTIVE, {"DequantizeLinear": _dequantise}, _TRAITS, integer=fuse_rescale),
)

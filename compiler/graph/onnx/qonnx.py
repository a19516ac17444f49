# SPDX-License-Identifier: Apache-2.0
"""The operators of QONNX, and Quark's extended quantisation, by ONNX's.

A Quant of at most 8 bits becomes QuantizeLinear and DequantizeLinear, which `passes/fuse_qdq.py`
fuses to integer operators; a wider one is computed in float32. QuantizeLinear rounds halves to even
and adds the zero point afterwards, QONNX before: with another rounding, or an odd zero point, the
value is rounded in float32 first, and QuantizeLinear finds integers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.onnx.foreign import ForeignOperator
from vdla.compiler.graph.onnx.old_node import OldNode, Upgrade

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")
_INTEGER_BITS = 8
_EVEN = ("ROUND", "HALF_EVEN")
_ROUNDINGS = (*_EVEN, "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")


def _quant(old: OldNode) -> list[NodeProto]:
    signed, narrow = old.take("signed", 1), old.take("narrow", 1 if old.node.op_type == "IntQuant" else 0)
    mode = _mode(old, "ROUND")
    bits = _number(old, 3, "bit width")
    scale, zero = old.constants.get(old.input(1)), old.constants.get(old.input(2))
    parameters = None
    if scale is not None and zero is not None and bits <= _INTEGER_BITS:
        parameters = _parameters(old, scale, zero, np.dtype(np.int8 if signed else np.uint8))
    if bits == 1 and signed:
        return _one_bit(old, zero)
    low, high = _limits(bits, signed, narrow)
    if parameters is not None and mode in _EVEN and scale is not None and zero is not None and not (zero % 2).any():
        return _quantised(old, _clipped(old, scale, zero, (low, high)), parameters)
    y = old.value("Add", [old.value("Div", [old.input(0), old.input(1)]), old.input(2)])
    y = _rounded(old, old.value("Clip", [y, _float(old, low), _float(old, high)]), mode)
    y = old.value("Sub", [y, old.input(2)])
    if parameters is None:
        return old.final("Mul", [y, old.input(1)])
    return _quantised(old, old.value("Mul", [y, old.input(1)]), parameters)


def _one_bit(old: OldNode, zero: Array | None) -> list[NodeProto]:
    """-1 or 1, by the sign of the scaled value, less the zero point, times the scale."""
    if zero is not None and not zero.any():
        scale = old.constants.get(old.input(1))
        if scale is not None and (scale > 0).all():
            return _bipolar(old, old.input(1))
    y = old.value("Add", [old.value("Div", [old.input(0), old.input(1)]), old.input(2)])
    positive = old.value("GreaterOrEqual", [y, _float(old, 0)])
    y = old.value("Where", [positive, _float(old, 1), _float(old, -1)])
    return old.final("Mul", [old.value("Sub", [y, old.input(2)]), old.input(1)])


_Parameters = tuple[str, str, int]
"""The names of a scale and a zero point of one dimension at most, and their axis."""


def _parameters(old: OldNode, scale: Array, zero: Array, dtype: np.dtype[np.int8 | np.uint8]) -> _Parameters | None:
    """The parameters as QuantizeLinear takes them; None if it cannot."""
    rank, limits = old.rank(old.input(0)), np.iinfo(dtype)
    shape = _common_shape(old, scale, zero)
    long = [axis for axis, extent in enumerate(shape) if extent != 1]
    if len(long) > 1 or 0 in shape or rank is None or rank < len(shape) or not (scale > 0).all():
        return None
    if (zero != np.rint(zero)).any() or zero.min() < limits.min or zero.max() > limits.max:
        return None
    axis = long[0] + rank - len(shape) if long else 1
    flat = (-1,) if long else ()
    pair = [np.broadcast_to(value, shape).reshape(flat) for value in (scale.astype(np.float32), zero.astype(dtype))]
    return old.constant(pair[0], "scale"), old.constant(pair[1], "zero_point"), axis


def _common_shape(old: OldNode, first: Array, second: Array) -> tuple[int, ...]:
    """The shape to which two parameters broadcast."""
    try:
        return np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        got = f"{list(first.shape)} and {list(second.shape)}"
        raise old.refuse(f"have parameters of shapes that broadcast, got {got}") from None


def _clipped(old: OldNode, scale: Array, zero: Array, limits: tuple[float, float]) -> str:
    """The input clipped, as the range may be narrower than 8 bits."""
    low, high = (((limit - zero) * scale).astype(np.float32) for limit in limits)
    names = old.constant(low.reshape(()) if low.size == 1 else low, "low"), ""
    names = names[0], old.constant(high.reshape(()) if high.size == 1 else high, "high")
    if low.size == 1:
        return old.value("Clip", [old.input(0), *names])
    return old.value("Min", [old.value("Max", [old.input(0), names[0]]), names[1]])


def _quantised(old: OldNode, x: str, parameters: _Parameters) -> list[NodeProto]:
    """Quantised and dequantised."""
    scale_name, zero_name, axis = parameters
    q = old.value("QuantizeLinear", [x, scale_name, zero_name], axis=axis)
    old.attributes.clear()
    old.set("axis", axis)
    return old.final("DequantizeLinear", [q, scale_name, zero_name])


def _bipolar_quant(old: OldNode) -> list[NodeProto]:
    return _bipolar(old, old.input(1))


def _bipolar(old: OldNode, scale: str) -> list[NodeProto]:
    """-1 or 1 in int8, times the scale."""
    values = [old.constant(np.array(value, np.int8), "sign") for value in (1, -1)]
    signs = old.value("Where", [old.value("GreaterOrEqual", [old.input(0), _float(old, 0)]), *values])
    old.attributes.clear()
    known = old.constants.get(scale)
    if known is not None and (known > 0).all():
        parameters = _parameters(old, known, np.zeros((), np.int8), np.dtype(np.int8))
        if parameters is not None:
            old.set("axis", parameters[2])
            return old.final("DequantizeLinear", [signs, *parameters[:2]])
    return old.final("Mul", [old.value("Cast", [signs], to=1), scale])


def _trunc(old: OldNode) -> list[NodeProto]:
    """The upper bits of a value: of four further inputs, or of five with a scale of the result."""
    mode = _mode(old, "FLOOR")
    signed, narrow = old.take("signed", 1), old.take("narrow", 0)
    x, scale, zero = (old.input(place) for place in range(3))
    y = old.value("Round", [old.value("Add", [old.value("Div", [x, scale]), zero])])
    if not old.input(5):
        step = 2.0 ** (_number(old, 3, "bit width") - _number(old, 4, "bit width of the result"))
        y = _rounded(old, old.value("Div", [y, _float(old, step)]), mode)
        return old.final("Mul", [old.value("Sub", [y, zero]), scale])
    input_scale, result_scale = old.constants.get(scale), old.constants.get(old.input(4))
    if input_scale is None or result_scale is None or not (input_scale > 0).all() or not (result_scale > 0).all():
        raise old.refuse("have constant positive scales")
    _common_shape(old, input_scale, result_scale)
    steps = old.constant(np.exp2(np.rint(np.log2(result_scale / input_scale))).astype(np.float32), "steps")
    low, high = _limits(_number(old, 5, "bit width of the result"), signed, narrow)
    y = old.value("Clip", [old.value("Div", [y, steps]), _float(old, low), _float(old, high)])
    y = old.value("Sub", [_rounded(old, y, mode), old.value("Div", [zero, steps])])
    return old.final("Mul", [y, old.input(4)])


def _limits(bits: float, signed: int, narrow: int) -> tuple[float, float]:
    """The least and the greatest integer; of a width between two, what values are clipped to."""
    if not signed:
        return 0, 2.0**bits - 1 - narrow
    return -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1


def _mode(old: OldNode, default: str) -> str:
    mode = old.take("rounding_mode", default.encode()).decode().upper()
    if mode not in _ROUNDINGS:
        raise old.refuse(f"have a rounding_mode of {', '.join(_ROUNDINGS)}, got {mode}")
    return str(mode)


_MOST_BITS = 32


def _number(old: OldNode, place: int, what: str) -> float:
    value = old.constants.get(old.input(place))
    if value is None or value.size != 1 or not 1 <= value.reshape(()) <= _MOST_BITS:
        got = "none" if value is None else value.tolist()
        raise old.refuse(f"have one constant {what} from 1 to {_MOST_BITS}, got {got}")
    return float(value.reshape(()))


def _float(old: OldNode, value: float) -> str:
    return old.constant(np.array(value, np.float32), "constant")


def _rounded(old: OldNode, y: str, mode: str) -> str:
    """y as an integer in float32, by a mode of QONNX."""
    match mode:
        case "CEIL" | "FLOOR":
            return old.value(mode.capitalize(), [y])
        case "UP" | "DOWN" | "HALF_UP" | "HALF_DOWN":
            size = old.value("Abs", [y])
            if mode.startswith("HALF"):
                size = old.value("Add", [size, _float(old, 0.5 if mode == "HALF_UP" else -0.5)])
            op = "Ceil" if mode in ("UP", "HALF_DOWN") else "Floor"
            return old.value("Mul", [old.value("Sign", [y]), old.value(op, [size])])
        case _:
            return old.value("Round", [y])


def _extended(old: OldNode) -> list[NodeProto]:
    return old.final(old.node.op_type.removeprefix("Extended"), old.node.input)


_TABLE: Mapping[str, ForeignOperator] = {
    "BipolarQuant": ForeignOperator(_bipolar_quant, "x scale"),
    "IntQuant": ForeignOperator(_quant, "x scale zero_point bit_width"),
    "Quant": ForeignOperator(_quant, "x scale zero_point bit_width"),
    "Trunc": ForeignOperator(_trunc, "x scale zero_point in_bit_width out_scale_or_bit_width out_bit_width?"),
}
_EXTENDED = ForeignOperator(_extended, "x scale zero_point?")
_QUARK = ("ExtendedDequantizeLinear", "ExtendedQuantizeLinear")
QONNX: Mapping[str, Mapping[int, Upgrade]] = {
    **{f"{domain}.{op}": {0: made} for domain in DOMAINS for op, made in _TABLE.items()},
    **{f"com.amd.quark.{op}": {0: _EXTENDED} for op in _QUARK},
}

# SPDX-License-Identifier: Apache-2.0
"""Rules of ONNX's own quantised operators, summed in int32: QLinearConv, MatMulInteger and others.

Networks run faster on the integer operators that the pass of `graph/quantise` makes of them.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.convolutions import convolve
from vdla.compiler.graph.rules.rule import NodeCall

_BYTES = ("int8", "uint8")
_ZERO = te.const(0, "int32")
_Index = Callable[[tuple[te.Value, ...]], te.Value]


def _centred(call: NodeCall, index: int, zero: int, at: _Index, what: str) -> te.Tensor:
    """An operand minus its zero point, a scalar or one for each index `at`, as int32."""
    x, zero_point = call.tensor(index), call.optional(zero)
    if x.dtype not in _BYTES:
        call.decline(f"have operands of 8 bits, got {x.dtype}")

    def value(*i: te.Value) -> te.Value:
        element = te.cast("int32", x[i])
        if zero_point is None:
            return element
        return element - te.cast("int32", _parameter(call, zero_point, at(i)))

    return te.compute(x.shape, value, f"{call.name()}_{what}")


def _parameter(call: NodeCall, parameter: te.Tensor, place: te.Value) -> te.Value:
    """A scale or zero point of one number, or of several along one dimension."""
    if len(parameter.shape) > 1:
        call.decline("have scales and zero points of one dimension")
    return parameter[_ZERO if parameter.shape[0] == 1 else place]


def _requantised(
    call: NodeCall, total: te.Tensor, scales: tuple[int, int, int], zero: int, places: tuple[_Index, _Index]
) -> te.Tensor:
    """int32 sums times x_scale * w_scale / y_scale, rounded half to even, plus the zero point."""
    x_scale, w_scale, y_scale = (call.tensor(index) for index in scales)
    zero_point, dtype = call.tensor(zero), call.result.dtype
    if dtype not in _BYTES:
        call.decline(f"have a result of 8 bits, got {dtype}")

    def value(*i: te.Value) -> te.Value:
        product = _wide(_parameter(call, x_scale, places[0](i))) * _wide(_parameter(call, w_scale, places[1](i)))
        factor = product / _wide(_parameter(call, y_scale, _ZERO))
        rounded = te.round(te.cast("float64", total[i]) * te.cast("float64", factor))
        return te.cast(dtype, rounded + te.cast("float64", _parameter(call, zero_point, _ZERO)))

    return te.compute(total.shape, value, call.name())


def _wide(value: te.Value) -> te.Value:
    return te.cast("float32", value)


# --- operators ------------------------------------------------------------------------------------


def _convolution(
    call: NodeCall, x: tuple[int, int], w: tuple[int, int], bias: te.Tensor | None, name: str
) -> te.Tensor:
    """The int32 sums; operands and zero points by the indices of the inputs."""
    image = _centred(call, *x, lambda i: _ZERO, "image")
    kernel = _centred(call, *w, lambda i: i[0], "kernel")
    return convolve(call, image, kernel, bias, name)


def conv_integer(call: NodeCall) -> te.Tensor:
    """The rule of ConvInteger."""
    return _convolution(call, (0, 2), (1, 3), None, call.name())


def qlinear_conv(call: NodeCall) -> te.Tensor:
    """The rule of QLinearConv."""
    total = _convolution(call, (0, 2), (3, 5), call.optional(8), f"{call.name()}_total")
    return _requantised(call, total, (1, 4, 6), 7, (lambda i: _ZERO, lambda i: i[1]))


def _matrix(call: NodeCall, a: tuple[int, int], b: tuple[int, int], name: str) -> te.Tensor:
    """The int32 product, with zero points per tensor, row of A or column of B."""
    left = _centred(call, *a, lambda i: i[-2], "a")
    right = _centred(call, *b, lambda i: i[-1], "b")
    if len(left.shape) < 2 or len(right.shape) < 2:
        call.decline("have matrices")
    return operators.matmul(left, right, name=name)


def matmul_integer(call: NodeCall) -> te.Tensor:
    """The rule of MatMulInteger."""
    return _matrix(call, (0, 2), (1, 3), call.name())


def qlinear_matmul(call: NodeCall) -> te.Tensor:
    """The rule of QLinearMatMul."""
    total = _matrix(call, (0, 2), (3, 5), f"{call.name()}_total")
    return _requantised(call, total, (1, 4, 6), 7, (lambda i: i[-2], lambda i: i[-1]))


def dynamic_quantise(call: NodeCall) -> tuple[te.Tensor, ...]:
    """uint8 over the range of the data, 0 included."""
    x, names = call.tensor(0), [call.name(n) if call.wants(n) else f"{call.name()}_result{n}" for n in range(3)]
    low = operators.min(x, name=f"{names[0]}_low")
    high = operators.max(x, name=f"{names[0]}_high")
    scale = te.compute((1,), lambda i: (te.maximum(high[i], 0) - te.minimum(low[i], 0)) / 255.0, names[1])

    def offset(i: te.Value) -> te.Value:
        place = te.round(te.minimum(low[i], 0) * -1.0 / scale[i])
        return te.select(scale[i] == 0, te.const(0, "uint8"), te.cast("uint8", place))

    zero_point = te.compute((1,), offset, names[2])

    def value(*i: te.Value) -> te.Value:
        ratio = te.select(scale[_ZERO] == 0, te.const(0, "float32"), te.round(x[i] / scale[_ZERO]))
        return te.cast("uint8", ratio + te.cast("float32", zero_point[_ZERO]))

    return te.compute(x.shape, value, names[0]), scale, zero_point

# SPDX-License-Identifier: Apache-2.0
"""Rules of quantised element-wise operators, tables and pools."""

from __future__ import annotations

import math

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.requantise import bounds, far, fixed_point_of, rescaled_sums, scales, zero_point
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.ir import limits
from vdla.compiler.operators.pool import reduce_windows
from vdla.compiler.operators.quantisation import activation_shift, requantise, scale_fixed_point
from vdla.compiler.operators.windows import windows_of
from vdla.hardware.factors import UNIT_SLOPE
from vdla.hardware.fixed_point import EXTRA_BITS
from vdla.hardware.numerics import scales_from_floats
from vdla.support.window import Window

_ANY_SUM = 1 << 31
_WINDOW = ("kernel_shape", "strides", "pads", "dilations")


def qadd(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QAdd."""
    tensors, (first, second) = (call.tensor(0), call.tensor(1)), call.attribute("factors")
    if fixed_point_of(call) is not None:
        return _fixed_point_sum(call, tensors, -1 if second < 0 else 1)
    a_zero, b_zero = _zero_points(call, tensors)
    offset = -(first * a_zero + second * b_zero)
    numbers = call.pack("factors", np.array([first, second, offset], np.int32))
    a_far, b_far = _distances(call)
    rescale = rescaled_sums(call, abs(first) * a_far + abs(second) * b_far)

    def value(a: te.Value, b: te.Value) -> te.Value:
        terms = te.cast("int32", a) * numbers[0] + te.cast("int32", b) * numbers[1]
        return rescale(terms + numbers[2], 0)

    return operators.combine_elements("vdla.QAdd", value, tensors, call.name())


def _fixed_point_sum(call: NodeCall, tensors: tuple[te.Tensor, te.Tensor], sign: int) -> te.Tensor:
    """Operands of 20 more bits, each rescaled; their sum rescaled."""
    zeros, dtype = _zero_points(call, tensors), call.result.dtype
    (low, high), added = bounds(call, dtype), zero_point(call, "y_zero_point", dtype)
    factors = call.pack("scale", scales(call))

    def value(*operands: te.Value) -> te.Value:
        a, b = (
            scale_fixed_point((te.cast("int32", v) - zero) * (1 << EXTRA_BITS), factors[i])
            for i, (v, zero) in enumerate(zip(operands, zeros, strict=True))
        )
        return te.cast(dtype, te.clip(scale_fixed_point(a + b * sign, factors[2]) + added, low, high))

    return operators.combine_elements("vdla.QAdd", value, tensors, call.name())


def qmul(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QMul."""
    tensors = call.tensor(0), call.tensor(1)
    a_zero, b_zero = _zero_points(call, tensors)
    rescale = rescaled_sums(call, math.prod(_distances(call)))

    def value(a: te.Value, b: te.Value) -> te.Value:
        return rescale((te.cast("int32", a) - a_zero) * (te.cast("int32", b) - b_zero), 0)

    return operators.combine_elements("vdla.QMul", value, tensors, call.name())


def _zero_points(call: NodeCall, tensors: tuple[te.Tensor, te.Tensor]) -> tuple[int, int]:
    """The zero points of two operands in their dtype."""
    a, b = tensors
    return zero_point(call, "a_zero_point", a.dtype), zero_point(call, "b_zero_point", b.dtype)


def _distances(call: NodeCall) -> tuple[int, int]:
    """The greatest distances of two operands from their zero points."""
    return far(call.attribute("a_zero_point")), far(call.attribute("b_zero_point"))


def qrescale(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QRescale."""
    if call.tensor(0).dtype == "int32":
        rescale = rescaled_sums(call, _ANY_SUM)
        zero = call.attribute("x_zero_point")
        return operators.elementwise(call.tensor(0), lambda v: rescale(v - zero, 0), call.name())
    return _rescaled(call, call.tensor(0), call.name())


def _rescaled(call: NodeCall, x: te.Tensor, name: str) -> te.Tensor:
    """The elements of x less their zero point, requantised."""
    zero, rescale = zero_point(call, "x_zero_point", x.dtype), rescaled_sums(call, far(call.attribute("x_zero_point")))
    return operators.elementwise(x, lambda v: rescale(te.cast("int32", v) - zero, 0), name)


def qleaky_relu(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QLeakyRelu."""
    zero, factors = zero_point(call, "x_zero_point", call.tensor(0).dtype), call.attribute("factors")
    rescale = rescaled_sums(call, max(factors) * far(call.attribute("x_zero_point")))

    def value(v: te.Value) -> te.Value:
        x = te.cast("int32", v) - zero
        return rescale(te.maximum(x * factors[0], x * factors[1]), 0)

    return operators.elementwise(call.tensor(0), value, call.name())


def qprelu(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QPRelu."""
    tensors = call.tensor(0), call.tensor(1)
    zero, known = zero_point(call, "x_zero_point", tensors[0].dtype), call.constant(1, "slope")
    steepest = UNIT_SLOPE if known is None else max(UNIT_SLOPE, int(np.abs(known.astype(np.int64)).max(initial=0)))
    rescale = rescaled_sums(call, steepest * far(call.attribute("x_zero_point")))

    def value(v: te.Value, slope: te.Value) -> te.Value:
        x = te.cast("int32", v) - zero
        return rescale(te.maximum(x, 0) * UNIT_SLOPE + te.minimum(x, 0) * te.cast("int32", slope), 0)

    return operators.combine_elements("vdla.QPRelu", value, tensors, call.name())


def qtable(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QTable."""
    x = call.tensor(0)
    table, least = _table(call, x.dtype), limits(x.dtype)[0]
    return operators.elementwise(x, lambda v: table[te.cast("int32", v) - int(least)], call.name())


def _table(call: NodeCall, dtype: str) -> te.Tensor:
    """The results by element, in the dtype of the elements."""
    table = call.attribute("table").astype(np.int64) + activation_shift("int8", dtype)
    return call.pack("table", table.astype(dtype))


def to_int8(call: NodeCall) -> te.Tensor:
    """The rule of vdla.ToInt8: uint8 numbers less 128."""
    return operators.elementwise(call.tensor(0), lambda v: te.cast("int8", te.cast("int32", v) - 128), call.name())


def to_uint8(call: NodeCall) -> te.Tensor:
    """The rule of vdla.ToUint8: int8 numbers plus 128."""
    return operators.elementwise(call.tensor(0), lambda v: te.cast("uint8", te.cast("int32", v) + 128), call.name())


# --- pools ----------------------------------------------------------------------------------------


def qmax_pool(call: NodeCall) -> te.Tensor:
    """The largest element of each window, requantised."""
    layout, kernel, strides, pads, dilations = call.input_type().layout, *(call.attribute(key) for key in _WINDOW)
    keeps_scale = _keeps_scale(call)
    name = call.name() if keeps_scale else f"{call.name()}_largest"
    largest = operators.max_pool(call.tensor(0), kernel, strides, pads, dilations, layout=layout, name=name)
    return largest if keeps_scale else _rescaled(call, largest, call.name())


def _keeps_scale(call: NodeCall) -> bool:
    """Whether a requantisation is the identity."""
    same = call.attribute("x_zero_point") == call.attribute("y_zero_point")
    return same and scales(call).tolist() == [1.0] and bounds(call) == (-128, 127)


def qaverage_pool(call: NodeCall) -> te.Tensor:
    """Sums, and a scale for each position, by the number of elements that it averages.

    Dimensions behind the windows, the lanes of blocks, stay as they are; the mean of whole images
    in blocks is plain.
    """
    x = call.tensor(0)
    if call.input_type().lanes and not call.result.lanes:
        return _mean_of_blocks(call, x)
    kernel, strides, pads, dilations = (call.attribute(key) for key in _WINDOW)
    zero, last = zero_point(call, "x_zero_point", x.dtype), 2 + len(kernel)
    windows = windows_of(call.name(), x.shape[2:last], kernel, strides, pads, dilations)
    sums = reduce_windows(te.sum, x, windows, zero, f"{call.name()}_sum", lambda v: te.cast("int32", v) - zero)
    if fixed_point_of(call) is not None:
        return _fixed_point_mean(call, sums, _counts(call, windows))
    scale = _quotients(call, windows)
    factors = call.pack("scale", scale)
    greatest, added = math.prod(kernel) * far(call.attribute("x_zero_point")), zero_point(call, "y_zero_point", x.dtype)

    def value(*i: te.Value) -> te.Value:
        factor = factors[0] if scale.shape == (1,) else factors[i[2:last]]
        return requantise(sums[i], factor, added, x.dtype, greatest, bounds(call, x.dtype))

    return te.compute(sums.shape, value, call.name())


def _mean_of_blocks(call: NodeCall, x: te.Tensor) -> te.Tensor:
    """The mean of each channel of an image in blocks."""
    kind, kernel = call.input_type(), call.attribute("kernel_shape")
    if fixed_point_of(call) is not None:
        call.decline("have plain images where its means are rounded as TensorFlow Lite does")
    [scale] = _quotients(call, windows_of(call.name(), kind.extents[2:], kernel, 1, 0, 1)).tolist()
    zeros = zero_point(call, "x_zero_point", x.dtype), zero_point(call, "y_zero_point", call.result.dtype)
    return operators.qglobal_average_pool(
        x, kind.layout, kind.extents[1], scale, *zeros, call.result.dtype, bounds(call), call.name()
    )


def _quotients(call: NodeCall, windows: Window) -> Array:
    """The scale over the count of each window; one number if all counts are equal."""
    real = np.ldexp(call.attribute("multiplier").astype(np.float64), -call.attribute("shift"))
    multiplier, shift = scales_from_floats(real / _counts(call, windows))
    return np.asarray(np.ldexp(multiplier.astype(np.float64), -shift), np.float32)


def _counts(call: NodeCall, windows: Window) -> Array:
    """The number of elements of each window, at least 1; one number if all are equal."""
    counts = np.ones((), np.int64)
    for d in range(len(windows.size)):
        counts = np.multiply.outer(counts, windows.reads_image(d).sum(axis=1))
    if call.attribute("count_include_pad"):
        counts = np.full(windows.places, np.prod(windows.taps))
    if (counts == counts.flat[0]).all():
        counts = counts.reshape(-1)[:1]
    return np.maximum(counts, 1)


def _fixed_point_mean(call: NodeCall, sums: te.Tensor, counts: Array) -> te.Tensor:
    """Sums rescaled by a factor over the count, or divided and rounded half away from zero."""
    dtype, last = call.result.dtype, 2 + len(call.attribute("kernel_shape"))
    limits_of, added = bounds(call, dtype), zero_point(call, "y_zero_point", dtype)
    if not call.attribute("half_away"):
        rescale = rescaled_sums(call, 0)
        return te.compute(sums.shape, lambda *i: rescale(sums[i], 0), call.name())
    divisors, zero = call.pack("counts", counts.astype(np.int32)), call.attribute("x_zero_point")
    shift = added - call.attribute("y_zero_point")

    def value(*i: te.Value) -> te.Value:
        count = divisors[0] if counts.shape == (1,) else divisors[i[2:last]]
        total = sums[i] + count * zero
        magnitude = (te.abs(total) + count // 2) // count
        return te.cast(dtype, te.clip(te.select(total < 0, -magnitude, magnitude) + shift, *limits_of))

    return te.compute(sums.shape, value, call.name())

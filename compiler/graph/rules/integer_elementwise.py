"""Rules of quantised element-wise operators, tables and pools."""

from __future__ import annotations

import math

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.requantise import bounds, far, rescaled_sums, scales
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule
from vdla.compiler.operators.quantisation import requantise
from vdla.compiler.operators.windows import Windows, windows_of
from vdla.hardware.numerics import scales_from_floats

_WINDOW = ("kernel_shape", "strides", "pads", "dilations")


def _qadd(call: NodeCall) -> te.Tensor:
    (first, second), a_zero, b_zero = (call.attribute(key) for key in ("factors", "a_zero_point", "b_zero_point"))
    offset = -(first * a_zero + second * b_zero)
    numbers = call.pack("factors", np.array([first, second, offset], np.int32))
    rescale = rescaled_sums(call, abs(first) * far(a_zero) + abs(second) * far(b_zero))

    def value(a: te.Value, b: te.Value) -> te.Value:
        terms = te.cast("int32", a) * numbers[0] + te.cast("int32", b) * numbers[1]
        return rescale(terms + numbers[2], 0)

    return operators.combine_elements("vdla.QAdd", value, (call.tensor(0), call.tensor(1)), call.name())


def _qmul(call: NodeCall) -> te.Tensor:
    a_zero, b_zero = call.attribute("a_zero_point"), call.attribute("b_zero_point")
    rescale = rescaled_sums(call, far(a_zero) * far(b_zero))

    def value(a: te.Value, b: te.Value) -> te.Value:
        return rescale((te.cast("int32", a) - a_zero) * (te.cast("int32", b) - b_zero), 0)

    return operators.combine_elements("vdla.QMul", value, (call.tensor(0), call.tensor(1)), call.name())


def _qrescale(call: NodeCall) -> te.Tensor:
    zero_point = call.attribute("x_zero_point")
    rescale = rescaled_sums(call, far(zero_point))
    return operators.elementwise(call.tensor(0), lambda v: rescale(te.cast("int32", v) - zero_point, 0), call.name())


def _qleaky_relu(call: NodeCall) -> te.Tensor:
    zero_point, factors = call.attribute("x_zero_point"), call.attribute("factors")
    rescale = rescaled_sums(call, max(factors) * far(zero_point))

    def value(v: te.Value) -> te.Value:
        x = te.cast("int32", v) - zero_point
        return rescale(te.maximum(x * factors[0], x * factors[1]), 0)

    return operators.elementwise(call.tensor(0), value, call.name())


def _qtable(call: NodeCall) -> te.Tensor:
    table = call.pack("table", call.attribute("table"))
    return operators.elementwise(call.tensor(0), lambda v: table[te.cast("int32", v) + 128], call.name())


def _to_int8(call: NodeCall) -> te.Tensor:
    return operators.elementwise(call.tensor(0), lambda v: te.cast("int8", te.cast("int32", v) - 128), call.name())


def _to_uint8(call: NodeCall) -> te.Tensor:
    return operators.elementwise(call.tensor(0), lambda v: te.cast("uint8", te.cast("int32", v) + 128), call.name())


# --- pools ----------------------------------------------------------------------------------------


def _qmax_pool(call: NodeCall) -> te.Tensor:
    zero_point = call.attribute("x_zero_point")
    kernel, strides, pads, dilations = (call.attribute(key) for key in _WINDOW)
    if _keeps_scale(call):
        return operators.max_pool(call.tensor(0), kernel, strides, pads, dilations, name=call.name())
    largest = operators.max_pool(call.tensor(0), kernel, strides, pads, dilations, name=f"{call.name()}_largest")
    rescale = rescaled_sums(call, far(zero_point))
    return operators.elementwise(largest, lambda v: rescale(te.cast("int32", v) - zero_point, 0), call.name())


def _keeps_scale(call: NodeCall) -> bool:
    """Whether a requantisation returns what it is given."""
    same = call.attribute("x_zero_point") == call.attribute("y_zero_point")
    return same and scales(call).tolist() == [1.0] and bounds(call) == (-128, 127)


def _qaverage_pool(call: NodeCall) -> te.Tensor:
    """Sums, and a scale for each position, by the number of elements that it averages."""
    x, zero_point = call.tensor(0), call.attribute("x_zero_point")
    kernel, strides, pads, dilations = (call.attribute(key) for key in _WINDOW)
    windows = windows_of(call.name(), x.shape[2:], kernel, strides, pads, dilations)
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(kernel)]

    def total(*i: te.Value) -> te.Value:
        position = [windows.position(d, i[2 + d], tap) for d, tap in enumerate(taps)]
        element = te.cast("int32", x[(*i[:2], *position)]) - zero_point
        if inside := windows.inside(position):
            element = te.select(te.all_of(*inside), element, te.const(0, "int32"))
        return te.sum(element, axis=taps)

    sums = te.compute((*x.shape[:2], *windows.counts), total, f"{call.name()}_sum")
    quotients = _quotients(call, windows)
    factors = call.pack("scale", quotients)
    greatest, added = math.prod(kernel) * far(zero_point), call.attribute("y_zero_point")

    def value(*i: te.Value) -> te.Value:
        factor = factors[0] if quotients.shape == (1,) else factors[i[2:]]
        return requantise(sums[i], factor, added, "int8", greatest, bounds(call))

    return te.compute(sums.shape, value, call.name())


def _quotients(call: NodeCall, windows: Windows) -> Array:
    """The scale over the count of each window; one number if all counts are equal."""
    real = np.ldexp(call.attribute("multiplier").astype(np.float64), -call.attribute("shift"))
    counts = np.ones((), np.int64)
    for d, number in enumerate(windows.counts):
        along = np.array([_inside(windows, d, n) for n in range(number)])
        counts = np.multiply.outer(counts, along)
    if call.attribute("count_include_pad"):
        counts = np.full(windows.counts, np.prod(windows.kernel_shape))
    if (counts == counts.flat[0]).all():
        counts = counts.reshape(-1)[:1]
    multiplier, shift = scales_from_floats(real / np.maximum(counts, 1))
    return np.asarray(np.ldexp(multiplier.astype(np.float64), -shift), np.float32)


def _inside(windows: Windows, d: int, window: int) -> int:
    """The elements of the input that a window covers along a dimension."""
    start = window * windows.strides[d] - windows.pads_before[d]
    positions = start + np.arange(windows.kernel_shape[d]) * windows.dilations[d]
    return int(((positions >= 0) & (positions < windows.extents[d])).sum())


INTEGER_ELEMENTWISE = (
    OperatorRule("vdla.QAdd", FusionClass.INJECTIVE, _qadd),
    OperatorRule("vdla.QMul", FusionClass.INJECTIVE, _qmul),
    OperatorRule("vdla.QRescale", FusionClass.INJECTIVE, _qrescale),
    OperatorRule("vdla.QLeakyRelu", FusionClass.INJECTIVE, _qleaky_relu),
    OperatorRule("vdla.QTable", FusionClass.INJECTIVE, _qtable),
    OperatorRule("vdla.ToInt8", FusionClass.INJECTIVE, _to_int8),
    OperatorRule("vdla.ToUint8", FusionClass.INJECTIVE, _to_uint8),
    OperatorRule("vdla.QMaxPool", FusionClass.REDUCTION, _qmax_pool),
    OperatorRule("vdla.QAveragePool", FusionClass.REDUCTION, _qaverage_pool),
)

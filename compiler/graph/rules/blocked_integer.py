"""Rules of integer operators on images in blocks of channels, [N, C / lanes, H, W, lanes].

The elements of blocks are int8, or uint8 that stand for int8 numbers plus 128: the one that the
target's dot products read.
"""

from __future__ import annotations

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.blocked_plan import image_layout
from vdla.compiler.graph.rules.integer_elementwise import qaverage_pool, qmax_pool, quotients
from vdla.compiler.graph.rules.integer_products import packed_inputs, weight_and_bias
from vdla.compiler.graph.rules.requantise import EXACT_SUM, bounds, greatest_sum, scales, zero_point
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule
from vdla.compiler.operators.windows import windows_of


def _qconv(call: NodeCall) -> te.Tensor:
    x, (weight, bias) = call.tensor(0), weight_and_bias(call)
    if greatest_sum(weight, bias, call.attribute("x_zero_point")) > EXACT_SUM:
        call.decline("have sums below 2**29")
    if call.attribute("group") == 1:
        return _dense(call, x, weight, bias)
    if call.attribute("group") != len(weight) or weight.shape[1] != 1 or len(x.shape) == weight.ndim:
        call.decline("have one group, or blocks with one channel a group")
    return _depthwise(call, x, weight, bias)


def _dense(call: NodeCall, x: te.Tensor, weight: Array, bias: Array) -> te.Tensor:
    """A convolution of one group, of a plain image or of blocks."""
    zero, result = _zero_points(call, x)
    strides, pads, dilations = _windows(call)
    packed = operators.pack_qconv2d(weight, scales(call), call.target, bias, zero, x.dtype)
    dtype = call.result.dtype
    return operators.qconv2d(
        x, *packed_inputs(call, packed), call.target, None, zero, result, dtype, strides, pads, dilations,
        packed.largest_sum, bounds(call, dtype), image_layout(x), "blocks", call.name(),
    )  # fmt: skip


def _depthwise(call: NodeCall, x: te.Tensor, weight: Array, bias: Array) -> te.Tensor:
    """A convolution with one kernel a channel, of blocks."""
    zero, result = _zero_points(call, x)
    strides, pads, dilations = _windows(call)
    layout, dtype = image_layout(x), call.result.dtype
    packed = operators.pack_qdepthwise_conv2d(
        weight, scales(call), call.target, bias, zero, x.dtype, strides, dilations, layout
    )
    return operators.qdepthwise_conv2d(
        x, *packed_inputs(call, packed), call.target, weight.shape[2:], zero, result, dtype,
        strides, pads, dilations, packed.largest_sum, bounds(call, dtype), layout, call.name(),
    )  # fmt: skip


def _zero_points(call: NodeCall, x: te.Tensor) -> tuple[int, int]:
    """Those of x and of the result, in their dtypes."""
    return zero_point(call, "x_zero_point", x.dtype), zero_point(call, "y_zero_point", call.result.dtype)


def _windows(call: NodeCall) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Strides, pads and dilations."""
    return call.attribute("strides"), call.attribute("pads"), call.attribute("dilations")


def _max_pool(call: NodeCall) -> te.Tensor:
    return qmax_pool(call, image_layout(call.tensor(0)))


def _average_pool(call: NodeCall) -> te.Tensor:
    return qaverage_pool(call)


def _global_average_pool(call: NodeCall) -> te.Tensor:
    x, dtype = call.tensor(0), call.result.dtype
    kernel, strides, pads, dilations = call.attribute("kernel_shape"), *_windows(call)
    windows = windows_of(call.name(), x.shape[2:4], kernel, strides, pads, dilations)
    [scale] = quotients(call, windows).tolist()
    channels, zeros = call.attribute("channels"), _zero_points(call, x)
    return operators.qglobal_average_pool(x, image_layout(x), channels, scale, *zeros, dtype, bounds(call), call.name())


BLOCKED_INTEGER = (
    OperatorRule("vdla.BlockedQConv", FusionClass.COMPLEX, _qconv),
    OperatorRule("vdla.BlockedQMaxPool", FusionClass.REDUCTION, _max_pool),
    OperatorRule("vdla.BlockedQAveragePool", FusionClass.REDUCTION, _average_pool),
    OperatorRule("vdla.BlockedQGlobalAveragePool", FusionClass.REDUCTION, _global_average_pool),
)

# SPDX-License-Identifier: Apache-2.0
"""Rules of quantised convolutions and matrix products.

One group, depthwise convolutions and dense layers use dot-product instructions; other groups and
products of two activations are summed in int32. Images of convolutions are plain or in blocks of
channels, [N, C / lanes, H, W, lanes], whose elements are what the target's dot products read.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.requantise import (
    EXACT_SUM,
    bounds,
    centred,
    far,
    greatest_sum,
    rescaled,
    scales,
    zero_point,
)
from vdla.compiler.graph.rules.rule import NodeCall

_PLANE = 2  # spatial dimensions of the fast forms
_Options = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # strides, pads, dilations


def weight_and_bias(call: NodeCall) -> tuple[Array, Array]:
    """The constant weight and bias of a product."""
    weight, bias = call.constant(1, "weight"), call.constant(2, "bias")
    if weight is None or bias is None:
        call.decline("have a weight and a bias")
    return weight, bias


def _greatest(call: NodeCall, weight: Array, bias: Array) -> int:
    return greatest_sum(weight, bias, call.attribute("x_zero_point"))


def packed_inputs(call: NodeCall, packed: operators.PackedWeights) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Weight, bias and scale as inputs of the kernel."""
    return call.pack("weight", packed.weight), call.pack("bias", packed.bias), call.pack("scale", packed.scale)


def zero_points(call: NodeCall) -> tuple[int, int]:
    """The zero points of the image and of the result, in their dtypes."""
    x, y = call.input_type().dtype, call.result.dtype
    return zero_point(call, "x_zero_point", x), zero_point(call, "y_zero_point", y)


# --- convolutions ---------------------------------------------------------------------------------


def qconv(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QConv, in the layouts of image and result."""
    x, (weight, bias) = call.tensor(0), weight_and_bias(call)
    strides, pads, dilations = (call.attribute(key) for key in ("strides", "pads", "dilations"))
    if weight.ndim == 2 + _PLANE:
        return _plane(call, x, weight, bias, (strides, pads, dilations), call.name())
    if weight.ndim > 2 + _PLANE:
        return _summed(call, x, weight, bias, (strides, pads, dilations), call.name())
    row = operators.unsqueeze(x, 2, name=f"{call.name()}_row")
    flat = ((1, *strides), (0, pads[0], 0, pads[1]), (1, *dilations))
    return operators.squeeze(_plane(call, row, weight[:, :, None], bias, flat, f"{call.name()}_plane"), 2, call.name())


def _plane(call: NodeCall, x: te.Tensor, weight: Array, bias: Array, options: _Options, name: str) -> te.Tensor:
    """A two-dimensional convolution, by dot products where the target has a fitting one."""
    groups, layout = call.attribute("group"), call.input_type().layout
    is_depthwise = groups == len(weight) and weight.shape[1] == 1 and groups > 1
    if _greatest(call, weight, bias) > EXACT_SUM:
        return _summed(call, x, weight, bias, options, name)
    if is_depthwise and layout == call.result.layout:
        return _depthwise(call, x, weight, bias, options, name)
    if groups > 1:
        return _summed(call, x, weight, bias, options, name)
    zero, result, dtype = *zero_points(call), call.result.dtype
    channels = None if call.result.lanes else len(weight)
    packed = operators.pack_qconv2d(weight, scales(call), call.target, bias, zero, x.dtype)
    return operators.qconv2d(
        x, *packed_inputs(call, packed), call.target, channels, zero, result, dtype, *options,
        packed.largest_sum, bounds(call, dtype), layout, "blocks" if call.result.lanes else "NCHW", name,
    )  # fmt: skip


def _depthwise(call: NodeCall, x: te.Tensor, weight: Array, bias: Array, options: _Options, name: str) -> te.Tensor:
    """A convolution with one kernel a channel, in one layout."""
    zero, result, dtype, layout = *zero_points(call), call.result.dtype, call.result.layout
    strides, _, dilations = options
    packed = operators.pack_qdepthwise_conv2d(
        weight, scales(call), call.target, bias, zero, x.dtype, strides, dilations, layout
    )
    return operators.qdepthwise_conv2d(
        x, *packed_inputs(call, packed), call.target, weight.shape[2:], zero, result, dtype, *options,
        packed.largest_sum, bounds(call, dtype), layout, name,
    )  # fmt: skip


def _summed(call: NodeCall, x: te.Tensor, weight: Array, bias: Array, options: _Options, name: str) -> te.Tensor:
    """A convolution of int32, of plain images."""
    if call.is_in_blocks:
        call.decline("have one group or one channel a group, and sums below 2**29, in blocks of channels")
    data = centred(call, x, call.attribute("x_zero_point"), "centred")
    wide, added, groups = weight.astype(np.int32), call.pack("bias", bias), call.attribute("group")
    if weight.ndim == 2 + _PLANE:
        packed = operators.pack_conv2d(wide, call.target, groups)
        total = operators.conv2d(
            data, call.pack("weight", packed), added, *options, groups, len(weight),
            weight_layout=f"OIHW{packed.shape[-1]}o", target=call.target, name=f"{name}_total",
        )  # fmt: skip
    else:
        total = operators.convolution(data, call.pack("weight", wide), added, *options, groups, f"{name}_total")
    return rescaled(call, total, 1, _greatest(call, weight, bias), name)


# --- matrices -------------------------------------------------------------------------------------


def qdense(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QDense."""
    x, (weight, bias) = call.tensor(0), weight_and_bias(call)
    name, is_matrix = call.name(), len(x.shape) == _PLANE
    rows = x if is_matrix else operators.reshape(x, (-1, x.shape[-1]), name=f"{name}_rows")
    result = _dense(call, rows, weight, bias, name if is_matrix else f"{name}_matrix")
    return result if is_matrix else operators.reshape(result, (*x.shape[:-1], len(weight)), name=name)


def _dense(call: NodeCall, x: te.Tensor, weight: Array, bias: Array, name: str) -> te.Tensor:
    greatest, zero = _greatest(call, weight, bias), call.attribute("x_zero_point")
    if greatest > EXACT_SUM:
        data = centred(call, x, zero, "centred")
        wide = call.pack("weight", np.ascontiguousarray(weight.T.astype(np.int32)))
        total = operators.matmul(data, wide, call.pack("bias", bias), name=f"{name}_total")
        return rescaled(call, total, 1, greatest, name)
    packed = operators.pack_qdense(weight, scales(call), call.target, bias, zero, "int8")
    return operators.qdense(
        x, *packed_inputs(call, packed), call.target, len(weight), call.attribute("y_zero_point"), "int8",
        packed.largest_sum, bounds(call), name,
    )  # fmt: skip


def qmatmul(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QMatMul."""
    zeros = call.attribute("a_zero_point"), call.attribute("b_zero_point")
    a, b = (centred(call, call.tensor(i), zeros[i], f"{i}_centred") for i in range(2))
    depth = a.shape[-1]
    if not isinstance(depth, int):
        call.decline("have a static number of terms")
    total = operators.matmul(a, b, name=f"{call.name()}_total")
    return rescaled(call, total, 0, depth * far(zeros[0]) * far(zeros[1]), call.name())

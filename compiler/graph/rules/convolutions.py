# SPDX-License-Identifier: Apache-2.0
"""Rules of convolutions, in the layouts of image and result or in another one.

1-D convolutions are two-dimensional with one row. A kernel in another layout than its image and
result repacks them in separate stages, which read and write them once, as a repack between two
kernels would. Weights in blocks are packed at compile time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array, Node, TensorType
from vdla.compiler.graph.rules.algorithm import ALGORITHM, GIVEN, IN_BLOCKS, IN_PLAIN, LANES, LAYOUT
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.graph.rules.windows import WindowOptions, window_options
from vdla.compiler.operators.conv2d import lanes_of
from vdla.compiler.operators.roles import REPACKED
from vdla.compiler.target import Target

_PLANE = 2  # spatial dimensions of the fast forms
_SPATIAL = slice(2, 4)


def conv(call: NodeCall) -> te.Tensor:
    """The rule of Conv, in the layouts of image and result."""
    if _is_laid_out(call):
        return _laid_out_conv(call)
    if call.is_in_blocks:
        return _conv_in_blocks(call)
    return convolve(call, call.tensor(0), call.tensor(1), call.optional(2), call.name())


def convolve(call: NodeCall, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, name: str) -> te.Tensor:
    """A convolution with the options of a node."""
    kernel, known = weight.shape[2:], call.constants[1] if weight is call.tensor(1) else None
    options = window_options(call.node.attributes, x.shape[2:], kernel)
    if len(kernel) > _PLANE + 1:
        return operators.convolution(x, weight, bias, *options, call.attribute("group", 1), name=name)
    form = {_PLANE - 1: _row, _PLANE: _plane, _PLANE + 1: _volume}[len(kernel)]
    return form(_Operands(call, x, weight, known, bias, options), name)


@dataclass(frozen=True, slots=True)
class _Operands:
    """What a node convolves; `known` is a constant weight."""

    call: NodeCall
    x: te.Tensor
    weight: te.Tensor
    known: Array | None
    bias: te.Tensor | None
    options: WindowOptions


def _plane(of: _Operands, name: str) -> te.Tensor:
    """A two-dimensional convolution."""
    call, x, weight, groups = of.call, of.x, of.weight, of.call.attribute("group", 1)
    if groups == x.shape[1] and weight.shape[1] == 1 and groups > 1:
        return operators.depthwise_conv2d(x, weight, of.bias, *of.options, name=name)
    if of.known is None:
        return operators.conv2d(x, weight, of.bias, *of.options, groups, target=call.target, name=name)
    algorithm = call.attribute(ALGORITHM, None)
    plan = operators.plan_convolution(x.shape, weight.shape, *of.options, groups, weight.dtype, call.target, algorithm)
    return plan.apply(x, call.pack("weight", plan.pack(of.known)), of.bias, name)


def _row(of: _Operands, name: str) -> te.Tensor:
    """A one-dimensional convolution: that of an image of one row."""
    strides, pads, dilations = of.options
    row, taps = (operators.unsqueeze(t, 2, name=f"{name}_{what}") for t, what in ((of.x, "row"), (of.weight, "taps")))
    known = None if of.known is None else of.known[:, :, None]
    options = (1, *strides), (0, pads[0], 0, pads[1]), (1, *dilations)
    plane = replace(of, x=row, weight=taps, known=known, options=options)
    return operators.squeeze(_plane(plane, f"{name}_plane"), 2, name=name)


def _volume(of: _Operands, name: str) -> te.Tensor:
    """A three-dimensional convolution: the slices under a window are channels of an image."""
    x, (strides, pads, dilations) = of.x, of.options
    batch, channels, depth, *plane = x.shape
    outputs, inputs, taps, *kernel = of.weight.shape
    slices = (depth + pads[0] + pads[3] - (taps - 1) * dilations[0] - 1) // strides[0] + 1

    def image(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        place = n % slices * strides[0] + c % taps * dilations[0] - pads[0]
        element = x[n // slices, c // taps, place, h, w]
        if not (pads[0] or pads[3]):
            return element
        return te.select((place >= 0) & (place < depth), element, te.const(0, x.dtype))

    flat = outputs, inputs * taps, *kernel
    images = replace(
        of,
        x=te.compute((batch * slices, channels * taps, *plane), image, f"{name}_slices"),
        weight=operators.reshape(of.weight, flat, name=f"{name}_taps"),
        known=None if of.known is None else of.known.reshape(flat),
        options=(strides[1:], (pads[1], pads[2], pads[4], pads[5]), dilations[1:]),
    )
    rows = _plane(images, f"{name}_plane")

    def value(n: te.Value, k: te.Value, d: te.Value, h: te.Value, w: te.Value) -> te.Value:
        return rows[n * slices + d, k, h, w]

    return te.compute((batch, outputs, slices, *rows.shape[2:]), value, name)


# --- blocks of channels ---------------------------------------------------------------------------


def convolution_plan(
    node: Node, image: TensorType, weight_shape: Sequence[int], target: Target, *, lanes: int, into_blocks: bool
) -> operators.ConvolutionPlan:
    """The plan of a convolution with a node's options, whose plain image has a type; `lanes` are
    the lanes of the image that the kernel reads, 0 for a plain one.

    Raises:
        OperatorError: the algorithm that a node asks for does not apply.
    """
    attributes, extents = node.attributes, image.extents
    return operators.plan_convolution(
        extents,
        weight_shape,
        *window_options(attributes, extents[_SPATIAL], weight_shape[_SPATIAL]),
        attributes.get("group", 1),
        image.dtype,
        target,
        attributes.get(ALGORITHM),
        layout=f"NCHW{lanes}c" if lanes else "NCHW",
        result_layout="blocks" if into_blocks else "NCHW",
        weight_lanes=attributes.get(LANES),
    )


def _conv_in_blocks(call: NodeCall) -> te.Tensor:
    """The convolution of a node whose image or result is in blocks."""
    x, weight, bias = call.tensor(0), call.constant(1, "weight"), call.constant(2, "bias")
    if weight is None:
        call.decline("have a weight")
    image, into_blocks = call.input_type(), bool(call.result.lanes)
    plan = convolution_plan(call.node, image, weight.shape, call.target, lanes=image.lanes, into_blocks=into_blocks)
    added = None if bias is None else call.pack("bias", plan.pack_bias(bias))
    return plan.apply(x, call.pack("weight", plan.pack(weight)), added, call.name())


# --- a kernel layout other than that of the values ------------------------------------------------


def _is_laid_out(call: NodeCall) -> bool:
    """Whether a node asks for a layout or for lanes."""
    return LAYOUT in call.node.attributes or LANES in call.node.attributes


def _laid_out_conv(call: NodeCall) -> te.Tensor:
    """The convolution of a node with a layout or lanes.

    Raises:
        DeclinedError: its operands are not constant, or it is in this layout without repacking.
    """
    x, weight, bias = call.tensor(0), call.constant(1, "weight"), call.constant(2, "bias")
    if weight is None or weight.ndim != 4:
        call.decline("have a weight [CO, CI, KH, KW]")
    image, lanes = _image(call, x)
    layout, result_lanes = call.attribute(LAYOUT, GIVEN), call.result.lanes
    into_blocks = bool(result_lanes) if layout == GIVEN else layout == IN_BLOCKS
    kind = call.input_type()
    plan = convolution_plan(call.node, kind, weight.shape, call.target, lanes=lanes, into_blocks=into_blocks)
    is_same = plan.is_blocked == bool(result_lanes) and result_lanes in (0, plan.lanes)
    if is_same and image is x and plan.lanes == replace(plan, weight_lanes=None).lanes:
        call.decline("be in another layout than its image and result")
    added = None if bias is None else call.pack("bias", plan.pack_bias(bias))
    packed = call.pack("weight", plan.pack(weight))
    if is_same:
        return plan.apply(image, packed, added, call.name())
    return _result(call, plan.apply(image, packed, added, f"{call.name()}_inside"), plan)


def _image(call: NodeCall, x: te.Tensor) -> tuple[te.Tensor, int]:
    """The image in the layout inside the kernel, and its lanes, 0 for a plain image."""
    layout, kind = call.attribute(LAYOUT, GIVEN), call.input_type()
    channels = kind.extents[1]
    if layout == IN_PLAIN and kind.lanes:
        return _placed(operators.from_blocked(x, channels, name=f"{call.name()}_plain")), 0
    if layout == IN_BLOCKS and not kind.lanes:
        lanes = lanes_of(channels, x.dtype, call.target)
        return _placed(operators.to_blocked(x, lanes, name=f"{call.name()}_blocks")), lanes
    return x, kind.lanes


def _result(call: NodeCall, inside: te.Tensor, plan: operators.ConvolutionPlan) -> te.Tensor:
    """The result in the layout of its type."""
    channels, whole = plan.weight_shape[0], _placed(inside)
    if not call.result.lanes:
        return operators.from_blocked(whole, channels, name=call.name())
    plain = operators.from_blocked(whole, channels, name=f"{call.name()}_plain_result") if plan.is_blocked else whole
    return operators.to_blocked(plain, call.result.lanes, name=call.name())


def _placed(image: te.Tensor) -> te.Tensor:
    """An image as a stage of its own."""
    return te.compute(image.shape, lambda *i: image[i], f"{image.name}_repacked", REPACKED)

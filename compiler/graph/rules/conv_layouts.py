"""A convolution in another layout than its image and its result: its kernel repacks them.

A repacked image or result is a stage of its own, which reads and writes it once, as a repack
between two kernels would. The weight is constant and packed at compile time. The image and result
of a node are plain, or in blocks of channels.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.algorithm import GIVEN, IN_BLOCKS, IN_PLAIN, LANES, LAYOUT
from vdla.compiler.graph.rules.blocked_plan import BLOCKED_RANK, PLANE, blocked_plan
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.conv2d import lanes_of
from vdla.compiler.operators.roles import REPACKED


def is_laid_out(call: NodeCall) -> bool:
    """Whether a node asks for a layout or for lanes."""
    return LAYOUT in call.node.attributes or LANES in call.node.attributes


def laid_out_conv(call: NodeCall) -> te.Tensor:
    """The convolution of a node with a layout or lanes.

    Raises:
        DeclinedError: its operands are not constant, or it is in this layout without repacking.
    """
    x, weight, bias = call.tensor(0), call.constant(1, "weight"), call.constant(2, "bias")
    if weight is None or weight.ndim != 4:
        call.decline("have a weight [CO, CI, KH, KW]")
    given, into = x.shape[-1] if len(x.shape) == BLOCKED_RANK else None, call.attribute("lanes", 0) or None
    image, block = _image(call, x, weight, given)
    layout = call.attribute(LAYOUT, GIVEN)
    plan = blocked_plan(
        call.node.attributes,
        (x.shape[0], weight.shape[1] * call.attribute("group", 1), *x.shape[PLANE]),
        weight.shape,
        x.dtype,
        call.target,
        lanes=block,
        into_blocks=into is not None if layout == GIVEN else layout == IN_BLOCKS,
    )
    same = plan.is_blocked == (into is not None) and (into is None or plan.lanes == into)
    if same and image is x and plan.lanes == _usual_lanes(plan):
        call.decline("be in another layout than its image and result")
    added = None if bias is None else call.pack("bias", plan.pack_bias(bias))
    packed = call.pack("weight", plan.pack(weight))
    if same:
        return plan.apply(image, packed, added, call.name())
    return _result(call, plan.apply(image, packed, added, f"{call.name()}_inside"), plan, into)


def _image(call: NodeCall, x: te.Tensor, weight: Array, given: int | None) -> tuple[te.Tensor, int | None]:
    """The image in the layout inside of the kernel, and its lanes, None for a plain one."""
    layout, channels = call.attribute(LAYOUT, GIVEN), weight.shape[1] * call.attribute("group", 1)
    if layout == IN_PLAIN and given is not None:
        return _placed(operators.from_blocked(x, channels, name=f"{call.name()}_plain")), None
    if layout == IN_BLOCKS and given is None:
        lanes = lanes_of(channels, x.dtype, call.target)
        return _placed(operators.to_blocked(x, lanes, name=f"{call.name()}_blocks")), lanes
    return x, given


def _result(call: NodeCall, inside: te.Tensor, plan: operators.ConvolutionPlan, into: int | None) -> te.Tensor:
    """The result in blocks of `into` channels, or plain."""
    channels, whole = plan.weight_shape[0], _placed(inside)
    if into is None:
        return operators.from_blocked(whole, channels, name=call.name())
    plain = operators.from_blocked(whole, channels, name=f"{call.name()}_plain_result") if plan.is_blocked else whole
    return operators.to_blocked(plain, into, name=call.name())


def _usual_lanes(plan: operators.ConvolutionPlan) -> int:
    return replace(plan, weight_lanes=None).lanes


def _placed(image: te.Tensor) -> te.Tensor:
    """An image as a stage of its own."""
    return te.compute(image.shape, lambda *i: image[i], f"{image.name}_repacked", REPACKED)

# SPDX-License-Identifier: Apache-2.0
"""The calls of templates for nodes; a record of an operator names one of these functions.

A dense layer is the 1x1 convolution of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vdla.compiler import templates
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, decline, template_call
from vdla.compiler.graph.machine.packing import Broadcast, Channels, PackedLayout
from vdla.compiler.operators.vdla import Operator
from vdla.compiler.operators.vdla.roles import SECOND

Template = Callable[..., Operator]


def conv(at: MachineNode) -> OperatorCall:
    """A convolution; the host may lay out the windows of an image that is not packed yet."""
    inputs, outputs = (at.shape(name)[1] for name in (at.node.inputs[0], at.node.outputs[0]))
    depthwise = at.node.attributes["group"] == inputs == outputs
    template = templates.depthwise_conv2d if depthwise else templates.conv2d
    packing = "channels" if at.node.inputs[0] in at.made else "auto"  # packed values stay packed
    return _product(at, template, Channels.IMAGE, packing=packing, name="conv2d")


def conv_transpose(at: MachineNode) -> OperatorCall:
    """A transposed convolution."""
    dilations = at.node.attributes["dilations"]
    if set(dilations) != {1}:
        decline(f"have dilations of 1, got {dilations}")
    return _product(at, templates.conv2d_transpose, Channels.IMAGE)


def dense(at: MachineNode) -> OperatorCall:
    """Rows times a constant matrix."""
    return _product(at, templates.conv2d, Channels.ROWS, packing="channels", name="dense")


def _product(at: MachineNode, template: Template, channels: Channels, **options: Any) -> OperatorCall:  # noqa: ANN401
    """A product with its packed weight and scale."""
    data, weight, result = at.activation(at.node.inputs[0], channels), at.weight, at.result(channels)
    constants = {"weight": weight, "bias": at.constant(2)}
    return template_call(
        at, template, (at.node.inputs[0], data), result, constants=constants, kernel=weight.shape[2:], **options
    )


def pool(kind: str) -> Callable[[MachineNode], OperatorCall]:
    """Maxima or averages of windows; `kind` is the template's."""
    return lambda at: _channelwise(at, templates.pool2d, Channels.IMAGE, kind=kind)


def elementwise(template: Template) -> Callable[[MachineNode], OperatorCall]:
    """An operator on the elements of a tensor."""
    return lambda at: _channelwise(at, template, at.channels(at.node.inputs[:1]))


def _channelwise(at: MachineNode, template: Template, channels: Channels, **options: Any) -> OperatorCall:  # noqa: ANN401
    """The call of a template that maps each channel of an activation to itself."""
    data = at.activation(at.node.inputs[0], channels)
    return template_call(at, template, (at.node.inputs[0], data), at.result(channels), **options)


def add(at: MachineNode) -> OperatorCall:
    """The sum of two activations, each in its own scale."""
    names = at.node.inputs[:2]
    result = at.result(at.channels(names))
    data, second = ((name, _operand(at, name, result)) for name in names)
    return template_call(at, templates.residual_add, data, result, operands={SECOND: second})


def _operand(at: MachineNode, name: str, result: PackedLayout) -> PackedLayout:
    """The layout of an operand, which may be smaller than the result."""
    if at.shape(name) == result.shape:
        return at.activation(name, result.channels)
    return replace(result, block=at.config.block_in, conversion=Broadcast())


# --- concatenations -------------------------------------------------------------------------------


def concat(at: MachineNode) -> OperatorCall:
    """Operands computed on the accelerator, joined along their channels."""
    names, config = at.node.inputs, at.config
    for name in names:
        at.shape(name)
        if name not in at.made:
            decline(f"join results of the accelerator, got {name}")
        if names.count(name) > 1:
            decline(f"join each operand once, got {name} twice")
    channels = at.made[names[0]].channels
    result = at.result(channels)
    axis = 1 if channels is Channels.IMAGE else len(result.shape) - 1
    if at.node.attributes["axis"] % len(result.shape) != axis or channels is Channels.MATRICES:
        decline(f"join channels, dimension {axis}, got {at.options['axis']}")
    if result.packed_shape[0] > 1:
        decline(f"have at most {config.batch} images, got {result.image[0]}")
    parts = [at.made[name] for name in names]
    for name, part in zip(names, parts, strict=True):
        if part.channels is not channels or part.block != result.block:
            decline(f"join operands of one layout, got {part.tag} for {name} and {parts[0].tag}")
        if part.image[1] % part.block and name != names[-1]:
            decline(f"join whole blocks of {part.block} channels, got {part.image[1]} of {name}")
    inputs = {f"part{index}": (name, part) for index, (name, part) in enumerate(zip(names, parts, strict=True))}
    return OperatorCall(None, inputs, {}, result)

# SPDX-License-Identifier: Apache-2.0
"""The calls of templates for nodes; a record of an operator names one of these functions.

A dense layer is the 1x1 convolution of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler import templates
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, decline, template_call
from vdla.compiler.graph.machine.packing import Broadcast, Channels, PackedLayout
from vdla.compiler.layer_programs import all_staged, through_stage
from vdla.compiler.map import is_function, stage_table
from vdla.compiler.operators.vdla import Operator, TemplateError, WrittenOperator
from vdla.compiler.operators.vdla.roles import SECOND, TABLE
from vdla.compiler.templates.channel_sections import best_sections
from vdla.compiler.tensorize import IntrinsicError

Template = Callable[..., Operator]


def conv(at: MachineNode) -> OperatorCall:
    """A convolution; the host may lay out the windows of an image that is not packed yet."""
    inputs, outputs = (at.shape(name)[1] for name in (at.node.inputs[0], at.node.outputs[0]))
    depthwise = at.node.attributes["group"] == inputs == outputs
    template = templates.depthwise_conv2d if depthwise else templates.conv2d
    packing = "channels" if at.node.inputs[0] in at.made else "auto"  # packed values stay packed
    groups, blocks = at.node.attributes["group"], (at.config.block_in, at.config.block_out)
    if not depthwise and any(best_sections(groups, inputs // groups, outputs // groups, blocks).gaps):
        weight = _dense(at.weight, groups)
        return _product(at, template, Channels.IMAGE, weight, packing="channels", groups=1, name="conv2d")
    return _product(at, template, Channels.IMAGE, packing=packing, name="conv2d")


def _dense(weight: Array, groups: int) -> Array:
    """The weight of one group that computes the same as several groups do."""
    outputs, inputs, *kernel = weight.shape
    blocks = weight.reshape(groups, outputs // groups, inputs, *kernel)
    whole = np.zeros((groups, outputs // groups, groups, inputs, *kernel), weight.dtype)
    for group in range(groups):
        whole[group, :, group] = blocks[group]
    return whole.reshape(outputs, groups * inputs, *kernel)


def conv_transpose(at: MachineNode) -> OperatorCall:
    """A transposed convolution."""
    dilations = at.node.attributes["dilations"]
    if set(dilations) != {1}:
        decline(f"have dilations of 1, got {dilations}")
    return _product(at, templates.conv2d_transpose, Channels.IMAGE)


def dense(at: MachineNode) -> OperatorCall:
    """Rows times a constant matrix."""
    return _product(at, templates.conv2d, Channels.ROWS, packing="channels", name="dense")


def _product(
    at: MachineNode,
    template: Template,
    channels: Channels,
    weight: Array | None = None,
    **options: Any,  # noqa: ANN401  of any template
) -> OperatorCall:
    """A product with its packed weight and scale."""
    data, result = at.activation(at.node.inputs[0], channels), at.result(channels)
    weight = at.weight if weight is None else weight
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


def mul(at: MachineNode) -> OperatorCall:
    """The product of two activations; one may be a factor for each channel of images."""
    names = at.node.inputs[:2]
    channels = at.channels(names)
    result = at.result(channels)
    zeros = at.options["input_zero_points"]
    shapes = [at.shape(name) for name in names]
    if shapes[0] != result.shape:  # the product is the same in the other order
        names, zeros, shapes = names[::-1], zeros[::-1], shapes[::-1]
    factors = (*result.shape[:2], *(1 for _ in result.shape[2:]))
    by_channel = channels is Channels.IMAGE and shapes == [result.shape, factors] and factors != result.shape
    second = at.activation(names[1], channels) if by_channel else _operand(at, names[1], result)
    data = names[0], _operand(at, names[0], result)
    options = {"by_channel": by_channel, "input_zero_points": zeros}
    return template_call(at, templates.scaling, data, result, operands={SECOND: (names[1], second)}, **options)


def look_up(at: MachineNode) -> OperatorCall:
    """The elements of a table, by a machine that looks results up on their way out."""
    if at.config.stage is None:
        decline("run on a machine that looks results up on their way out, got one without such a stage")
    constants = {TABLE: at.node.attributes[TABLE]}
    return _channelwise(at, templates.rescale, at.channels(at.node.inputs[:1]), table=True, constants=constants)


def looked_up(call: OperatorCall, table: Array) -> OperatorCall | None:
    """The call whose results are looked up in a table on their way out.

    None where its program would read or write other layouts.
    """
    operator = call.operator
    if isinstance(operator, WrittenOperator):
        return _written_looked_up(call, operator, table)
    if not isinstance(operator, Operator) or operator.origin is None:
        return None
    try:
        combined = operator.origin.template(operator.config, **{**operator.origin.options, "table": True})
    except TemplateError:
        return None
    shapes = combined.shapes
    if combined.layouts != operator.layouts or operator.shapes.items() - shapes.items():
        return None
    if TABLE not in shapes and not np.array_equal(stage_table(operator.config), table):
        return None
    looked = {str(TABLE): table.reshape(shapes[TABLE])} if TABLE in shapes else {}
    return replace(call, operator=combined, constants={**call.constants, **looked})


def _written_looked_up(call: OperatorCall, operator: WrittenOperator, table: Array) -> OperatorCall | None:
    """The call of a program that has no template, whose results are looked up."""
    if operator.config.stage is None:
        return None
    if is_function(operator.config):
        if not np.array_equal(stage_table(operator.config), table):
            return None
        try:
            return replace(call, operator=replace(operator, program=all_staged(operator.program)))
        except IntrinsicError:
            return None
    try:
        program = through_stage(operator.program)
    except IntrinsicError:
        return None
    (dims,) = (tensor.shape for tensor in program.tensors if tensor.name == TABLE)
    combined = replace(operator, program=program, cycles=operator.cycles + table.size)
    return replace(call, operator=combined, constants={**call.constants, TABLE: table.reshape(dims)})


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
    return OperatorCall(operator=None, inputs=inputs, constants={}, output=result)

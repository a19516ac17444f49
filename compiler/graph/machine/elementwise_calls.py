# SPDX-License-Identifier: Apache-2.0
"""Pools, additions and operators on single elements on the accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from vdla.compiler import templates
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, decline, made
from vdla.compiler.graph.machine.convolution_calls import image_options
from vdla.compiler.graph.machine.packing import Broadcast, Channels, PackedLayout
from vdla.compiler.operators.vdla import Operator, TemplateError
from vdla.compiler.operators.vdla.roles import TABLE


def pool(kind: str) -> Callable[[MachineNode], OperatorCall]:
    """Maxima or averages of windows; `kind` is the template's."""

    def make(at: MachineNode) -> OperatorCall:
        data, result = at.image(at.node.inputs[0]), at.result(Channels.IMAGE)
        kernel = at.kernel(tuple(at.options["kernel_shape"]))
        options: dict[str, Any] = {} if kind == "max" else {"count_include_pad": bool(at.options["count_include_pad"])}
        options |= at.window(len(data.shape) - 2)
        return _call(at, partial(templates.pool2d, kind=kind, kernel=kernel, **options), data, result)

    return make


def add(at: MachineNode) -> OperatorCall:
    """The sum of two activations, each in its own scale."""
    names = at.node.inputs[:2]
    channels = at.channels(names)
    result = at.result(channels)
    layouts = [_operand(at, name, result) for name in names]
    operator = templates.residual_add(
        at.config,
        **image_options(at, result),
        channels=result.image[1],
        factors=(int(at.options["factors"][0]), int(at.options["factors"][1])),
        input_zero_points=(at.options["a_zero_point"], at.options["b_zero_point"]),
    )
    packed = operator.pack_constants(multiplier=float(at.multiplier[0]))
    inputs = dict(zip(("data", "other"), zip(names, layouts, strict=True), strict=True))
    return made(operator, inputs, packed, result)


def mul(at: MachineNode) -> OperatorCall:
    """The product of two activations; one may be a factor for each channel of images."""
    names = at.node.inputs[:2]
    channels = at.channels(names)
    result = at.result(channels)
    zeros = [at.options["a_zero_point"], at.options["b_zero_point"]]
    shapes = [at.shape(name) for name in names]
    if shapes[0] != result.shape:  # the product is the same in the other order
        names, zeros, shapes = names[::-1], zeros[::-1], shapes[::-1]
    factors = (*result.shape[:2], *(1 for _ in result.shape[2:]))
    by_channel = channels is Channels.IMAGE and shapes == [result.shape, factors] and factors != result.shape
    other = at.activation(names[1], channels) if by_channel else _operand(at, names[1], result)
    operator = templates.scaling(
        at.config,
        **image_options(at, result),
        channels=result.image[1],
        by_channel=by_channel,
        input_zero_points=(zeros[0], zeros[1]),
    )
    packed = operator.pack_constants(multiplier=float(at.multiplier[0]))
    layouts = (_operand(at, names[0], result), other)
    inputs = dict(zip(("data", "other"), zip(names, layouts, strict=True), strict=True))
    return made(operator, inputs, packed, result)


def look_up(at: MachineNode) -> OperatorCall:
    """The elements of a table, by a machine that looks results up on their way out."""
    if at.config.stage is None:
        decline("run on a machine that looks results up on their way out, got one without such a stage")
    channels = at.channels(at.node.inputs[:1])
    data, result = at.activation(at.node.inputs[0], channels), at.result(channels)
    count, channel_count, height, width = data.image
    operator = templates.rescale(at.config, batch=count, height=height, width=width, channels=channel_count, table=True)
    packed = operator.pack_constants(table=at.options["table"])
    return made(operator, {"data": (at.node.inputs[0], data)}, packed, result)


def looked_up(call: OperatorCall, table: Array) -> OperatorCall | None:
    """The call whose results are looked up in a table on their way out.

    None where its program would read or write other layouts.
    """
    operator = call.operator
    if operator is None or operator.origin is None:
        return None
    try:
        found = operator.origin.template(operator.config, **operator.origin.options, table=True)
    except TemplateError:
        return None
    if found.layouts != operator.layouts or call.constants.keys() - found.function.buffers.keys():
        return None
    same = all(found.function.buffers[p].dims == buffer.dims for p, buffer in operator.function.buffers.items())
    dims = found.function.buffers[TABLE].dims
    return replace(call, operator=found, constants={**call.constants, TABLE: table.reshape(dims)}) if same else None


def _operand(at: MachineNode, name: str, result: PackedLayout) -> PackedLayout:
    """The layout of an operand, which may be smaller than the result."""
    if at.shape(name) == result.shape:
        return at.activation(name, result.channels)
    return replace(result, block=at.config.block_in, conversion=Broadcast())


def elementwise(template: Callable[..., Operator], *options: str) -> Callable[[MachineNode], OperatorCall]:
    """An operator on the elements of a tensor; `options` are attributes that the template takes."""

    def make(at: MachineNode) -> OperatorCall:
        channels = at.channels(at.node.inputs[:1])
        data, result = at.activation(at.node.inputs[0], channels), at.result(channels)
        attributes = {name: at.options[name] for name in options}
        return _call(at, partial(template, **attributes), data, result)

    return make


def _call(at: MachineNode, template: Callable[..., Operator], data: PackedLayout, result: PackedLayout) -> OperatorCall:
    """The call of a template that maps each channel of an activation to itself."""
    zero = at.options["x_zero_point"]
    operator = template(at.config, **image_options(at, data), channels=data.image[1], input_zero_point=zero)
    packed = operator.pack_constants(multiplier=float(at.multiplier[0]))
    return made(operator, {"data": (at.node.inputs[0], data)}, packed, result)


# --- concatenations -------------------------------------------------------------------------------


def concat(at: MachineNode) -> OperatorCall:
    """Operands that the accelerator makes, joined along their channels."""
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
    if at.options["axis"] % len(result.shape) != axis or channels is Channels.MATRICES:
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

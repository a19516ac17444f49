# SPDX-License-Identifier: Apache-2.0
"""Convolutions and dense layers, the 1x1 convolutions of rows, on the accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.compiler import templates
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, decline, made
from vdla.compiler.graph.machine.packing import Channels, PackedLayout, Patches
from vdla.compiler.operators.vdla import Operator
from vdla.support.window import Window


def image_options(at: MachineNode, image: PackedLayout) -> dict[str, Any]:
    """The options of a template that reads or writes an image, and those of its results."""
    count, _, height, width = image.image
    return {"batch": count, "height": height, "width": width, **at.results}


def conv(at: MachineNode) -> OperatorCall:
    """A convolution; of an image that is not packed yet, the host may lay out the windows."""
    data, weight, result = at.image(at.node.inputs[0]), at.constant(1), at.result(Channels.IMAGE)
    channels, outputs, group = data.image[1], len(weight), at.options["group"]
    kernel = at.kernel(weight.shape[2:])
    weight = weight.reshape(*weight.shape[:2], *kernel)
    shared = {
        **image_options(at, data),
        **at.window(len(data.shape) - 2),
        "kernel": kernel,
        "input_zero_point": at.options["x_zero_point"],
        "chained": True,
        "name": "conv2d",
    }
    if group == channels == outputs:
        operator = templates.depthwise_conv2d(at.config, channels=channels, **shared)
        return _product(at, operator, data, result, weight)
    extents = {"in_channels": channels, "out_channels": outputs, "groups": group}
    packing = "channels" if at.node.inputs[0] in at.made else "auto"  # what is packed already stays so
    operator = templates.conv2d(at.config, **extents, **shared, packing=packing)
    if any(layout.gaps for layout in operator.layouts.values()):  # of one group, with zeros between the groups
        weight = _dense(weight, group)
        operator = templates.conv2d(at.config, **{**extents, "groups": 1}, **shared, packing="channels")
    if operator.layouts["data"].holds_patches:
        data = _patches(data, kernel, shared, result)
    return _product(at, operator, data, result, weight)


def _dense(weight: Array, groups: int) -> Array:
    """The weight of one group that computes the same as that of several."""
    outputs, inputs, *kernel = weight.shape
    blocks = weight.reshape(groups, outputs // groups, inputs, *kernel)
    whole = np.zeros((groups, outputs // groups, groups, inputs, *kernel), weight.dtype)
    for group in range(groups):
        whole[group, :, group] = blocks[group]
    return whole.reshape(outputs, groups * inputs, *kernel)


def _patches(
    data: PackedLayout, kernel: tuple[int, int], options: Mapping[str, Any], result: PackedLayout
) -> PackedLayout:
    """The layout of the windows of an input, for a template that reads patches."""
    count, channels, *size = data.image
    pads = options["pads"]
    window = Window(
        size=tuple(size),
        taps=kernel,
        strides=options["strides"],
        before=pads[:2],
        after=pads[2:],
        dilations=options["dilations"],
    )
    shape = (count, kernel[0] * kernel[1] * channels, *result.image[2:])
    return replace(data, shape=shape, conversion=Patches(window, options["input_zero_point"]))


def conv_transpose(at: MachineNode) -> OperatorCall:
    """A transposed convolution."""
    data, weight, result = at.image(at.node.inputs[0]), at.constant(1), at.result(Channels.IMAGE)
    rank, options = len(data.shape) - 2, at.options
    window = at.window(rank)
    if set(window.pop("dilations")) != {1}:
        decline(f"have dilations of 1, got {options['dilations']}")
    kernel = at.kernel(weight.shape[2:])
    operator = templates.conv2d_transpose(
        at.config,
        **image_options(at, data),
        **window,
        in_channels=data.image[1],
        out_channels=weight.shape[1] * options["group"],
        kernel=kernel,
        output_padding=(0,) * (2 - rank) + tuple(options["output_padding"]),
        groups=options["group"],
        input_zero_point=options["x_zero_point"],
    )
    return _product(at, operator, data, result, weight.reshape(*weight.shape[:2], *kernel))


def dense(at: MachineNode) -> OperatorCall:
    """Rows times a constant matrix."""
    data, weight, result = at.rows(at.node.inputs[0]), at.constant(1), at.result(Channels.ROWS)
    operator = templates.conv2d(
        at.config,
        **image_options(at, data),
        in_channels=data.image[1],
        out_channels=len(weight),
        kernel=1,
        packing="channels",
        chained=True,
        input_zero_point=at.options["x_zero_point"],
        name="dense",
    )
    return _product(at, operator, data, result, weight[:, :, None, None])


def _product(
    at: MachineNode, operator: Operator, data: PackedLayout, result: PackedLayout, weight: Array
) -> OperatorCall:
    """A product with its packed weight and scale."""
    multiplier = np.broadcast_to(at.multiplier, (result.image[1],))
    packed = operator.pack_constants(weight, bias=at.constant(2), multiplier=multiplier)
    return made(operator, {"data": (at.node.inputs[0], data)}, packed, result)

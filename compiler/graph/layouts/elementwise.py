# SPDX-License-Identifier: Apache-2.0
"""Layout rules of operators that follow their inputs: element-wise ones and concatenations.

They cost the same in every layout. Padding channels hold arbitrary values, so the rules accept
floats only: a division of integers by zero would trap.
"""

from __future__ import annotations

from math import prod

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall
from vdla.compiler.ir import is_float

_CHANNELS = 1  # the dimension of channels, or of their blocks
_RANK = 4


def follow_inputs(call: LayoutCall) -> BlockedForm | None:
    """The rule of functions of floats, element by element."""
    result = call.image(call.node.outputs[0])
    return elementwise_form(call) if result is not None and is_float(result.dtype) else None


def elementwise_form(call: LayoutCall) -> BlockedForm | None:
    """Inputs with the channels of the result are read in blocks, constants are repacked.

    Inputs of one element are read as they are.
    """
    graph, node, y = call.graph, call.node, call.node.outputs[0]
    result = graph.tensor(y)
    reads, constants = set(), {}
    for index, name in enumerate(node.inputs):
        known = graph.constant(name)
        if known is not None and known.size > 1:
            constants[index] = constant_in_blocks(known, result.extents[1], call.lanes(y))
        elif known is None and name and not _is_one_number(call, name):
            source = call.image(name)
            if source is None or source.dtype != result.dtype or source.extents[1] != result.extents[1]:
                return None
            reads.add(index)
    return BlockedForm(reads=frozenset(reads), constants=constants) if reads else None


def follow_int8_inputs(call: LayoutCall) -> BlockedForm | None:
    """The rule of integer operators on int8 numbers, element by element."""
    result = call.image(call.node.outputs[0])
    return elementwise_form(call) if result is not None and result.dtype == "int8" else None


def _is_one_number(call: LayoutCall, name: str) -> bool:
    """Whether a value has one element and fewer dimensions than an image."""
    kind = call.graph.types.get(name)
    return isinstance(kind, TensorType) and kind.static and len(kind.extents) < _RANK and prod(kind.extents) == 1


def constant_in_blocks(value: Array, channels: int, lanes: int) -> Array:
    """A constant that broadcasts to [N, channels, H, W], repacked to broadcast to its blocks.

    Padding channels are 1, so that no operator computes denormals from them.
    """
    image = value.reshape((1,) * (_RANK - value.ndim) + value.shape)
    if image.shape[1] == 1:
        return np.ascontiguousarray(image[..., None])
    assert image.shape[1] == channels
    whole = np.pad(image, [(0, 0), (0, -channels % lanes), (0, 0), (0, 0)], constant_values=1)
    blocks = whole.reshape(len(image), -1, lanes, *image.shape[2:])
    return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2))


def concat(call: LayoutCall) -> BlockedForm | None:
    """Along channels, whole blocks only."""
    node, y = call.node, call.node.outputs[0]
    axis = node.attributes["axis"] % _RANK
    images = [call.image(name) for name in (*node.inputs, y)]
    if None in images or any(name in call.graph.constants for name in node.inputs):
        return None
    lanes = call.lanes(y)
    if any(call.lanes(name) != lanes for name in node.inputs):
        return None
    if axis == _CHANNELS and any(image.extents[1] % lanes for image in images if image is not None):
        return None
    return BlockedForm(reads=frozenset(range(len(node.inputs))))


# --- operators that move pixels, not channels -----------------------------------------------------


_CROPS = "tf_crop_and_resize"


def pad(call: LayoutCall) -> BlockedForm | None:
    """Padding of pixels by constant amounts."""
    pads = _constant(call, 1)
    axes = len(call.node.inputs) > 3 and call.node.inputs[3]
    if not _keeps_channels(call) or pads is None or axes or pads[1] or pads[1 + _RANK]:
        return None
    return BlockedForm(reads=frozenset({0}))


def resize(call: LayoutCall) -> BlockedForm | None:
    """Resizing by constant scales or to constant sizes of all dimensions."""
    attributes = call.node.attributes
    crops = attributes.get("coordinate_transformation_mode", "half_pixel") == _CROPS
    stretches = attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if not _keeps_channels(call) or crops or not stretches or "axes" in attributes:
        return None
    scales, sizes = _constant(call, 2), _constant(call, 3)
    is_constant = sizes is not None or (scales is not None and scales.size == _RANK)
    return BlockedForm(reads=frozenset({0})) if is_constant else None


def _keeps_channels(call: LayoutCall) -> bool:
    """Whether the first input and the result are images of floats with as many channels."""
    source, result = call.image(call.node.inputs[0]), call.image(call.node.outputs[0])
    if source is None or result is None or not is_float(source.dtype):
        return False
    return source.extents[1] == result.extents[1]


def _constant(call: LayoutCall, index: int) -> Array | None:
    """A constant input; None for others and for absent ones."""
    names = call.node.inputs
    return call.graph.constant(names[index]) if index < len(names) else None

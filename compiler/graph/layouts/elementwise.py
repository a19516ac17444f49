"""Layout rules of operators that follow their inputs: element-wise ones and concatenations.

They cost the same in every layout. Padding channels get any values, so that only floats are taken:
a division of integers by zero would trap.
"""

from __future__ import annotations

from dataclasses import replace
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
    return BlockedForm(node=node, reads=frozenset(reads), constants=constants) if reads else None


def _is_one_number(call: LayoutCall, name: str) -> bool:
    """Whether a value has one element and fewer dimensions than an image."""
    kind = call.graph.types.get(name)
    return isinstance(kind, TensorType) and kind.static and len(kind.extents) < _RANK and prod(kind.extents) == 1


def constant_in_blocks(value: Array, channels: int, lanes: int) -> Array:
    """A constant that broadcasts to [N, channels, H, W] as one that broadcasts to its blocks.

    Padding channels are 1, so that no operator makes slow numbers of them.
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
    form = replace(node, attributes={**node.attributes, "axis": axis})
    return BlockedForm(node=form, reads=frozenset(range(len(node.inputs))))

"""Layout rules of operators on floats that move pixels, not channels: padding, resizing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall
from vdla.compiler.ir import is_float

_RANK = 4
_CROPS = "tf_crop_and_resize"


def pad(call: LayoutCall) -> BlockedForm | None:
    """Padding of pixels by constant amounts."""
    node, pads = call.node, _constant(call, 1)
    axes = len(call.node.inputs) > 3 and call.node.inputs[3]
    if not _keeps_channels(call) or pads is None or axes or pads[1] or pads[1 + _RANK]:
        return None
    around = np.array([*pads[:_RANK], 0, *pads[_RANK:], 0], np.int64)
    return BlockedForm(node, reads=frozenset({0}), constants={1: around})


def resize(call: LayoutCall) -> BlockedForm | None:
    """Resizing by constant scales or to constant sizes of all dimensions."""
    node, attributes = call.node, call.node.attributes
    crops = attributes.get("coordinate_transformation_mode", "half_pixel") == _CROPS
    stretches = attributes.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    if not _keeps_channels(call) or crops or not stretches or "axes" in attributes:
        return None
    scales, sizes = _constant(call, 2), _constant(call, 3)
    inputs = (*node.inputs[:1], "", *node.inputs[2:])  # without the region of crops
    form = replace(node, inputs=inputs)
    if scales is not None and scales.size == _RANK:
        return BlockedForm(form, reads=frozenset({0}), constants={2: np.append(scales, np.float32(1))})
    if sizes is not None:
        kind = call.in_blocks(node.outputs[0])
        return BlockedForm(form, reads=frozenset({0}), constants={3: np.array(kind.extents, np.int64)})
    return None


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

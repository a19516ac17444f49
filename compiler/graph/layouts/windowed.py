# SPDX-License-Identifier: Apache-2.0
"""Layout rules of convolutions and pools, of floats and of int8 images.

A plain convolution reorders channels inside its kernel, at the cost of about one pass over its
result, and over its input if the kernel reads blocks. A plain pool gathers the elements of a vector
one by one; in blocks, padding channels are pooled as well, but never read.
"""

from __future__ import annotations

from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall
from vdla.compiler.graph.rules.convolutions import convolution_plan
from vdla.compiler.graph.rules.requantise import EXACT_SUM, greatest_sum
from vdla.compiler.graph.rules.transposed import may_have_phases


def conv(call: LayoutCall) -> BlockedForm | None:
    """Direct convolutions read either layout alike; Winograd's and depthwise ones read blocks.
    Several groups read whole blocks only.
    """
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    constant = all(name in call.graph.constants for name in node.inputs[1:] if name)
    if not constant or not call.are_images(x, y):
        return None
    weight, groups = call.graph.constants[node.inputs[1]], node.attributes.get("group", 1)
    outputs = len(weight) // groups
    is_depthwise = groups > 1 and outputs == weight.shape[1] == 1
    if groups > 1 and not is_depthwise and outputs % call.lanes(y):
        return None
    if is_depthwise or not _is_direct(call, weight.shape):
        return BlockedForm(reads=frozenset({0}), gain_bytes=call.nbytes(x, y))
    if groups > 1 and call.graph.tensor(x).extents[1] % call.lanes(x):
        return BlockedForm(gain_bytes=call.nbytes(y))
    return BlockedForm(reads_either=frozenset({0}), gain_bytes=call.nbytes(y), is_plain_reader=True)


def _is_direct(call: LayoutCall, weight_shape: tuple[int, ...]) -> bool:
    """Whether the convolution of an image in blocks into blocks is a direct one."""
    x = call.node.inputs[0]
    image, lanes = call.graph.tensor(x), call.lanes(x)
    plan = convolution_plan(call.node, image, weight_shape, call.target, lanes=lanes, into_blocks=True)
    return plan.algorithm == "direct"


def qconv(call: LayoutCall) -> BlockedForm | None:
    """Convolutions of one group read either layout, depthwise convolutions read blocks."""
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    weight, bias = (call.graph.constant(name) for name in node.inputs[1:])
    if not call.are_images(x, y) or weight is None or bias is None:
        return None
    groups = node.attributes["group"]
    is_depthwise = groups == len(weight) and weight.shape[1] == 1
    if (groups > 1 and not is_depthwise) or greatest_sum(weight, bias, node.attributes["x_zero_point"]) > EXACT_SUM:
        return None
    if groups > 1:
        return BlockedForm(reads=frozenset({0}), gain_bytes=call.nbytes(x, y))
    return BlockedForm(reads_either=frozenset({0}), gain_bytes=call.nbytes(y))


def qconv_transpose(call: LayoutCall) -> BlockedForm | None:
    """Convolutions of one group read either layout."""
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    weight, bias = (call.graph.constant(name) for name in node.inputs[1:])
    if not call.are_images(x, y) or weight is None or bias is None:
        return None
    if not may_have_phases(weight, bias, node.attributes):
        return None
    return BlockedForm(reads_either=frozenset({0}), gain_bytes=call.nbytes(y))


# --- pools ----------------------------------------------------------------------------------------


def pool(call: LayoutCall) -> BlockedForm | None:
    """A pool with windows and one result."""
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    if any(node.outputs[1:]) or not call.are_images(x, y) or call.lanes(x) != call.lanes(y):
        return None
    return BlockedForm(reads=frozenset({0}), gain_bytes=call.nbytes(x, y))


def global_average_pool(call: LayoutCall) -> BlockedForm | None:
    """The mean of each channel, a plain image of one pixel."""
    if not call.are_images(call.node.inputs[0], call.node.outputs[0]):
        return None
    return BlockedForm(reads=frozenset({0}), writes_blocks=False)


def qaverage_pool(call: LayoutCall) -> BlockedForm | None:
    """The mean of whole images is a plain image of one pixel."""
    attributes, source = call.node.attributes, call.image(call.node.inputs[0])
    if source is None or attributes["kernel_shape"] != source.extents[2:] or any(attributes["pads"]):
        return pool(call)
    if "fixed_point" in attributes:
        return None
    return BlockedForm(reads=frozenset({0}), writes_blocks=False)

"""Layout rules of integer operators on int8 images.

In blocks their elements have the type that the target's dot products read: int8, or uint8 that
stand for int8 numbers plus 128. The attributes of nodes are those of the int8 numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler.graph.graph import Node
from vdla.compiler.graph.layouts.elementwise import elementwise_form
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall, LayoutRule
from vdla.compiler.graph.rules.integer_transposed import may_have_phases
from vdla.compiler.graph.rules.requantise import EXACT_SUM, greatest_sum

_OPERATORS = ("vdla.QAdd", "vdla.QLeakyRelu", "vdla.QMul", "vdla.QRescale", "vdla.QTable")


def _conv(call: LayoutCall) -> BlockedForm | None:
    """Convolutions of one group read either layout, depthwise ones blocks.

    A plain convolution pays for the order of channels inside of its kernel: by about a pass over
    its result, and over its input where that is wanted in blocks.
    """
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    weight, bias = (call.graph.constant(name) for name in node.inputs[1:])
    if call.image(x) is None or call.image(y) is None or weight is None or bias is None:
        return None
    groups = node.attributes["group"]
    is_depthwise = groups == len(weight) and weight.shape[1] == 1
    if (groups > 1 and not is_depthwise) or greatest_sum(weight, bias, node.attributes["x_zero_point"]) > EXACT_SUM:
        return None
    form = _into_blocks(call, "vdla.BlockedQConv")
    if groups > 1:
        return BlockedForm(form, reads=frozenset({0}), gain_bytes=call.nbytes(x, y))
    return BlockedForm(form, reads_either=frozenset({0}), gain_bytes=call.nbytes(y))


def _conv_transpose(call: LayoutCall) -> BlockedForm | None:
    """Those of one group read either layout."""
    node, y = call.node, call.node.outputs[0]
    weight, bias = (call.graph.constant(name) for name in node.inputs[1:])
    if call.image(node.inputs[0]) is None or call.image(y) is None or weight is None or bias is None:
        return None
    if not may_have_phases(weight, bias, node.attributes):
        return None
    form = _into_blocks(call, "vdla.BlockedQConvTranspose")
    return BlockedForm(form, reads_either=frozenset({0}), gain_bytes=call.nbytes(y))


def _into_blocks(call: LayoutCall, op: str) -> Node:
    """The node with a result in blocks."""
    y = call.node.outputs[0]
    added = {"lanes": call.lanes(y), "dtype": call.in_blocks(y).dtype}
    return replace(call.node, op=op, attributes={**call.node.attributes, **added})


def _elementwise(call: LayoutCall) -> BlockedForm | None:
    result = call.image(call.node.outputs[0])
    return elementwise_form(call) if result is not None and result.dtype == "int8" else None


def _max_pool(call: LayoutCall) -> BlockedForm | None:
    """A plain pool gathers the elements of a vector one by one."""
    return _pool(call, "vdla.BlockedQMaxPool")


def _average_pool(call: LayoutCall) -> BlockedForm | None:
    """The mean of whole images is a plain image of one pixel."""
    node, x = call.node, call.node.inputs[0]
    source = call.image(x)
    if source is None or node.attributes["kernel_shape"] != source.extents[2:] or any(node.attributes["pads"]):
        return _pool(call, "vdla.BlockedQAveragePool")
    attributes = {**node.attributes, "channels": source.extents[1]}
    form = replace(node, op="vdla.BlockedQGlobalAveragePool", attributes=attributes)
    return BlockedForm(form, reads=frozenset({0}), writes_blocks=False)


def _pool(call: LayoutCall, op: str) -> BlockedForm | None:
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    if call.image(x) is None or call.image(y) is None:
        return None
    return BlockedForm(replace(node, op=op), reads=frozenset({0}), gain_bytes=call.nbytes(x, y))


INTEGERS: Mapping[str, LayoutRule] = {
    "vdla.QAveragePool": _average_pool,
    "vdla.QConv": _conv,
    "vdla.QConvTranspose": _conv_transpose,
    "vdla.QMaxPool": _max_pool,
    **dict.fromkeys(_OPERATORS, _elementwise),
}

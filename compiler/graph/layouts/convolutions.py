"""Layout rules of convolutions with constant weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler.graph.graph import Node
from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall, LayoutRule
from vdla.compiler.graph.rules.blocked_plan import blocked_plan


def _conv(call: LayoutCall) -> BlockedForm | None:
    """Direct convolutions read either layout alike; Winograd's and depthwise ones read blocks.
    Several groups read whole blocks only.

    A plain convolution pays for the order of channels inside of its kernel: by about a pass over
    its result, and over its input where that is wanted in blocks.
    """
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    constant = all(name in call.graph.constants for name in node.inputs[1:] if name)
    if not constant or call.image(x) is None or call.image(y) is None:
        return None
    weight, groups = call.graph.constants[node.inputs[1]], node.attributes.get("group", 1)
    lanes, outputs = call.lanes(y), len(weight) // groups
    is_depthwise = groups > 1 and outputs == weight.shape[1] == 1
    if groups > 1 and not is_depthwise and outputs % lanes:
        return None
    form = replace(node, op="vdla.BlockedConv", attributes={**node.attributes, "lanes": lanes})
    if is_depthwise or not _is_direct(call, form, weight.shape):
        return BlockedForm(form, reads=frozenset({0}), gain_bytes=call.nbytes(x, y))
    if groups > 1 and call.graph.tensor(x).extents[1] % call.lanes(x):
        return BlockedForm(form, gain_bytes=call.nbytes(y))
    plain = replace(node, op="vdla.BlockedConv")
    return BlockedForm(form, reads_either=frozenset({0}), gain_bytes=call.nbytes(y), plain_node=plain)


def _is_direct(call: LayoutCall, form: Node, weight_shape: tuple[int, ...]) -> bool:
    """Whether the convolution of an image in blocks into blocks is a direct one."""
    image = call.graph.tensor(form.inputs[0])
    lanes = call.lanes(form.inputs[0])
    plan = blocked_plan(
        form.attributes, image.extents, weight_shape, image.dtype, call.target, lanes=lanes, into_blocks=True
    )
    return plan.algorithm == "direct"


CONVOLUTIONS: Mapping[str, LayoutRule] = {"Conv": _conv}

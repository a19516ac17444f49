"""Layout rules of pools; padding channels are pooled as well, and read by nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall, LayoutRule


def _pool(call: LayoutCall) -> BlockedForm | None:
    """A pool with windows; a plain one gathers the elements of a vector one by one."""
    node, (x, y) = call.node, (call.node.inputs[0], call.node.outputs[0])
    one_result = not any(node.outputs[1:])
    if not one_result or call.image(x) is None or call.image(y) is None or call.lanes(x) != call.lanes(y):
        return None
    form = replace(node, op=f"vdla.Blocked{node.op}", outputs=(y,))
    return BlockedForm(node=form, reads=frozenset({0}), gain_bytes=call.nbytes(x, y))


def _global_average_pool(call: LayoutCall) -> BlockedForm | None:
    """The mean of each channel, a plain image of one pixel."""
    node, x = call.node, call.node.inputs[0]
    source = call.image(x)
    if source is None or call.image(node.outputs[0]) is None:
        return None
    form = replace(node, op="vdla.BlockedGlobalAveragePool", attributes={"channels": source.extents[1]})
    return BlockedForm(node=form, reads=frozenset({0}), writes_blocks=False)


POOLS: Mapping[str, LayoutRule] = {
    "AveragePool": _pool,
    "GlobalAveragePool": _global_average_pool,
    "MaxPool": _pool,
}

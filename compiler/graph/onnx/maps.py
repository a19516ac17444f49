"""Classifiers whose probabilities end in a ZipMap: a list of maps from class to probability.

The maps repeat a tensor with one column a class, which takes their place, as in a model that was
converted with `zipmap=False`.
"""

from __future__ import annotations

import warnings

from onnx import GraphProto

from vdla.compiler.graph.onnx.errors import OnnxWarning


def unwrap_maps(graph: GraphProto, place: str) -> None:
    """Replaces each ZipMap whose result is only an output of the graph, and warns of it."""
    read = {name for node in graph.node for name in node.input}
    outputs = {value.name: value for value in graph.output}
    for node in graph.node:
        name = next(iter(node.output), "")
        if (node.domain, node.op_type) != ("ai.onnx.ml", "ZipMap") or name in read or name not in outputs:
            continue
        node.op_type, node.domain = "Identity", ""
        del node.attribute[:]
        outputs[name].ClearField("type")
        for value in [value for value in graph.value_info if value.name == name]:
            graph.value_info.remove(value)
        made = "it is the tensor with one column a class, as after a conversion with zipmap=False"
        warnings.warn(f"{place}: output {name} must be a tensor, got the maps of a ZipMap; {made}", OnnxWarning, 2)

# SPDX-License-Identifier: Apache-2.0
"""Reading nodes: attributes, and single operators run by ONNX's own reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from helpers.integer_evaluator.quantised import Array


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes by name; strings are bytes."""
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}


def run_node(node: onnx.NodeProto, inputs: Sequence[Array | None], opsets: Mapping[str, int]) -> list[Array]:
    """The results of one node, as ONNX's reference computes them in the dtypes of the inputs."""
    given = {name: array for name, array in zip(node.input, inputs, strict=True) if array is not None}
    graph = helper.make_graph(
        [node],
        "node",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), None)
            for name, array in given.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    with np.errstate(over="ignore", invalid="ignore"):  # of elements that its Sigmoid then drops
        return list(ReferenceEvaluator(model).run(None, given))

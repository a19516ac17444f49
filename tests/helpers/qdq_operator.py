# SPDX-License-Identifier: Apache-2.0
"""Graphs of one quantised operator, written out node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
OPSET = 21


def scalar(value: float) -> Array:
    return np.array(value, np.float32)


def qdq_operator(
    operators: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[Array, Array, Array]],
    result: tuple[Array, Array],
    constants: Mapping[str, Array] | None = None,
    axes: Mapping[str, int] | None = None,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """Operators that read `inputs` dequantised and end in `y`, quantised to `q` with `result`.

    `inputs`: name -> integers, scale, zero point; `result`: scale, zero point.
    """
    nodes, arrays = [], dict(constants or {})
    for name, (values, scale, zero_point) in inputs.items():
        arrays |= {f"{name}_q": values, f"{name}_s": scale, f"{name}_z": zero_point}
        axis = {"axis": axes[name]} if axes and name in axes else {}
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_{key}" for key in "qsz"], [name], **axis))
    arrays |= {"y_s": result[0], "y_z": result[1]}
    nodes += [*operators, helper.make_node("QuantizeLinear", ["y", "y_s", "y_z"], ["q"])]
    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    outputs = [helper.make_empty_tensor_value_info("q")]
    graph = helper.make_graph(nodes, "operator", [], outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)

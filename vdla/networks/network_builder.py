# SPDX-License-Identifier: Apache-2.0
"""`NetworkBuilder`: nodes and constants of an ONNX model in the order in which they are added.

The result of a node has the name of the node. `random` draws all weights, so the order of calls is
part of what a seed means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.support.arrays import Array

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

OPSET = 26
"""The newest version of ONNX's operators that ONNX Runtime 1.31 runs."""
IR_VERSION = 13
"""The version of ONNX's file format that belongs to OPSET."""

Dimension = int | str
"""An extent, or the name of a symbolic one."""


class NetworkBuilder:
    """Collects the nodes of one network."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = np.random.default_rng([seed, *name.encode()])
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: list[Any] = []

    def input(self, name: str, shape: Sequence[Dimension], dtype: str = "float32") -> str:
        """Declare an input of the network."""
        self._inputs.append(_value_info(name, shape, dtype))
        return name

    def constant(self, name: str, values: Array) -> str:
        """Add an initialiser."""
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:  # noqa: ANN401
        """Add a node with one result; the name of the result."""
        return self.nodes(operator, inputs, name, [name], **attributes)

    def nodes(self, operator: str, inputs: Sequence[str], name: str, outputs: Sequence[str], **attributes: Any) -> str:  # noqa: ANN401
        """Add a node with named results, "" for those left out; the name of the first."""
        from onnx import helper

        self._nodes.append(helper.make_node(operator, list(inputs), list(outputs), name=name, **attributes))
        return outputs[0]

    def normal(self, shape: Sequence[int], scale: float) -> NDArray[np.float32]:
        """Normally distributed float32 values with standard deviation `scale`."""
        return self.random.standard_normal(tuple(shape), np.float32) * np.float32(scale)

    def uniform(self, low: float, high: float, shape: Sequence[int]) -> NDArray[np.float32]:
        """Uniformly distributed float32 values."""
        return np.float32(low) + np.float32(high - low) * self.random.random(tuple(shape), np.float32)

    def model(self, outputs: Mapping[str, Sequence[Dimension]], dtype: str = "float32") -> ModelProto:
        """The checked model; `outputs`: tensor -> shape, all of one type."""
        from onnx import checker, helper

        infos = [_value_info(name, shape, dtype) for name, shape in outputs.items()]
        graph = helper.make_graph(self._nodes, self.name, self._inputs, infos, self._constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="vdla")
        checker.check_model(model)
        return model


def _value_info(name: str, shape: Sequence[Dimension], dtype: str) -> Any:  # noqa: ANN401  ONNX has no types
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))

# SPDX-License-Identifier: Apache-2.0
"""Small QDQ graphs, written node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.runtime.network.evaluate_nodes import evaluate_node
from vdla.runtime.numpy_operators import FUNCTIONS


class QdqBuilder:
    """A graph whose inputs are quantised; every method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.types: dict[str, TensorType] = {}
        self.inputs: list[str] = []

    def input(self, name: str, shape: tuple[int, ...], dtype: str = "int8") -> str:
        self.inputs.append(name)
        self.types[name] = TensorType(dtype, shape)
        return name

    def constant(self, value: Any, name: str = "") -> str:
        array = np.asarray(value)
        name = name or f"c{len(self.constants)}"
        self.constants[name] = array
        self.types[name] = TensorType(array.dtype.name, array.shape)
        return name

    def add(
        self, op: str, *inputs: str, shape: tuple[int, ...] | None = None, dtype: str = "float32", **options: Any
    ) -> str:
        name = options.pop("result", f"v{len(self.nodes)}")
        self.types[name] = TensorType(dtype, self.types[inputs[0]].shape if shape is None else shape)
        self.nodes.append(Node(op, inputs, (name,), options, name))
        return name

    def dequantise(self, x: str, scale: Any, zero_point: Any = 0, axis: int = 1) -> str:
        zero = np.broadcast_to(np.asarray(zero_point, self.types[x].dtype), np.shape(scale))
        parameters = self.constant(np.asarray(scale, np.float32)), self.constant(np.array(zero))
        return self.add("DequantizeLinear", x, *parameters, axis=axis)

    def quantise(self, x: str, scale: float, zero_point: int = 0, dtype: str = "int8", result: str = "y") -> str:
        parameters = self.constant(np.float32(scale)), self.constant(np.array(zero_point, dtype))
        return self.add("QuantizeLinear", x, *parameters, dtype=dtype, result=result)

    def graph(self, *outputs: str) -> Graph:
        made = Graph("qdq", tuple(self.inputs), outputs, tuple(self.nodes), self.constants, self.types)
        return check_graph(made)


def run(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a graph."""
    state = every_value(graph, inputs)
    return {name: state[name] for name in graph.outputs}


def every_value(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All values: quantisation as written below, integer operators by their definitions."""
    state = {**graph.constants, **inputs}
    for node in graph.nodes:
        operands = [state[name] if name else None for name in node.inputs]
        state.update(zip(node.outputs, _results(graph, node, operands), strict=True))
    return state


def _results(graph: Graph, node: Node, operands: list[Any]) -> Sequence[np.ndarray]:
    if node.op in _FEW:
        return [_FEW[node.op](node, operands)]
    if node.op in FUNCTIONS:
        return FUNCTIONS[node.op](node.attributes, *operands)
    return evaluate_node(node, operands, types=[graph.types[name] for name in node.outputs])


def _limited(node: Node, values: list[np.ndarray]) -> np.ndarray:
    x, scale, zero = values
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + zero, info.min, info.max).astype(zero.dtype)


def _real(node: Node, values: list[np.ndarray]) -> np.ndarray:
    x, scale, zero = values if len(values) > 2 else (*values, np.int32(0))
    sides = [-1 if scale.ndim and d == node.attributes.get("axis", 1) % x.ndim else 1 for d in range(x.ndim)]
    if scale.size > 1:
        scale, zero = scale.reshape(sides), zero.reshape(sides)
    return ((x.astype(np.int64) - zero) * scale).astype(np.float32)


_FEW = {
    "QuantizeLinear": _limited,
    "DequantizeLinear": _real,
    "Reshape": lambda node, values: values[0].reshape(values[1]),
    "Transpose": lambda node, values: values[0].transpose(node.attributes["perm"]),
    "Concat": lambda node, values: np.concatenate(values, node.attributes["axis"]),
    "Flatten": lambda node, values: values[0].reshape(len(values[0]), -1),
    "Sigmoid": lambda node, values: (1 / (1 + np.exp(-values[0]))).astype(np.float32),
    "Mul": lambda node, values: values[0] * values[1],
}

# SPDX-License-Identifier: Apache-2.0
"""`Tensors`: what is known of the tensors of a graph while it is walked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.integer_evaluator.nodes import run_node
from helpers.integer_evaluator.operators import Operand, Uncomputed
from helpers.integer_evaluator.quantised import Array, Quantised


@dataclass(frozen=True, slots=True)
class Tensors:
    """`arrays` are computed tensors, `dequantised` those of DequantizeLinear.

    Other float tensors are computed when something asks for them. `readers` counts the nodes and
    graph outputs that read a tensor.
    """

    arrays: dict[str, Array]
    dequantised: dict[str, Quantised]
    producers: Mapping[str, onnx.NodeProto]
    readers: Mapping[str, int]
    constants: frozenset[str]
    opsets: Mapping[str, int]

    @staticmethod
    def of(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> Tensors:
        """Constants and inputs."""
        graph = model.graph
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        readers = Counter(name for node in graph.node for name in node.input if name)
        readers.update(info.name for info in graph.output)
        return Tensors(
            arrays=constants | {name: np.asarray(array) for name, array in inputs.items()},
            dequantised={},
            producers={name: node for node in graph.node for name in node.output if name},
            readers=readers,
            constants=frozenset(constants),
            opsets={entry.domain: entry.version for entry in model.opset_import},
        )

    def operand(self, name: str) -> Operand:
        """None for an operand that is left out; nothing is computed."""
        if not name:
            return None
        return self.dequantised.get(name, self.arrays.get(name, Uncomputed()))

    def array(self, name: str) -> Array:
        """A tensor in its own dtype; computed if it is not there yet."""
        if name in self.arrays:
            return self.arrays[name]
        if name in self.dequantised:
            return self.dequantised[name].real
        self.compute(self.producers[name])
        return self.arrays[name]

    def optional(self, name: str) -> Array | None:
        """None for an operand that is left out."""
        return self.array(name) if name else None

    def compute(self, node: onnx.NodeProto) -> None:
        """All results of a node, as ONNX's reference computes them."""
        results = run_node(node, [self.optional(name) for name in node.input], self.opsets)
        names = [name for name in node.output if name]
        self.arrays.update(zip(names, (np.asarray(result) for result in results), strict=True))

    def is_constant(self, name: str) -> bool:
        """Whether a tensor is a constant, or one dequantised."""
        node = self.producers.get(name)
        source = node.input[0] if node is not None and node.op_type == "DequantizeLinear" else name
        return source in self.constants

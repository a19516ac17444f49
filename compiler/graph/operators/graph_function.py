# SPDX-License-Identifier: Apache-2.0
"""A graph as one function of the loop-nest IR: the expressions of its nodes, stage after stage.

Names in the function depend on positions only, so that equal groups of nodes in a network have
equal functions, which are compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vdla.compiler import ir, operators, te
from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.operators.table import RECORDS
from vdla.compiler.graph.rules.rule import DeclinedError, NodeCall
from vdla.compiler.target import Target
from vdla.compiler.te.create_function import dependence_order
from vdla.support.errors import Error


@dataclass(frozen=True, eq=False)
class GraphFunction:
    """A function and the meaning of its parameters, in order: inputs, constants, outputs.

    `inputs` and `outputs` are values of the graph, without inputs that no expression reads.
    `constants` are arrays by the name of their parameter.
    """

    function: ir.Function
    inputs: tuple[str, ...]
    constants: Mapping[str, Array]
    outputs: tuple[str, ...]


def graph_function(graph: Graph, target: Target, name: str = "kernel") -> GraphFunction:
    """The function of a graph of static shapes without bodies.

    Raises:
        DeclinedError: a node without a tensor expression.
        GraphError: an input or output that is no tensor of known extents.
    """
    building = _Building(graph, target)
    for node in graph.nodes:
        building.add(node)
    return building.function(name)


class _Building:
    """The tensors of the values of a graph, for the nodes added so far."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.packed: dict[te.Tensor, Array] = {}
        self.names = {name: f"x{i}" for i, name in enumerate(graph.inputs)}
        self.names |= {name: f"c{i}" for i, name in enumerate(graph.constants)}
        results = [name for node in graph.nodes for name in node.outputs if name]
        self.names |= {name: f"t{i}" for i, name in enumerate(results)}
        given = (*graph.inputs, *graph.constants)
        self.tensors = {name: self._placeholder(name) for name in given}

    def _placeholder(self, name: str) -> te.Tensor:
        kind = self.graph.tensor(name)
        if not kind.static or kind.dtype not in ir.DTYPES:
            raise GraphError(
                f"graph {self.graph.name}: {name} must have known extents and a kernel's dtype, got {kind}"
            )
        return te.placeholder(kind.array_shape or (1,), kind.dtype, self.names[name])

    def add(self, node: Node) -> None:
        """Applies the rule of a node."""
        renamed = replace(
            node,
            inputs=tuple(self.names.get(name, "") for name in node.inputs),
            outputs=tuple(self.names.get(name, "") for name in node.outputs),
            name=node.name or next(filter(None, node.outputs), ""),
        )
        call = NodeCall(
            node=renamed,
            tensors=tuple(self.tensors.get(name) for name in node.inputs),
            constants=tuple(self.graph.constant(name) for name in node.inputs),
            types=tuple(self._type(name) for name in node.outputs),
            target=self.target,
            input_types=tuple(self._type(name) for name in node.inputs),
        )
        for name, tensor in zip(node.outputs, expressions(call), strict=False):
            if name:
                self.tensors[name] = tensor
        self.packed.update(call.packed)

    def _type(self, name: str) -> TensorType | None:
        return self.graph.tensor(name) if name else None

    def function(self, name: str) -> GraphFunction:
        """The function of the added nodes, without unused inputs."""
        results = self._results()
        read = _read_placeholders(results)
        inputs = [name for name in self.graph.inputs if self.tensors[name] in read]
        constants = {self.tensors[name]: value for name, value in self.graph.constants.items()} | self.packed
        constants = {tensor: value for tensor, value in constants.items() if tensor in read}
        given = [*(self.tensors[name] for name in inputs), *constants]
        return GraphFunction(
            function=te.create_function(given, results, name),
            inputs=tuple(inputs),
            constants={
                tensor.name: value.astype(ir.storage_dtype(tensor.dtype)) for tensor, value in constants.items()
            },
            outputs=self.graph.outputs,
        )

    def _results(self) -> list[te.Tensor]:
        """The outputs, one stage for each."""
        results: list[te.Tensor] = []
        for index, name in enumerate(self.graph.outputs):
            tensor = self.tensors[name]
            shared = tensor.stage is None or any(tensor is result for result in results)
            results.append(operators.identity(tensor, name=f"copy{index}") if shared else tensor)
        return results


def _read_placeholders(results: list[te.Tensor]) -> set[te.Tensor]:
    """The placeholders that the results depend on."""
    units = dependence_order("graph_function", results)
    return {tensor for unit in units for tensor in unit.reads if tensor.stage is None}


# --- single nodes ---------------------------------------------------------------------------------


def expressions(call: NodeCall) -> tuple[te.Tensor, ...]:
    """The results of a node, one tensor an output.

    Raises:
        DeclinedError: the operator has no rule, or its rule refuses the node; the message says why.
    """
    record = RECORDS.get(call.node.op)
    if record is None or record.expression is None:
        raise DeclinedError(f"{call.node.label}: the operator must have a tensor expression, got {call.node.op}")
    try:
        made = record.expression(call)
    except DeclinedError:
        raise
    except Error as error:
        raise DeclinedError(f"{call.node.label}: {error}") from error
    results = tuple(made) if isinstance(made, Sequence) else (made,)
    _check(call, results)
    return results


def _check(call: NodeCall, results: tuple[te.Tensor, ...]) -> None:
    """The results must have the element types of the node's outputs, and their shapes.

    A scalar has the shape [1], as tensor expressions have at least one dimension.
    """
    for name, kind, tensor in zip(call.node.outputs, call.types, results, strict=False):
        if not name or kind is None:
            continue
        if tensor.dtype != kind.dtype or (kind.static and tuple(tensor.shape) != (kind.array_shape or (1,))):
            got = f"{tensor.dtype}{list(tensor.shape)}"
            raise DeclinedError(f"{call.node.label}: {name} must be {kind} as the model says, got {got}")

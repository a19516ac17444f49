# SPDX-License-Identifier: Apache-2.0
"""A graph of floats and integers on symbols, node by node.

A node is evaluated by the tensor expression of its record; one that has none, or is too large, is a
function without structure of all its inputs, so that it equals the same node on the same inputs. A
node whose inputs are numbers is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.certificates import field as elements
from vdla.compiler.certificates.float_symbols import any_float, float_numbers
from vdla.compiler.certificates.integer_operators import OPERATORS
from vdla.compiler.certificates.nest_run import run_nest, unknown_elements
from vdla.compiler.certificates.pass_integers import FUNCTIONS, FunctionTables, pass_integers
from vdla.compiler.certificates.quantised_nodes import QuantisedComparison, QuantisedPart
from vdla.compiler.certificates.quantised_values import QuantisedValues
from vdla.compiler.certificates.rounded_sums import RoundingDifference
from vdla.compiler.certificates.symbols import (
    CertificateError,
    Symbols,
    chosen,
    elements_of,
    key,
    numbers,
    symbols,
    type_bounds,
    unstructured,
)
from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, RegionExpression, region_expressions
from vdla.compiler.graph.groups import FUSED, body_of
from vdla.compiler.graph.operators.graph_function import GraphFunction, graph_function
from vdla.compiler.graph.passes import are_equal, is_random
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import DTYPES, is_float
from vdla.compiler.target import Target
from vdla.support.errors import Error

_MOST_ELEMENTS = 1 << 22  # of the products of a node that is evaluated


@dataclass
class GraphRun:
    """The values of a graph: symbols by name, and arrays of those that are numbers.

    `opaque` are the operators that were functions without structure; `close` is the largest
    relative difference between numbers of this graph and of `known` by one name, which stand for
    the latter. `target` decides the form of expressions, such as the lanes of blocks. Weights
    are inputs of expressions, unless they are `fixed`: these transform constants as they like.
    With `short`, products read values without structure: then the coefficients of sums of many
    layers do not grow until they are too large for the field, at other places in other graphs.

    `before` is the graph before the pass, which `first` has run: of the nodes that regions of the
    machine run, whose programs are certified on their own, and of the float operators that integer
    operators replace up to their rounding, which `rounding` counts.
    """

    graph: Graph
    target: Target
    known: Mapping[str, Array] = field(default_factory=dict)
    values: dict[str, Symbols] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    close: float = 0.0
    fixed: bool = False
    short: bool = False
    before: Graph | None = None
    first: GraphRun | None = None
    rounding: RoundingDifference = field(default_factory=RoundingDifference)
    tables: FunctionTables = field(default_factory=FunctionTables)
    quantised: QuantisedValues = field(default_factory=QuantisedValues)

    def run(self, inputs: Mapping[str, Symbols], given: Mapping[str, Symbols] | None = None) -> GraphRun:
        """Evaluate all nodes; `given` are symbols of constants that are not their numbers.

        Raises:
            CertificateError: a value without a static type of elements that have symbols.
        """
        given = dict(given or {})
        self.values.update({**inputs, **given})
        for name, array in self.graph.constants.items():
            if name not in given:
                self.hold(name, array)
        weights = [name for name, array in self.arrays.items() if _is_weight(array) and not self.fixed]
        constants = {name: array for name, array in self.arrays.items() if name not in weights}
        self.graph = self.graph.replace(inputs=(*self.graph.inputs, *given, *weights), constants=constants)
        for node in self.graph.nodes:
            self._add(node)
        return self

    def hold(self, name: str, array: Array) -> None:
        """Note numbers; those that are close to known ones by their name are these."""
        if name in self.known and not np.array_equal(self.known[name], array):
            difference = _difference(self.known[name], array)
            if difference <= CLOSE:
                self.close, array = max(self.close, difference), self.known[name]
        self.arrays[name] = array
        kind = array.dtype.name
        if kind in DTYPES:
            self.values[name] = float_numbers(array) if is_float(kind) else numbers(array)

    def _add(self, node: Node) -> None:
        if node.op == FUSED:
            inner = self._inside(body_of(self.graph, node))
            inner.run({name: self.values[given] for name, given in zip(inner.graph.inputs, node.inputs, strict=True)})
            self.opaque |= inner.opaque
            outputs = zip(node.outputs, inner.graph.outputs, strict=True)
            self.values.update({name: inner.values[inside] for name, inside in outputs})
            return
        results = self._of_region(node) if node.op == ACCELERATED else self._of_quantised(node)
        for name, made in zip(node.outputs, results or self._results(node), strict=True):
            if name and made is not None:
                self.values[name] = made

    # --- regions of the machine

    def _of_region(self, node: Node) -> Sequence[Symbols | None] | None:
        """What a region hands on, packed, if it has the packed inputs of its nodes; else None."""
        expression = self._expression_of(node)
        if expression is None or any(name not in self.values for name in expression.plain.inputs):
            return None
        plain = self._inner(expression.plain, {name: self.values[name] for name in expression.plain.inputs})
        for name in expression.packing:
            made, given = (values[name]["value"].reshape(-1) for values in (plain.values, self.values))
            if made.shape != given.shape or (made != given).any():
                return None
        return self._packed(node, expression.unpacked, plain)

    # --- operators of integers in place of those of floats

    def _of_quantised(self, node: Node) -> Sequence[Symbols | None] | None:
        """The result of the graph before, if its float operators and an integer operator round the
        same numbers; else None.
        """
        result = node.outputs[0]
        maker = None if self.before is None else self.before.producers.get(result)
        if self.before is None or self.first is None or maker is None or maker.op != "QuantizeLinear":
            return None
        if node.op not in OPERATORS and node.op not in FUNCTIONS:
            return None
        try:
            part = QuantisedPart(self.before, result)
            comparison = QuantisedComparison(part, self.graph, node, self._leaves(node), self._values, self._numbers)
            self.rounding += comparison.difference()
        except (Error, AssertionError):
            return None
        return [self.first.values[result]]

    def _leaves(self, node: Node) -> tuple[str, ...]:
        """The values before a node that both graphs have, and constants that are operands."""
        assert self.first is not None
        leaves: dict[str, None] = {}
        pending = list(node.inputs)
        while pending:
            name = pending.pop(0)
            other, one = self.first.values.get(name), self.values.get(name)
            if not name or name in self.arrays:
                if (
                    node.op in _OF_TWO
                    and name in node.inputs
                    and _is_same(self.arrays[name], self.first.arrays.get(name))
                ):
                    leaves[name] = None
                continue
            if other is not None and one is not None and other.shape == one.shape and (other == one).all():
                leaves[name] = None
            else:
                pending += self.graph.producers[name].inputs
        return tuple(leaves)

    def _values(self, graph: Graph, given: Mapping[str, Symbols]) -> Mapping[str, Symbols]:
        return GraphRun(graph, self.target).run(given).values

    def _numbers(self, graph: Graph) -> Mapping[str, Array]:
        return GraphRun(graph, self.target, fixed=True).run({}).arrays

    # --- what regions compute

    def _expression_of(self, node: Node) -> RegionExpression | None:
        """What the nodes of a region compute, where the graph before has these nodes."""
        region = node.attributes[REGION]
        if self.before is None:
            return None
        makers = [(one, self.before.producers.get(one.outputs[0])) for one, _, _ in region.calls]
        if not all(maker is not None and are_equal(one, maker) for one, maker in makers):
            return None
        others = (one.attributes[REGION] for one in self.graph.nodes if one.op == ACCELERATED)
        calls = {one.outputs[0]: call for other in others for one, call, _ in other.calls}
        every = region_expressions(self.before, region.config, calls, self.graph.replace(nodes=(node,)))
        return every[0]

    def _inside(self, graph: Graph) -> GraphRun:
        """A run of a graph inside this one."""
        shared: dict[str, Any] = {"tables": self.tables, "quantised": self.quantised}
        return GraphRun(graph, self.target, self.arrays, short=self.short, **shared)

    def _inner(self, graph: Graph, values: Mapping[str, Symbols]) -> GraphRun:
        """The run of a part of the graph before."""
        made = self._inside(graph).run(values)
        self.opaque |= made.opaque
        return made

    def _packed(self, node: Node, unpacked: Graph, plain: GraphRun) -> Sequence[Symbols | None] | None:
        """The packed results that unpacking makes the plain ones of; gaps of blocks are unknown."""
        packed = graph_inputs(unpacked, 0)
        moved = self._inner(unpacked, packed)
        every = np.concatenate([one["value"].reshape(-1) for one in packed.values()])
        made, order = np.concatenate([one.reshape(-1) for one in packed.values()]), np.argsort(every)
        for name in unpacked.outputs:
            values = moved.values[name]["value"].reshape(-1)
            places = order[np.searchsorted(every, values, sorter=order).clip(0, len(order) - 1)]
            if (every[places] != values).any():
                return None
            made[places] = plain.values[name].reshape(-1)
        ends = np.cumsum([one.size for one in packed.values()])[:-1]
        parts = {name: part for name, part in zip(packed, np.split(made, ends), strict=True)}
        if set(parts) != set(node.outputs):
            return None
        return [parts[name].reshape(_shape(self.graph, name)) for name in node.outputs]

    # --- nodes

    def _results(self, node: Node) -> Sequence[Symbols | None]:
        try:
            integers = pass_integers(self.graph, node, self.values, self.tables)
            if integers is not None:
                return [np.ascontiguousarray(integers).reshape(_shape(self.graph, node.outputs[0]))]
            made = _expression(self.graph, node, self.target)
            if made is None:
                return self._opaque(node)
            quantised = self.quantised.result(self.graph, node, self.values, self._evaluated_node)
            if quantised is not None:
                return [quantised.reshape(_shape(self.graph, node.outputs[0]))]
            if all(name in self.arrays for name in made.inputs):
                return self._computed(node, made)
            results = _evaluated(made, {**self.values, **self._shortened(node)})
        except (Error, AssertionError):
            return self._opaque(node)
        return [results[name].reshape(_shape(self.graph, name)) if name else None for name in node.outputs]

    def _evaluated_node(self, graph: Graph, node: Node, others: Mapping[str, Symbols]) -> Symbols:
        """The result of a node of a graph with other values of some inputs."""
        made = _expression(graph, node, self.target)
        if made is None:
            raise CertificateError(f"{node.label}: operator must have a tensor expression, got {node.op}")
        return _evaluated(made, {**self.values, **others})[node.outputs[0]].reshape(_shape(graph, node.outputs[0]))

    def _shortened(self, node: Node) -> dict[str, Symbols]:
        """The first operand of a product without structure, if it is a sum and this is wanted."""
        if not self.short or node.op not in PRODUCTS or node.inputs[0] in self.arrays:
            return {}
        x = elements_of(self.values[node.inputs[0]])
        made = chosen(x["norm"] > 1, unstructured(("short",), x["low"], x["high"], x), x)
        return {node.inputs[0]: made}

    def results_of(self, node: Node, others: Mapping[str, Symbols]) -> Symbols:
        """The first result of a node that has an expression, with other values of some inputs.

        Raises:
            CertificateError: it has none.
        """
        return self._evaluated_node(self.graph, node, others)

    def _computed(self, node: Node, made: GraphFunction) -> Sequence[Symbols | None]:
        """Numbers from numbers."""
        names = made.function.params[: len(made.inputs) + len(made.constants)]
        given = [*(self.arrays[name] for name in made.inputs), *made.constants.values()]
        shaped = {n: np.asarray(a).reshape(made.function.buffers[n].dims) for n, a in zip(names, given, strict=True)}
        results = dict(zip(made.outputs, interpret(made.function, shaped).values(), strict=True))
        for name, array in results.items():
            self.hold(name, array.reshape(_shape(self.graph, name)))
        return [self.values[name] if name else None for name in node.outputs]

    def _opaque(self, node: Node) -> Sequence[Symbols | None]:
        """Elements without structure, each a function of the node and of all inputs."""
        self.opaque.add(node.op)
        digests = [self._digest(name) for name in node.inputs]
        text = f"{node.op} {sorted(_texts(node))}{node.outputs if is_random(node) else ''}"
        made: list[Symbols | None] = []
        for output, name in enumerate(node.outputs):
            kind = self.graph.types.get(name)
            if not name:
                made.append(None)
                continue
            if not isinstance(kind, TensorType) or not kind.static or kind.dtype not in DTYPES:
                raise CertificateError(
                    f"{node.label}: {name} must have known extents and a type of numbers, got {kind}"
                )
            places = np.arange(prod(kind.array_shape), dtype=np.uint64).reshape(kind.array_shape)
            value = elements.hashed(key("node", text, output), *digests, places)
            made.append(any_float(value) if is_float(kind.dtype) else symbols(value, *type_bounds(kind.dtype)))
        return made

    def _digest(self, name: str) -> np.uint64:
        """A number for an input: all of its elements, in order."""
        if not name:
            return np.uint64(0)
        if name not in self.values:  # a constant of another type, such as strings
            return np.uint64(key(str(self.arrays[name].tolist())) % elements.PRIME)
        value = self.values[name]["value"]
        places = np.arange(value.size, dtype=np.uint64)
        hashed = elements.hashed(key("digest", value.shape), places, value.reshape(-1))
        return np.uint64(elements.total(hashed[None], (1,))[0, 0]) if value.size else np.uint64(1)


def _is_same(a: Array, b: Array | None) -> bool:
    return b is not None and a.dtype == b.dtype and np.array_equal(a, b)


_OF_TWO = ("vdla.QAdd", "vdla.QMatMul", "vdla.QMul")  # whose operands are activations
PRODUCTS = ("Conv", "ConvTranspose", "Gemm")
"""Operators whose first operand is multiplied with weights."""
CLOSE = 1e-5
"""The largest relative difference of folded numbers that stand for the same number."""


def graph_inputs(graph: Graph, seed: int) -> dict[str, Symbols]:
    """Unknown inputs of a graph of static shapes, by their position."""
    made = {}
    for number, name in enumerate(graph.inputs):
        kind = graph.types.get(name)
        if not isinstance(kind, TensorType) or not kind.static or kind.dtype not in DTYPES:
            raise CertificateError(f"input {name} must have known extents and a type of numbers, got {kind}")
        made[name] = unknown_elements(f"input {number}", kind.array_shape, kind.dtype, seed)
    return made


def _expression(graph: Graph, node: Node, target: Target) -> GraphFunction | None:
    """The function of a node, if it has one and is not too large."""
    if any(isinstance(value, Graph) for value in node.attributes.values()):
        return None
    made = graph_function(body_of(graph, node), target, "node")
    sizes = [prod(buffer.dims) for buffer in made.function.buffers.values()]
    return made if max(sizes, default=0) <= _MOST_ELEMENTS else None


def _evaluated(made: GraphFunction, values: Mapping[str, Symbols]) -> dict[str, Symbols]:
    given = [*(values[name] for name in made.inputs), *map(_numbers, made.constants.values())]
    params = made.function.params[: len(given)]
    arrays = {name: one.reshape(made.function.buffers[name].dims) for name, one in zip(params, given, strict=True)}
    return dict(zip(made.outputs, run_nest(made.function, arrays).values(), strict=True))


def _is_weight(array: Array) -> bool:
    """Whether numbers become inputs of expressions, which transform constants as they like."""
    return array.ndim > 1 and is_float(array.dtype.name)


def _numbers(array: Array) -> Symbols:
    return float_numbers(array) if is_float(array.dtype.name) else numbers(array)


def _shape(graph: Graph, name: str) -> tuple[int, ...]:
    return graph.tensor(name).array_shape


def _texts(node: Node) -> list[str]:
    """The attributes as texts."""
    return [f"{name}={_text(value)}" for name, value in node.attributes.items()]


def _text(value: Any) -> str:  # noqa: ANN401  of any attribute
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{value.tolist()}"
    return str(value)


def _difference(a: Array, b: Array) -> float:
    """The largest difference of floats over the largest magnitude; infinite for others."""
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "fV" or not a.size:
        return np.inf
    wide = [x.astype(np.float64) for x in (a, b)]
    if not all(np.isfinite(x).all() for x in wide):
        return np.inf
    largest = reduce(max, (float(np.abs(x).max()) for x in wide))
    return float(np.abs(wide[0] - wide[1]).max()) / largest if largest else 0.0

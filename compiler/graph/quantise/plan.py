# SPDX-License-Identifier: Apache-2.0
"""The plan of quantisation: operators that run on integers, and values to quantise.

Products always run on integers; sums, pools, slopes of channels, concatenations and rotary
embeddings do where an operand is quantised anyway, means over all of space where a product reads
them, and attention where it has its scores as a result (`scores.py`). Movements keep the parameters
of their operand. Functions of one value become tables if their neighbours are quantised; the result
of one is quantised if an operator that is no such function reads it on the way to a product.
Everything else stays float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.integer.pools import is_spatial_mean
from vdla.compiler.graph.integer.products import is_bias
from vdla.compiler.graph.operators import RECORDS, Trait, has_trait
from vdla.compiler.graph.passes import is_movement
from vdla.compiler.graph.quantise.scores import scores_of
from vdla.compiler.graph.quantise.statistics import QuantiseError
from vdla.support.suggest import did_you_mean

_ROTATION = "RotaryEmbedding"
_OF_SYMMETRIC = ("RMSNormalization", _ROTATION)


@dataclass(frozen=True, slots=True)
class QuantisedLayer:
    """A node that works on integers: its activations, its constants, its quantised result.

    `weight` and `bias` are names of constants, empty where there are none; the weight has one scale
    for each index along `axis`, or a single scale if `axis` is None. `node` computes the sums.
    """

    node: Node
    activations: tuple[str, ...]
    result: str
    weight: str = ""
    axis: int | None = None
    bias: str = ""

    @property
    def name(self) -> str:
        """The name of the layer for users."""
        return self.node.name or self.node.outputs[0]


@dataclass(frozen=True, slots=True)
class QuantisationPlan:
    """`values` maps each quantised value to the one whose parameters it has.

    `mixed` maps values that stay float to the part that one scale would lose.
    """

    layers: tuple[QuantisedLayer, ...]
    values: Mapping[str, str]
    mixed: Mapping[str, str] = field(default_factory=dict)

    @property
    def layer_values(self) -> tuple[str, ...]:
        """The values that layers read or compute."""
        return tuple(dict.fromkeys(name for layer in self.layers for name in (*layer.activations, layer.result)))

    def symmetric_values(self, graph: Graph) -> frozenset[str]:
        """The values whose parameters must have the zero point 0: what rotations and norms by root
        mean squares read, whose integers know no other, and what attention reads and scores.
        """
        read = [node.inputs[0] for node in graph.nodes if node.op in _OF_SYMMETRIC]
        read += [name for layer in self.layers for name in _of_attention(layer.node)]
        return frozenset(self.values[name] for name in read if name in self.values)

    def scores(self, graph: Graph) -> frozenset[str]:
        """The values that are scores, of which those that are not attended are infinite."""
        return frozenset(name for node in graph.nodes if (name := scores_of(node)) in self.values)


def _of_attention(node: Node) -> tuple[str, ...]:
    return (*node.inputs[:3], scores_of(node)) if scores_of(node) else ()


def plan_quantisation(
    graph: Graph, keep_float: Sequence[str] = (), mixed: Mapping[str, str] | None = None
) -> QuantisationPlan:
    """The layers of a float graph, except those named by `keep_float` and those that read or
    compute one of the values `mixed`.

    Raises:
        QuantiseError: no node has a name of `keep_float`.
    """
    known = {name for node in graph.nodes for name in (node.name, *node.outputs) if name}
    for name in keep_float:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise QuantiseError(f"quantise: keep_float must name nodes of {graph.name}, got {name!r}{hint}")
    planner = _Planner(graph, frozenset(keep_float), frozenset(mixed or ()))
    for node in graph.nodes:
        planner.add(node)
    return QuantisationPlan(tuple(planner.layers), planner.values, mixed or {})


class _Planner:
    """The plan of the nodes visited so far."""

    def __init__(self, graph: Graph, keep: frozenset[str], mixed: frozenset[str]) -> None:
        self.graph, self.keep, self.mixed = graph, keep, mixed
        self.functions = functions_of_one_value(graph)
        self.feeding = values_on_the_way_to_products(graph)
        self.layers: list[QuantisedLayer] = []
        self.values: dict[str, str] = {}
        self.absorbed: set[int] = set()

    def add(self, node: Node) -> None:
        """Plans a node."""
        if id(node) in self.absorbed or not self._is_float(node.outputs[0]):
            return
        if is_movement(self.graph, node):
            self._move(node, node.inputs[0])
        elif node.op == "TensorScatter" and any(map(scores_of, self.graph.consumers.get(node.outputs[0], ()))):
            self._move(node, node.inputs[1])  # the past is what the tokens before have put there
        elif not self._kept(node) and (layer := self._layer(node)) is not None:
            if not self.mixed.isdisjoint((*layer.activations, layer.result)):
                return
            self.layers.append(layer)
            for name in (*layer.activations, layer.result, *filter(None, [scores_of(node)])):
                self.values.setdefault(name, name)
            if node.op == "Concat":
                self._share(layer)
        elif id(node) in self.functions and not self._kept(node):
            self._function(node)

    def _function(self, node: Node) -> None:
        """Quantises the result of a table that sums, products of activations or movements read."""
        name, source = node.outputs[0], self._source(node)
        inside = [
            id(reader) in self.functions and self._source(reader) == source
            for reader in self.graph.consumers.get(name, ())
        ]
        if source in self.values and not all(inside) and name in self.feeding and name not in self.mixed:
            self.values.setdefault(name, name)

    def _source(self, node: Node) -> str:
        """The value that a function is one of."""
        return self.functions[id(node)]

    def _share(self, layer: QuantisedLayer) -> None:
        """Operands read only by a concatenation get its parameters, which avoids rescaling."""
        for name in layer.activations:
            if name in self.graph.producers and self.graph.readers(name) == 1 and self.values[name] == name:
                self.values.update({value: layer.result for value, owner in self.values.items() if owner == name})

    def _kept(self, node: Node) -> bool:
        return node.name in self.keep or not self.keep.isdisjoint(node.outputs)

    def _is_float(self, name: str) -> bool:
        kind = self.graph.types.get(name)
        return isinstance(kind, TensorType) and kind.dtype == "float32"

    def _move(self, node: Node, operand: str) -> None:
        owner = self.values.get(operand)
        if owner is not None:
            self.values.update({name: owner for name in node.outputs if name})

    def _layer(self, node: Node) -> QuantisedLayer | None:
        record = RECORDS.get(node.op)
        if record is not None and record.output_axis is not None:
            return self._product(node, record.output_axis)
        is_mean = is_spatial_mean(self.graph, node)
        if (is_mean or node.op == "GlobalAveragePool") and node.outputs[0] not in self.feeding:
            return None  # the mean of many integers has more digits than one of them
        if is_mean and node.inputs[0] in self.values:
            return QuantisedLayer(node, node.inputs[:1], self._end(node.outputs[0]))
        if node.op == _ROTATION and node.inputs[0] in self.values:
            return QuantisedLayer(node, node.inputs[:1], self._end(node.outputs[0]))
        if has_trait(node.op, Trait.SLOPED) and node.inputs[0] in self.values and self._has_slopes(node):
            return QuantisedLayer(node, node.inputs[:1], self._end(node.outputs[0]))
        if scores_of(node):
            return QuantisedLayer(node, node.inputs[:3], node.outputs[0])
        quantised = any(name in self.values for name in node.inputs)
        if not quantised or id(node) in self.functions or not all(map(self._is_float, filter(None, node.inputs))):
            return None
        if has_trait(node.op, Trait.COMBINING):
            return QuantisedLayer(node, tuple(filter(None, node.inputs)), self._end(node.outputs[0]))
        if has_trait(node.op, Trait.BOUND) and node.inputs[0] in self.values:
            return QuantisedLayer(node, node.inputs[:1], self._end(node.outputs[0]))
        return None

    def _has_slopes(self, node: Node) -> bool:
        """Whether there are constants of channels; one number makes it a function of one value."""
        slope = self.graph.constant(node.inputs[1])
        return slope is not None and slope.size > 1

    # --- products

    def _product(self, node: Node, output_axis: int) -> QuantisedLayer | None:
        weight = self.graph.constant(node.inputs[1])
        if not all(self._is_float(name) for name in node.inputs if name) or not self._has_rank(node):
            return None
        if weight is None or (node.op == "MatMul" and weight.ndim != 2):
            is_product = node.op == "MatMul"
            return QuantisedLayer(node, node.inputs, self._end(node.outputs[0])) if is_product else None
        options = node.attributes
        if node.op == "Gemm" and (options.get("transA", 0) or _scaled(node)):
            return None
        axis: int | None = output_axis % weight.ndim
        if node.op == "Gemm" and options.get("transB", 0):
            axis = 0
        if node.op == "ConvTranspose" and options.get("group", 1) > 1:
            axis = None  # a channel of the weight belongs to one output channel of each group
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        if bias and (self.graph.constant(bias) is None or (node.op == "Gemm" and not is_bias(self.graph, bias, node))):
            return None
        added, result = self._biased(node, bias)
        return QuantisedLayer(node, node.inputs[:1], self._end(result), node.inputs[1], axis, added)

    def _has_rank(self, node: Node) -> bool:
        shapes = [self.graph.tensor(name).shape for name in node.inputs[:2]]
        return all(shape is not None and len(shape) >= 2 for shape in shapes)

    def _biased(self, node: Node, bias: str) -> tuple[str, str]:
        """The bias, possibly added by the only reader of a product, and the result."""
        result = node.outputs[0]
        reader = self._only_reader(result)
        if bias or reader is None or reader.op != "Add" or self._kept(reader):
            return bias, result
        addend = reader.inputs[1] if reader.inputs[0] == result else reader.inputs[0]
        if not is_bias(self.graph, addend, node):
            return bias, result
        self.absorbed.add(id(reader))
        return addend, reader.outputs[0]

    # --- results

    def _end(self, result: str) -> str:
        """The value after the Relu and Clip that alone read the result."""
        reader = self._only_reader(result)
        if reader is None or not has_trait(reader.op, Trait.BOUND) or not all(self._constant_limits(reader)):
            return result
        self.absorbed.add(id(reader))
        return self._end(reader.outputs[0])

    def _only_reader(self, name: str) -> Node | None:
        readers = self.graph.consumers.get(name, ())
        return readers[0] if len(readers) == 1 and self.graph.readers(name) == 1 else None

    def _constant_limits(self, node: Node) -> Iterator[bool]:
        return (self.graph.constant(name) is not None for name in node.inputs[1:] if name)


def _scaled(gemm: Node) -> bool:
    return float(gemm.attribute("alpha")) != 1.0 or float(gemm.attribute("beta")) != 1.0


# --- functions of one value -----------------------------------------------------------------------


def functions_of_one_value(graph: Graph) -> dict[int, str]:
    """That value of each node whose operands are one value, functions of it, and scalars, by the
    node's identity.

    Relu and Clip are excluded: they become bounds of other results.
    """
    sources: dict[str, str] = {}
    functions = {}
    for node in graph.nodes:
        operands = {sources.get(name, name) for name in node.inputs if name and not _is_scalar(graph, name)}
        if not has_trait(node.op, Trait.FUNCTION) or len(operands) != 1:
            continue
        sources[node.outputs[0]] = operands.pop()
        if not has_trait(node.op, Trait.BOUND):
            functions[id(node)] = sources[node.outputs[0]]
    return functions


def values_on_the_way_to_products(graph: Graph) -> frozenset[str]:
    """The values from which only what may be quantised lies before some product with weights."""
    feeding: set[str] = set()
    for node in reversed(graph.nodes):
        record = RECORDS.get(node.op)
        is_product = record is not None and record.output_axis is not None
        passes = is_movement(graph, node) or is_spatial_mean(graph, node)
        passes = passes or has_trait(node.op, Trait.COMBINING | Trait.BOUND | Trait.FUNCTION)
        if is_product or (passes and not feeding.isdisjoint(node.outputs)):
            feeding.update(filter(None, node.inputs[:1] if is_product else node.inputs))
    return frozenset(feeding)


def _is_scalar(graph: Graph, name: str) -> bool:
    value = graph.constant(name)
    return value is not None and value.size == 1

# SPDX-License-Identifier: Apache-2.0
"""Integer graphs for a machine whose activations stay in blocks of channels.

A Split of channels becomes products with parts of the weight, whose results are the parts. What
another device makes for a Concat, or another Concat reads too, is copied, so that the machine has
every operand in its place. A Resize that repeats pixels becomes a transposed convolution. Functions
behind one another become one table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.passes.fold_constants import Evaluate
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite, without_dead_code

_CHANNELS = 1
_FUNCTIONS = ("vdla.QTable", "vdla.QRescale", "vdla.QLeakyRelu")
_EXACT_ONE = {"multiplier": np.array([1 << 23]), "shift": np.array([23])}
_COPY = {"x_zero_point": 0, **_EXACT_ONE, "y_zero_point": 0, "low": -128, "high": 127}


def for_machine(graph: Graph, evaluate: Evaluate, replaced: dict[str, Replacement]) -> Graph:
    """The graph, as a machine runs more of it.

    `replaced` receives the nodes that other devices should rather run, by their result.
    """

    def repeated(graph: Graph, node: Node) -> Replacement | None:
        made = _repeated(graph, node)
        if made is not None:
            replaced[node.outputs[0]] = _as_it_is(graph, node)
        return made

    def composed(graph: Graph, node: Node) -> Replacement | None:
        return _composed(graph, node, evaluate)

    return without_dead_code(_with_copies(rewrite(rewrite(graph, (_split, repeated)), (composed,))))


# --- splits ---------------------------------------------------------------------------------------


def _split(graph: Graph, node: Node) -> Replacement | None:
    """Split(f(product)) = f(product of a part of the weight) for each part."""
    if node.op != "Split" or not all(node.outputs):
        return None
    kinds = [graph.tensor(name) for name in (node.inputs[0], *node.outputs)]
    rank = len(kinds[0].shape or ())
    if rank < 2 or kinds[0].dtype != "int8" or node.attributes.get("axis", 0) % rank != _CHANNELS:
        return None
    channels = [kind.shape[_CHANNELS] for kind in kinds[1:] if kind.shape]
    if len(channels) < len(node.outputs) or not all(isinstance(count, int) for count in channels):
        return None
    functions, product = _before(graph, node.inputs[0])
    if product is None:
        return None
    ends = accumulate(channels, initial=0)
    nodes: list[Node] = []
    constants: dict[str, Array] = {}
    types: dict[str, TensorType] = {}
    for result, (begin, end) in zip(node.outputs, pairwise(ends), strict=True):
        made = _part(graph, product, functions, result, slice(begin, end))
        nodes += made.nodes
        constants |= made.constants
        types |= made.types  # type: ignore[arg-type]  # all are tensors
    return Replacement(tuple(nodes), constants, types, matched=(product, *functions))


def _before(graph: Graph, name: str) -> tuple[list[Node], Node | None]:
    """The functions that make a value, and the convolution of one group before them.

    None for the convolution unless each is read once.
    """
    functions: list[Node] = []
    while graph.readers(name) == 1 and (node := graph.producers.get(name)) is not None:
        if node.op not in _FUNCTIONS:
            is_product = node.op == "vdla.QConv" and node.attributes["group"] == 1
            is_constant = all(operand in graph.constants for operand in node.inputs[1:])
            return functions, node if is_product and is_constant else None
        functions.insert(0, node)
        name = node.inputs[0]
    return functions, None


def _part(graph: Graph, product: Node, functions: list[Node], result: str, channels: slice) -> Replacement:
    """Some channels of functions of a product."""
    *inner, _ = names = [fresh_name(graph, f"{result}_part{i}") for i in range(len(functions))] + [result]
    parts = {
        fresh_name(graph, f"{result}_{index}"): graph.constants[product.inputs[index]][channels] for index in (1, 2)
    }
    attributes = {
        key: value[channels] if key in ("multiplier", "shift") and np.size(value) > 1 else value
        for key, value in product.attributes.items()
    }
    nodes = [replace(product, inputs=(product.inputs[0], *parts), outputs=(names[0],), attributes=attributes)]
    nodes += [
        replace(node, inputs=(source,), outputs=(made,))
        for node, (source, made) in zip(functions, pairwise(names), strict=True)
    ]
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in parts.items()}
    return Replacement(tuple(nodes), parts, {**types, **dict.fromkeys(inner, graph.tensor(result))})


# --- functions ------------------------------------------------------------------------------------


def _composed(graph: Graph, node: Node, evaluate: Evaluate) -> Replacement | None:
    """f(table) as one table."""
    before = graph.producers.get(node.inputs[0]) if node.op in _FUNCTIONS else None
    if before is None or before.op != "vdla.QTable" or graph.readers(node.inputs[0]) != 1:
        return None
    (table,) = evaluate(node, [before.attributes["table"]])
    made = replace(before, outputs=node.outputs, attributes={"table": np.asarray(table)}, name=node.name or before.name)
    return Replacement((made,), matched=(before,))


def _as_it_is(graph: Graph, node: Node) -> Replacement:
    """What puts a node back."""
    constants = {name: graph.constants[name] for name in node.inputs if name in graph.constants}
    return Replacement((node,), constants, {name: graph.types[name] for name in constants})


# --- repeated pixels ------------------------------------------------------------------------------


_FLOORS = (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"))


def _repeated(graph: Graph, node: Node) -> Replacement | None:
    """Resize to the nearest pixel by whole factors as a product with ones and zeros."""
    factors = _factors(graph, node) if node.op == "Resize" else None
    if factors is None:
        return None
    channels = graph.tensor(node.inputs[0]).extents[_CHANNELS]
    weight = np.broadcast_to(np.eye(channels, dtype=np.int8)[..., None, None], (channels, channels, *factors))
    names = [fresh_name(graph, f"{node.outputs[0]}_{part}") for part in ("weight", "bias")]
    constants: dict[str, Array] = dict(zip(names, (weight.copy(), np.zeros(channels, np.int32)), strict=True))
    attributes = {
        **_COPY,
        "multiplier": np.full(channels, 1 << 23),
        "shift": np.full(channels, 23),
        "strides": factors,
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "output_padding": (0, 0),
        "group": 1,
    }
    product = Node("vdla.QConvTranspose", (node.inputs[0], *names), node.outputs, attributes, node.name)
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in constants.items()}
    return Replacement((product,), constants, types)


def _factors(graph: Graph, node: Node) -> tuple[int, int] | None:
    """How often a Resize repeats rows and columns of int8 images, if it does just that."""
    kinds = [graph.types.get(name) for name in (node.inputs[0], node.outputs[0])]
    shapes = [kind.extents for kind in kinds if isinstance(kind, TensorType) and kind.static and kind.dtype == "int8"]
    if len(shapes) != 2 or len(shapes[0]) != 4 or shapes[0][:2] != shapes[1][:2] or 0 in shapes[0]:
        return None
    modes = (node.attribute("coordinate_transformation_mode"), node.attribute("nearest_mode"))
    if node.attribute("mode") != "nearest" or tuple(map(str, modes)) not in _FLOORS or "axes" in node.attributes:
        return None
    (*_, height, width), (*_, rows, columns) = shapes
    if rows % height or columns % width:
        return None
    scales = graph.constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
    if scales is not None and [*scales[2:]] != [rows // height, columns // width]:
        return None
    return rows // height, columns // width


# --- copies ---------------------------------------------------------------------------------------


def _with_copies(graph: Graph) -> Graph:
    """The graph in which each operand of a Concat of channels is made for it by an operator of
    integers.
    """
    nodes, types, known = list[Node](), dict(graph.types), set(graph.types)
    for node in graph.nodes:
        copied = dict(_copies(graph, node, known)) if _joins_channels(graph, node) else {}
        for name, copy in copied.items():
            types[copy] = types[name]
            nodes.append(Node("vdla.QRescale", (name,), (copy,), _COPY, copy))
        nodes.append(replace(node, inputs=tuple(copied.get(name, name) for name in node.inputs)))
    return graph.replace(nodes=tuple(nodes), types=types)


def _joins_channels(graph: Graph, node: Node) -> bool:
    kind = graph.types.get(node.outputs[0])
    if node.op != "Concat" or not isinstance(kind, TensorType) or kind.dtype != "int8" or not kind.static:
        return False
    return len(kind.extents) > 2 and node.attributes["axis"] % len(kind.extents) == _CHANNELS


def _copies(graph: Graph, join: Node, known: set[str]) -> Iterator[tuple[str, str]]:
    makers = [graph.producers.get(name) for name in join.inputs]
    late = any(maker is None or not maker.op.startswith("vdla.Q") for maker in makers)
    for name, maker in zip(join.inputs, makers, strict=True):
        readers = graph.consumers.get(name, ())
        read_as_float = any(not reader.op.startswith("vdla.Q") for reader in readers if reader is not join)
        if (
            maker is None
            or not maker.op.startswith("vdla.Q")
            or read_as_float
            or (late and len(readers) > 1)
            or name in graph.outputs
        ):
            copy = next(fresh for i in range(len(known) + 1) if (fresh := f"{name}_copy{i}") not in known)
            known.add(copy)
            yield name, copy


def for_other_devices(graph: Graph, on_machine: Iterable[str], replaced: Mapping[str, Replacement]) -> Graph:
    """The graph without what `for_machine` did for nodes that are on another device."""
    kept = set(on_machine)

    def restored(_: Graph, node: Node) -> Replacement | None:
        result = node.outputs[0]
        if result in kept:
            return None
        if result in replaced and node.op == "vdla.QConvTranspose":
            return replaced[result]
        if node.op == "vdla.QRescale" and _is_copy(node):
            return Replacement(renamed={result: node.inputs[0]})
        return None

    return without_dead_code(rewrite(graph, (restored,)))


def _is_copy(node: Node) -> bool:
    return all(np.array_equal(np.asarray(node.attributes[key]), np.asarray(value)) for key, value in _COPY.items())

# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding between quantised values as `vdla.QRotary`, with a table of factors of 8 bits.

A row of the table has the cosines and the sines of a position, as `definitions.rotary` has them;
the rows of a run's positions are taken on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.integer.affine import activation, decline, multipliers
from vdla.compiler.graph.integer.result import QuantisedResult, sole
from vdla.compiler.graph.rewriting import Replacement, fresh_name
from vdla.compiler.operators.definitions.rotary import UNIT

_HEADS = (0, 2, 1, 3)  # [1, rows, heads, size] to [1, heads, rows, size], and back


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows [..., heads * size] of a value; `moved` are the nodes that split its heads."""

    name: str
    heads: int
    kind: TensorType
    moved: tuple[Node, ...] = ()


def rotation(result: QuantisedResult) -> Replacement | None:
    """Q(RotaryEmbedding(DQ(x))) of rows, or of heads that are split from rows, whose positions are
    known at run time.
    """
    graph, node = result.graph, result.producer
    if node is None or node.op != "RotaryEmbedding":
        return None
    sole(graph, node)
    x = activation(graph, node.inputs[0])
    rows = _rows_of(graph, node, x.name)
    size = rows.kind.extents[-1] // rows.heads
    turned = int(node.attributes.get("rotary_embedding_dim", 0)) or size
    interleaved = int(node.attributes.get("interleaved", 0))
    cosines, sines = map(graph.constant, node.inputs[1:3])
    positions = node.inputs[3] if len(node.inputs) > 3 else ""
    if x.zero_point or cosines is None or sines is None or cosines.ndim != 2 or not positions:
        decline("have the zero point 0, and constant cosines and sines of positions")
    made = _rows_at(graph, turns_of(cosines, sines, size, turned, bool(interleaved)), positions, result.name)
    attributes: dict[str, Any] = {"heads": rows.heads, "turned": turned, "interleaved": interleaved}
    attributes |= multipliers(result.from_scale(np.float32(x.scale / UNIT)))
    inputs = (rows.name, made.nodes[-1].outputs[0])
    whole = result.becomes("vdla.QRotary", inputs, attributes, (node,), made)
    return _split(graph, whole, rows) if rows.moved else whole


def _rows_of(graph: Graph, node: Node, name: str) -> _Rows:
    kind = graph.tensor(name)
    if not kind.static or 0 in kind.extents:
        decline("have known extents")
    if len(kind.extents) == 3:
        return _Rows(name, int(node.attributes["num_heads"]), kind)
    turned = graph.producers.get(name)
    split = None if turned is None else graph.producers.get(turned.inputs[0])
    if turned is None or split is None or turned.op != "Transpose" or turned.attributes.get("perm") != _HEADS:
        decline("have rows, or heads that are split from them")
    source, heads = graph.tensor(split.inputs[0]), kind.extents[1]
    batch, _, count, size = kind.extents
    if split.op != "Reshape" or source.shape != (batch, count, heads * size):
        decline("have rows, or heads that are split from them")
    return _Rows(split.inputs[0], heads, source, (split, turned))


def _split(graph: Graph, whole: Replacement, rows: _Rows) -> Replacement:
    """The rotation of rows, whose result is split into heads as they were before."""
    *before, rotation = whole.nodes
    split, turned = rows.moved
    (result,) = rotation.outputs
    names = [fresh_name(graph, f"{result}_{part}") for part in ("rows", "heads")]
    types = {names[0]: rows.kind, names[1]: graph.tensor(turned.inputs[0])}
    nodes = (
        replace(rotation, outputs=(names[0],)),
        Node("Reshape", (names[0], split.inputs[1]), (names[1],), split.attributes),
        Node("Transpose", (names[1],), (result,), {"perm": _HEADS}),
    )
    return replace(whole, nodes=(*before, *nodes), types={**whole.types, **types})


def turns_of(cosines: Array, sines: Array, size: int, turned: int, interleaved: bool) -> Array:
    """The factors [positions, 2 * size] of all positions, from tables [positions, turned / 2]."""
    cos, sin = (np.rint(UNIT * table.astype(np.float64)) for table in (cosines, sines))
    factors = np.zeros((len(cos), 2, size))
    factors[:, 0] = UNIT
    if interleaved:
        pairs = [np.stack(pair, -1).reshape(len(cos), turned) for pair in ((cos, cos), (-sin, sin))]
    else:
        pairs = [np.concatenate(pair, -1) for pair in ((cos, cos), (-sin, sin))]
    factors[..., :turned] = np.stack(pairs, 1)
    return np.clip(factors, -UNIT, UNIT).reshape(len(cos), 2 * size).astype(np.int8)


def _rows_at(graph: Graph, table: Array, positions: str, name: str) -> Replacement:
    """The rows of a table at positions."""
    constant, made = (fresh_name(graph, f"{name}_{part}") for part in ("table", "turns"))
    shape = (*graph.tensor(positions).extents, table.shape[1])
    types = {constant: TensorType("int8", table.shape), made: TensorType("int8", shape)}
    node = Node("Gather", (constant, positions), (made,), {"axis": 0})
    return Replacement((node,), {constant: table}, types)

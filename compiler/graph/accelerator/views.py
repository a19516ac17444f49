# SPDX-License-Identifier: Apache-2.0
"""Values with the same packed bytes as another value, so that no conversion is needed.

[N, C] is a view of [N, C, 1, 1] and vice versa. The heads of attention, [1, heads, rows, size], are
a view of the rows [1, rows, heads * size] and vice versa, if `PackedLayout.same_heads` holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.compiler.graph.graph import Graph, Node, TensorType

_SWAP = (0, 2, 1, 3)  # [1, rows, heads, size] to [1, heads, rows, size], and back


@dataclass(frozen=True, eq=False)
class Views:
    """`plain` maps views to their values; `heads` does so for heads and rows, with the node
    between.
    """

    plain: Mapping[str, str]
    heads: Mapping[str, str]
    between: Mapping[str, str]

    @staticmethod
    def of(graph: Graph) -> Views:
        """The views of a graph; `between` maps the result of the first node of two to the view."""
        plain: dict[str, str] = {}
        heads: dict[str, str] = {}
        between: dict[str, str] = {}
        for node in graph.nodes:
            if _is_plain(graph, node):
                plain[node.outputs[0]] = plain.get(node.inputs[0], node.inputs[0])
            elif (first := _first_of_heads(graph, node)) is not None:
                heads[node.outputs[0]] = plain.get(first.inputs[0], first.inputs[0])
                between[first.outputs[0]] = node.outputs[0]
        return Views(plain, heads, between)

    def root(self, value: str) -> str:
        """The value that a value is a view of."""
        return self.heads.get(value) or self.plain.get(value, value)

    def of_node(self, node: Node, value: str) -> str | None:
        """The view of a value that its reader computes, alone or with the next node."""
        result = node.outputs[0]
        if result in self.plain and node.inputs[0] == value:
            return result
        return self.between.get(result)


def _static(graph: Graph, node: Node) -> list[tuple[int, ...]] | None:
    """The shapes of the first input and the result, if they are known."""
    kinds = [graph.types.get(name) for name in (*node.inputs[:1], *node.outputs[:1])]
    shapes = [kind.extents for kind in kinds if isinstance(kind, TensorType) and kind.static]
    return shapes if len(shapes) == len(kinds) == 2 else None


def _is_plain(graph: Graph, node: Node) -> bool:
    """Whether a Reshape only adds or removes dimensions of 1 behind channels."""
    shapes = _static(graph, node) if node.op == "Reshape" else None
    if shapes is None:
        return False
    return shapes[0][:2] == shapes[1][:2] and all(extent == 1 for shape in shapes for extent in shape[2:])


def _first_of_heads(graph: Graph, node: Node) -> Node | None:
    """The producer without other readers, if both nodes together split rows into heads or join
    heads.
    """
    first = graph.producers.get(node.inputs[0]) if node.inputs and node.inputs[0] else None
    if first is None or {first.op, node.op} != {"Reshape", "Transpose"} or graph.readers(first.outputs[0]) != 1:
        return None
    turn = first if first.op == "Transpose" else node
    if tuple(turn.attributes.get("perm", ())) != _SWAP or _static(graph, first) is None or _static(graph, node) is None:
        return None
    shapes = [graph.tensor(name).extents for name in (first.inputs[0], first.outputs[0], node.outputs[0])]
    rows, split = (shapes[0], shapes[1]) if first.op == "Reshape" else (shapes[2], shapes[1])
    same = len(split) == len(_SWAP) and rows == (1, split[1], split[2] * split[3]) and split[0] == 1
    return first if same else None

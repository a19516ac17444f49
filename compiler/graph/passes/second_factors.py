# SPDX-License-Identifier: Apache-2.0
"""Second factors of attention's products that the machine lays out itself.

Results of the machine lie in blocks of channels, and the second factor of a product as weights do.
`vdla.QFactor` is what is between: keys, whose transpose is the factor, and values, where a plug-in
transposes squares of them. Without it the host packs both, and the program ends before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.graph.machine.row_definitions import row_definition
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.rewriting import Replacement, fresh_name, rewrite
from vdla.compiler.operators.definitions import Definition

_HEADS = (0, 2, 1, 3)  # [1, rows, heads, size] to [1, heads, rows, size]
_TRANSPOSED_HEADS = (0, 2, 3, 1)


def second_factors(graph: Graph, accepts: Callable[[Definition], bool]) -> Graph:
    """The graph with a `vdla.QFactor` for each factor without zero point that `accepts` its
    definition and that a product with weights makes.
    """

    def rule(graph: Graph, node: Node) -> Replacement | None:
        if node.op != "vdla.QMatMul" or node.attributes["a_zero_point"] or node.attributes["b_zero_point"]:
            return None
        made = _factor(graph, node.inputs[1]) if _is_of_product(graph, node.inputs[1]) else None
        if made is None:
            return None
        *_, factor = made.nodes
        kind = made.types.get(factor.inputs[0], graph.types.get(factor.inputs[0]))
        if not isinstance(kind, TensorType) or not accepts(row_definition(factor.op, kind.extents, factor.attributes)):
            return None
        reading = replace(node, inputs=(node.inputs[0], factor.outputs[0]))
        return replace(made, nodes=(*made.nodes, reading))

    return rewrite(graph, (rule,))


def _is_of_product(graph: Graph, name: str) -> bool:
    """Whether a value of known extents is a product of rows, moved, that nothing else reads."""
    kind = graph.types.get(name)
    if not isinstance(kind, TensorType) or not kind.static or len(kind.extents) < 3:
        return False
    while graph.readers(name) == 1 and name not in graph.outputs:
        node = graph.producers.get(name)
        if node is None or not has_trait(node.op, Trait.MOVEMENT):
            return node is not None and node.op == "vdla.QDense"
        name = node.inputs[0]
    return False


def _factor(graph: Graph, name: str) -> Replacement | None:
    """The nodes that make the factor `name`; the transpose of one is taken from its rows."""
    node, kind = graph.producers[name], graph.tensor(name)
    made = fresh_name(graph, f"{name}_factor")
    types: dict[str, TensorType] = {made: kind}
    perm = tuple(node.attributes.get("perm", ())) if node.op == "Transpose" else ()
    rank = len(kind.extents)
    if perm == (*range(rank - 2), rank - 1, rank - 2):
        return _made((), node.inputs[0], made, types, transposed=1)
    if perm == _TRANSPOSED_HEADS:
        heads, extents = fresh_name(graph, f"{name}_heads"), kind.extents
        types[heads] = replace(kind, shape=(*extents[:2], extents[3], extents[2]))
        turned = replace(node, outputs=(heads,), attributes={**node.attributes, "perm": _HEADS})
        return _made((turned,), heads, made, types, transposed=1)
    return _made((), name, made, types, transposed=0)


def _made(
    before: tuple[Node, ...], source: str, result: str, types: dict[str, TensorType], transposed: int
) -> Replacement:
    node = Node("vdla.QFactor", (source,), (result,), {"transposed": transposed}, result)
    return Replacement((*before, node), {}, dict(types))

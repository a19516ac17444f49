"""The passes that every network goes through first, with our kernels and functions to fold with."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.graph import Array, Graph, Node
from vdla.compiler.graph.onnx import infer_node_types
from vdla.compiler.graph.passes import (
    GraphPass,
    fold_batch_norm,
    fold_constants,
    fuse_qdq,
    merge_common_subexpressions,
    settle_empties,
    simplify,
)
from vdla.runtime.evaluate.nodes import evaluate_node


def _evaluate(node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
    return evaluate_node(node, inputs, prefer="numpy")


def _fold(graph: Graph) -> Graph:
    """The graph with constants folded; shapes that these decide may show values without elements,
    which are further constants.
    """
    while True:
        folded = fold_constants(graph, _evaluate, infer=infer_node_types)
        graph = settle_empties(folded)
        if graph is folded:
            return folded


def _fold_all(graph: Graph) -> Graph:
    return fold_constants(graph, _evaluate, keep=(), infer=infer_node_types)


PREPARATION = (
    GraphPass("settle_empties", settle_empties),
    GraphPass("fold_constants", _fold),
    GraphPass("simplify", simplify),
    GraphPass("fold_batch_norm", fold_batch_norm),
    GraphPass("merge_common_subexpressions", merge_common_subexpressions),
)
"""The passes that keep a float network as it is, in order."""

INTEGER = (
    GraphPass("fuse_qdq", lambda graph: fuse_qdq(graph, _evaluate)),
    GraphPass("fold_quantised_constants", _fold_all),
    GraphPass("simplify_integers", simplify),
)
"""The passes that make integer operators of a quantised network."""

REGIONS = (
    GraphPass("simplify_regions", simplify),
    GraphPass("fold_packed_constants", _fold_all),
)
"""The passes after nodes are placed on the accelerator."""

"""From a model to an artifact: import, passes, fusion, kernels.

    model = compile_network("model.onnx", "host")
    y = model(x)

`prepare` is the part before devices are chosen; `observe` sees the graph after every pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.compiler.graph import Array, Graph, Node
from vdla.compiler.graph.integer import fuse_qdq
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import (
    GraphPass,
    Observer,
    fold_batch_norm,
    fold_constants,
    merge_common_subexpressions,
    run_passes,
    simplify,
)
from vdla.compiler.graph.rules.fusion import fuse
from vdla.compiler.target import Target
from vdla.runtime.evaluate import evaluate_node
from vdla.runtime.network.build import RESHAPES, build_artifact
from vdla.runtime.network.model import Model

if TYPE_CHECKING:
    import onnx

Source = Any  # a file, its content, an onnx.ModelProto or a Graph


def compile_network(
    source: onnx.ModelProto | Graph | bytes | str | Path,
    target: Target | str = "host",
    *,
    extents: Mapping[str, int] | None = None,
    observe: Observer | None = None,
) -> Model:
    """A model, compiled for a CPU.

    Raises:
        OnnxError, UnsupportedError: the model is not valid, or has nodes that cannot run here.
        ModelError: nodes that no device can run; the message lists all of them.
    """
    machine = Target.named(target) if isinstance(target, str) else target
    graph = source if isinstance(source, Graph) else import_model(source, extents=extents)
    graph = run_passes(graph, (*PREPARATION, *INTEGER), observe)
    graph = run_passes(graph, [GraphPass("fuse", _fuse)], observe)
    return Model(build_artifact(graph, machine, _origin(source)))


def _evaluate(node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
    return evaluate_node(node, inputs, prefer="numpy")


def _fuse(graph: Graph) -> Graph:
    return fuse(graph, lambda node: node.op not in RESHAPES)


PREPARATION = (
    GraphPass("fold_constants", lambda graph: fold_constants(graph, _evaluate)),
    GraphPass("simplify", simplify),
    GraphPass("fold_batch_norm", fold_batch_norm),
    GraphPass("merge_common_subexpressions", merge_common_subexpressions),
)
"""The passes that keep a float network as it is, in order."""

INTEGER = (
    GraphPass("fuse_qdq", lambda graph: fuse_qdq(graph, _evaluate)),
    GraphPass("fold_quantised_constants", lambda graph: fold_constants(graph, _evaluate, keep=())),
    GraphPass("simplify_integers", simplify),
)
"""The passes that make integer operators of a quantised network."""


def _origin(source: Source) -> dict[str, str]:
    """Where a model comes from, and what compiled it."""
    made = {package: version(package) for package in ("vdla", "numpy", "llvmlite")}
    if isinstance(source, str | Path):
        made["source"] = Path(source).name
    return made

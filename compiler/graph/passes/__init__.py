"""Passes over graphs: functions from graph to graph."""

from vdla.compiler.graph.passes.batch_norm import fold_batch_norm
from vdla.compiler.graph.passes.common_subexpressions import is_random, merge_common_subexpressions
from vdla.compiler.graph.passes.empties import settle_empties
from vdla.compiler.graph.passes.fold_constants import Evaluate, InferNode, fold_constants
from vdla.compiler.graph.passes.own_constants import with_own_constants
from vdla.compiler.graph.passes.pipeline import GraphPass, Observer, changes, run_passes
from vdla.compiler.graph.passes.simplify import simplify

__all__ = [
    "Evaluate",
    "GraphPass",
    "InferNode",
    "Observer",
    "changes",
    "fold_batch_norm",
    "fold_constants",
    "is_random",
    "merge_common_subexpressions",
    "run_passes",
    "settle_empties",
    "simplify",
    "with_own_constants",
]

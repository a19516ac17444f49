# SPDX-License-Identifier: Apache-2.0
"""Passes over graphs: functions from graph to graph."""

from vdla.compiler.graph.passes.batch_norm import fold_batch_norm
from vdla.compiler.graph.passes.common_subexpressions import are_equal, is_random, merge_common_subexpressions
from vdla.compiler.graph.passes.empties import settle_empties
from vdla.compiler.graph.passes.fold_constants import Evaluate, InferNode, fold_constants, with_inner_constants
from vdla.compiler.graph.passes.for_machine import for_machine, for_other_devices
from vdla.compiler.graph.passes.fuse_qdq import FusedGraph, explain_fusion, fuse_qdq
from vdla.compiler.graph.passes.fusion import fuse
from vdla.compiler.graph.passes.layouts import REPACK, choose_layouts
from vdla.compiler.graph.passes.machine_rounding import round_as_machine
from vdla.compiler.graph.passes.mapped_scans import map_scans
from vdla.compiler.graph.passes.movements import is_movement
from vdla.compiler.graph.passes.pipeline import GraphPass, Observer, changes, run_passes
from vdla.compiler.graph.passes.resident_caches import has_resident_caches, resident_caches, why_not_cached
from vdla.compiler.graph.passes.row_functions import row_functions
from vdla.compiler.graph.passes.second_factors import second_factors
from vdla.compiler.graph.passes.simplify import simplify
from vdla.compiler.graph.passes.symmetric_factors import symmetric_factors
from vdla.compiler.graph.passes.tabular import expand_tabular

__all__ = [
    "REPACK",
    "Evaluate",
    "FusedGraph",
    "GraphPass",
    "InferNode",
    "Observer",
    "are_equal",
    "changes",
    "choose_layouts",
    "expand_tabular",
    "explain_fusion",
    "fold_batch_norm",
    "fold_constants",
    "for_machine",
    "for_other_devices",
    "fuse",
    "fuse_qdq",
    "has_resident_caches",
    "is_movement",
    "is_random",
    "map_scans",
    "merge_common_subexpressions",
    "resident_caches",
    "round_as_machine",
    "row_functions",
    "run_passes",
    "second_factors",
    "settle_empties",
    "simplify",
    "symmetric_factors",
    "why_not_cached",
    "with_inner_constants",
]

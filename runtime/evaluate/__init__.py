"""Graphs evaluated node by node on arrays, with compiled kernels and NumPy functions.

The values decide the shapes, so that graphs with symbols and data-dependent shapes run as well.
"""

from vdla.runtime.evaluate.errors import EvaluationError
from vdla.runtime.evaluate.evaluator import Evaluator, evaluate
from vdla.runtime.evaluate.kernels import KernelCache, node_kernel
from vdla.runtime.evaluate.nodes import evaluate_node
from vdla.runtime.evaluate.passes import INTEGER, PREPARATION, REGIONS

__all__ = [
    "INTEGER",
    "PREPARATION",
    "REGIONS",
    "EvaluationError",
    "Evaluator",
    "KernelCache",
    "evaluate",
    "evaluate_node",
    "node_kernel",
]

"""The error of evaluation."""

from __future__ import annotations

from vdla.compiler.graph import GraphError


class EvaluationError(GraphError):
    """Inputs that a graph refuses, or a node that cannot be evaluated on them."""

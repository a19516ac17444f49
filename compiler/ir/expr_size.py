"""The size of an expression tree, limited in depth and in nodes.

Traversal is recursive and linear in the size of the tree. Since subexpressions can be shared, a few
lines of Python can describe a tree too large to traverse.
"""

from __future__ import annotations

from typing import NamedTuple

from vdla.compiler.ir.nodes import Expr
from vdla.compiler.ir.traversal import operands

MAX_DEPTH = 160  # each level takes several frames of Python's stack
_MAX_NODES = 1 << 16


class ExprSize(NamedTuple):
    """The depth of a tree and its node count; a shared subtree counts at each occurrence."""

    depth: int
    nodes: int


def size_of(expr: Expr) -> ExprSize:
    """The size of an expression, in time linear in its distinct nodes."""
    known: dict[int, ExprSize] = {}
    pending = [expr]
    while pending:
        parts = operands(pending[-1])
        missing = [part for part in parts if id(part) not in known]
        if missing:
            pending += missing
            continue
        sizes = [known[id(part)] for part in parts]
        own = ExprSize(1 + max((size.depth for size in sizes), default=0), 1 + sum(size.nodes for size in sizes))
        known[id(pending.pop())] = own
    return known[id(expr)]


def size_violation(expr: Expr) -> str | None:
    """The limit that an expression exceeds, as `must ..., got ...`; None if it is within all."""
    size = size_of(expr)
    if size.depth > MAX_DEPTH:
        return f"must nest at most {MAX_DEPTH} operations deep, got {size.depth}"
    if size.nodes > _MAX_NODES:
        return f"must have at most {_MAX_NODES} operations, got {size.nodes}"
    return None

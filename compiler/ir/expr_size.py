"""How large an expression is: whoever walks it takes as many steps as it has nodes, and calls as deep as it is.

Expressions share parts, so that a few lines of Python write down more than there is time for; both are limited.
"""

from __future__ import annotations

from typing import NamedTuple

from vdla.compiler import ir

MAX_DEPTH = 160  # each level takes a few frames of Python's stack
MAX_NODES = 1 << 16


class Size(NamedTuple):
    """The longest way down, and the nodes with each shared part counted as often as it is there."""

    depth: int
    nodes: int


def size_of(expr: ir.Expr) -> Size:
    """The size of an expression, for which each part is looked at once."""
    known: dict[int, Size] = {}
    pending = [expr]
    while pending:
        parts = ir.operands(pending[-1])
        missing = [part for part in parts if id(part) not in known]
        if missing:
            pending += missing
            continue
        sizes = [known[id(part)] for part in parts]
        own = Size(1 + max((size.depth for size in sizes), default=0), 1 + sum(size.nodes for size in sizes))
        known[id(pending.pop())] = own
    return known[id(expr)]


def refusal(expr: ir.Expr) -> str | None:
    """What an expression breaks, as `must ..., got ...`; None if it is small enough."""
    size = size_of(expr)
    if size.depth > MAX_DEPTH:
        return f"must nest at most {MAX_DEPTH} operations deep, got {size.depth}"
    if size.nodes > MAX_NODES:
        return f"must have at most {MAX_NODES} operations, got {size.nodes}"
    return None

"""The values that occur several times in a statement.

Expressions are compared by structure: passes copy what a tensor expression shares. Each distinct
expression has a number, found in time linear in the size of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vdla.compiler import ir
from vdla.compiler.codegen.opencl.indices import is_index

_FEW_NODES = 3  # an expression of so few nodes is repeated rather than kept in a variable


@dataclass(slots=True)
class ExpressionNumbers:
    """Numbers of expressions: equal ones have one number."""

    known: dict[tuple[object, ...], int] = field(default_factory=dict)
    seen: dict[int, tuple[ir.Expr, int]] = field(default_factory=dict)

    def __getitem__(self, expr: ir.Expr) -> int:
        if id(expr) not in self.seen:
            key = (type(expr), _label(expr), *(self[operand] for operand in ir.operands(expr)))
            self.seen[id(expr)] = expr, self.known.setdefault(key, len(self.known))
        return self.seen[id(expr)][1]


def _label(expr: ir.Expr) -> object:
    """What an expression has beside its operands."""
    match expr:
        case ir.Var(name=name):
            return name
        case ir.Const(value=value, dtype=dtype):
            return repr(value), dtype
        case ir.Binary(op=op):
            return op
        case ir.Cast(dtype=dtype):
            return dtype
        case ir.Load(buffer=buffer):
            return buffer
        case ir.Call(name=name, dtype=dtype):
            return name, dtype
    return None


def repeated(roots: Sequence[ir.Expr], numbers: ExpressionNumbers) -> list[ir.Expr]:
    """The expressions that occur several times in `roots`, operands first.

    Without those that read memory and stand under a condition somewhere, which may guard the read.
    """
    walk = _Walk(numbers)
    for root in roots:
        walk.visit(root, under=False)
    return [
        expr
        for expr in walk.order
        if walk.counts[numbers[expr]] > 1
        and ir.size_of(expr).nodes > _FEW_NODES
        and not (numbers[expr] in walk.hidden and _reads(expr))
    ]


@dataclass(slots=True)
class _Walk:
    """Counts the occurrences of expressions as operands of distinct ones."""

    numbers: ExpressionNumbers
    counts: dict[int, int] = field(default_factory=dict)
    order: list[ir.Expr] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)

    def visit(self, expr: ir.Expr, *, under: bool) -> None:
        """Count an occurrence, `under` a condition or not."""
        number = self.numbers[expr]
        first, exposes = number not in self.counts, under and number not in self.hidden
        self.counts[number] = self.counts.get(number, 0) + 1
        if under:
            self.hidden.add(number)
        if not first and not exposes:
            return
        for operand, guarded in _operands(expr):
            self.visit(operand, under=under or guarded)
            if not first:
                self.counts[self.numbers[operand]] -= 1  # seen before, without the condition
        if first:
            self.order.append(expr)


def _operands(expr: ir.Expr) -> list[tuple[ir.Expr, bool]]:
    """The operands that are values, and whether each is evaluated under a condition only."""
    match expr:
        case ir.Select(cond=cond, a=a, b=b):
            return [(cond, False), (a, True), (b, True)]
        case ir.Binary(op="and" | "or", a=a, b=b):
            return [(a, False), (b, True)]
        case ir.Load(indices=indices):
            return [(index, False) for index in indices if not is_index(index)]
    return [(operand, False) for operand in ir.operands(expr)]


def _reads(expr: ir.Expr) -> bool:
    return any(isinstance(inner, ir.Load) for inner in ir.walk_expr(expr))

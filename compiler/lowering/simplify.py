# SPDX-License-Identifier: Apache-2.0
"""Simplify: indices and conditions from the bounds of the loops, dead code, loops of one iteration.

Conditions move out of the loops on which they do not depend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vdla.compiler import ir
from vdla.compiler.arith import (
    FALSE,
    INT32,
    TRUE,
    Linear,
    Range,
    conjunction,
    conjuncts,
    last_value,
    linear,
    linear_bounds,
    scalar_ranges,
    simplify,
    var_names,
)
from vdla.compiler.ir import map_match, map_operands, map_prefetch, map_store, reads_memory

_SLACK = 1 << 16  # allowance beyond int32 for symbolic extents, such as the 7 of (n + 7) // 8
_LOWEST, _HIGHEST = INT32[0] - _SLACK, INT32[1] + _SLACK
_PURE_OPS = (*ir.INDEX_OPS, *ir.COMPARE_OPS, "and", "or")


@dataclass(frozen=True, slots=True)
class Scope:
    """The facts at a point: bounds of variables, values to substitute, known conditions.

    `ranges` has the outermost loop first.
    """

    ranges: Mapping[str, Range]
    values: Mapping[str, ir.Expr] = field(default_factory=dict)
    known: frozenset[ir.Expr] = frozenset()

    def inside(self, loop: ir.For) -> Scope:
        """The scope inside a loop."""
        values = {name: value for name, value in self.values.items() if name != loop.var}
        ranges = {name: bound for name, bound in self.ranges.items() if name != loop.var}
        known = frozenset(c for c in self.known if loop.var not in var_names(c)) if self.known else self.known
        return Scope({**ranges, loop.var: (0, last_value(loop.extent, self.ranges))}, values, known)

    def where(self, cond: ir.Expr) -> Scope:
        """The scope in which a condition, simplified in this scope, holds."""
        ranges = dict(self.ranges)
        parts = conjuncts(cond)
        for part in parts:
            _narrow(ranges, part)
        return replace(self, ranges=ranges, known=self.known | set(parts))

    def bound(self, name: str, value: ir.Expr) -> Scope:
        """The scope in which a variable is replaced by a value."""
        return replace(self, values={**self.values, name: value})

    def index(self, expr: ir.Expr) -> ir.Expr:
        """A simplified index, its terms in loop order."""
        return self.value(expr, ordered=True)

    def value(self, expr: ir.Expr, *, ordered: bool = False) -> ir.Expr:
        """A value with the indices and conditions inside simplified; with `ordered`, an index."""
        match expr:
            case ir.Load(buffer=buffer, indices=indices):
                new = tuple(self.index(index) for index in indices)
                return expr if new == indices else ir.Load(buffer, new)
            case ir.Select(cond=cond, a=a, b=b):
                return self.select(expr, self.condition(cond), a, b)
            case ir.Var(name=name):
                return self.values.get(name, expr)
            case ir.Binary() if ordered and is_pure(expr):
                return self.arithmetic(expr)
        return map_operands(expr, self.value)

    def select(self, old: ir.Select, cond: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        """A select, or the operand that it always selects."""
        if cond in (TRUE, FALSE):
            return self.value(a if cond == TRUE else b)
        new = (cond, self.value(a), self.value(b))
        return old if new == (old.cond, old.a, old.b) else ir.Select(*new)

    def condition(self, expr: ir.Expr) -> ir.Expr:
        """A simplified condition, constant if it is decided in this scope."""
        match expr:
            case ir.Binary(op="and" | "or", a=a, b=b) if not is_pure(expr):
                return _connect(expr.op, self.condition(a), self.condition(b))
            case ir.Binary() if is_pure(expr):
                return self.without_known(self.arithmetic(expr))
        return self.value(expr)

    def without_known(self, expr: ir.Expr) -> ir.Expr:
        """A condition without its conjuncts known to hold."""
        if not self.known:
            return expr
        parts = [part for part in conjuncts(expr) if part not in self.known]
        return conjunction(parts) if len(parts) < len(conjuncts(expr)) else expr

    def arithmetic(self, expr: ir.Expr) -> ir.Expr:
        """Simplified arithmetic on loop variables, after substitution."""
        full = ir.substitute(expr, self.values) if self.values else expr
        return self.sorted(simplify(full, self.ranges) if _is_exact(full, self.ranges) else self.by_parts(full))

    def by_parts(self, expr: ir.Expr) -> ir.Expr:
        """Arithmetic with an operation that may wrap, its operands simplified."""
        return map_operands(expr, lambda e: simplify(e, self.ranges) if _is_exact(e, self.ranges) else self.by_parts(e))

    def sorted(self, expr: ir.Expr) -> ir.Expr:
        """An expression with the terms of its sums in loop order."""
        if isinstance(expr, ir.Binary) and expr.op in ("add", "sub", "mul"):
            depth = {name: n for n, name in enumerate(self.ranges)}
            form = linear(expr)
            if len(form.terms) < 2 and not (form.const and form.terms):
                return expr
            place = {t: max((depth.get(v, 0) for v in var_names(t)), default=0) for t in form.terms}
            terms = sorted(form.terms.items(), key=lambda item: place[item[0]])
            return Linear({self.sorted(term): factor for term, factor in terms}, form.const).expr()
        return map_operands(expr, self.sorted)


def is_pure(expr: ir.Expr) -> bool:
    """Whether an expression is arithmetic on int32 variables and constants alone."""
    match expr:
        case ir.Var():
            return True
        case ir.Const(dtype=dtype):
            return dtype in ("int32", "bool")
        case ir.Binary(op=op, a=a, b=b):
            return op in _PURE_OPS and is_pure(a) and is_pure(b)
    return False


def _is_exact(expr: ir.Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether no operand of a comparison, division, minimum or maximum in `expr` can wrap."""
    if not isinstance(expr, ir.Binary):
        return True
    if expr.op in ("add", "sub", "mul", "and", "or"):
        return _is_exact(expr.a, ranges) and _is_exact(expr.b, ranges)
    sides = [linear_bounds(linear(side), ranges) for side in (expr.a, expr.b)]
    exact = all(low >= _LOWEST and high <= _HIGHEST for low, high in sides)
    return exact and _is_exact(expr.a, ranges) and _is_exact(expr.b, ranges)


def _connect(op: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """`a and b` or `a or b` without constant operands."""
    identity, absorbing = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    if absorbing in (a, b):
        return absorbing
    return b if a == identity else a if b == identity else ir.Binary(op, a, b)


def _narrow(ranges: dict[str, Range], cond: ir.Expr) -> None:
    """Narrows the bounds of the variable in a comparison of one variable with a constant."""
    if not isinstance(cond, ir.Binary) or cond.op not in ir.COMPARE_OPS or not is_pure(cond):
        return
    form = linear(cond.a) - linear(cond.b)
    match list(form.terms.items()):
        case [(ir.Var(name=name), (1 | -1) as sign)] if name in ranges:
            op = cond.op if sign > 0 else ir.MIRRORED[cond.op]
            edge, (low, high) = -form.const * sign, ranges[name]
            least = {"gt": edge + 1, "ge": edge, "eq": edge}.get(op, low)
            most = {"lt": edge - 1, "le": edge, "eq": edge}.get(op, high)
            ranges[name] = (max(low, least), min(high, most))


EMPTY = ir.Seq(())  # occurs only as the body of a function that does nothing


def simplify_function(fn: ir.Function) -> ir.Function:
    """`fn` with simpler indices and conditions.

    for i in range(4):                         for i in range(4):
        for j in range(1):               ->        c[i * 2] = a[i * 2]
            if i * 2 + j < 8:
                c[i * 2 + j] = a[j + i * 2]
    """
    return replace(fn, body=simplify_stmt(fn.body, Scope(scalar_ranges(fn))))


def simplify_stmt(stmt: ir.Stmt, scope: Scope) -> ir.Stmt:
    """`stmt` simplified in `scope`; EMPTY if it has no effect."""
    match stmt:
        case ir.For():
            return _simplify_loop(stmt, scope)
        case ir.If(cond=cond, body=body):
            return _simplify_if(scope.condition(cond), body, scope)
        case ir.Seq(stmts=stmts):
            return ir.seq(*(simplify_stmt(inner, scope) for inner in stmts))
        case ir.Store():
            return map_store(stmt, scope.index, scope.value)
        case ir.Prefetch():
            return map_prefetch(stmt, scope.index)
        case ir.MultiStore(stores=stores):
            return ir.MultiStore(tuple(map_store(store, scope.index, scope.value) for store in stores))
        case ir.Alloc(buffers=buffers, body=body):
            inside = simplify_stmt(body, scope)
            return inside if inside == EMPTY else ir.Alloc(buffers, inside)
        case ir.Atomic(body=body):
            return ir.Atomic(simplify_stmt(body, scope))
        case ir.Shuffle(body=body):
            return replace(stmt, body=simplify_stmt(body, scope))
        case ir.IntrinsicCall(match=match, body=body):
            return ir.IntrinsicCall(map_match(match, scope.condition), simplify_stmt(body, scope))
    return stmt


def _simplify_loop(stmt: ir.For, scope: Scope) -> ir.Stmt:
    """A loop, or its body if it has one iteration."""
    extent = stmt.extent if isinstance(stmt.extent, int) else to_extent(scope.index(stmt.extent))
    if extent == 1:
        return simplify_stmt(stmt.body, scope.bound(stmt.var, ir.Const(0)))
    if isinstance(extent, int) and extent <= 0:
        return EMPTY
    new = replace(stmt, extent=extent)
    return close_loop(new, simplify_stmt(stmt.body, scope.inside(new)))


def close_loop(loop: ir.For, body: ir.Stmt) -> ir.Stmt:
    """A loop around a simplified body, invariant conditions hoisted out of it."""
    if body == EMPTY or ("prefetch" in loop.annotations and _only_prefetches(body)):
        return EMPTY
    outer, body = _hoist(loop.var, body)
    new = replace(loop, body=body)
    return new if outer == TRUE else ir.If(outer, new)


def _only_prefetches(stmt: ir.Stmt) -> bool:
    """Whether a statement consists of prefetches alone."""
    match stmt:
        case ir.Seq(stmts=stmts):
            return all(_only_prefetches(inner) for inner in stmts)
        case ir.For(body=body) | ir.If(body=body):
            return _only_prefetches(body)
    return isinstance(stmt, ir.Prefetch)


def to_extent(expr: ir.Expr) -> ir.Extent:
    """`expr` as an extent, an int if constant."""
    return int(expr.value) if isinstance(expr, ir.Const) else expr


def _hoist(var: str, body: ir.Stmt) -> tuple[ir.Expr, ir.Stmt]:
    """The loop-invariant part of a body's condition, and the body under the rest of it."""
    if not isinstance(body, ir.If):
        return TRUE, body
    parts = conjuncts(body.cond)
    outer = [part for part in parts if var not in var_names(part) and not reads_memory(part)]
    inner = conjunction(part for part in parts if part not in outer)
    return conjunction(outer), body.body if inner == TRUE else ir.If(inner, body.body)


def _simplify_if(cond: ir.Expr, body: ir.Stmt, scope: Scope) -> ir.Stmt:
    """`body` under the simplified condition `cond`."""
    if cond == FALSE:
        return EMPTY
    if cond == TRUE:
        return simplify_stmt(body, scope)
    inner = simplify_stmt(body, scope.where(cond))
    if inner == EMPTY:
        return EMPTY
    if isinstance(inner, ir.If):
        return ir.If(conjunction([cond, inner.cond]), inner.body)
    return ir.If(cond, inner)

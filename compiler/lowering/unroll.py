# SPDX-License-Identifier: Apache-2.0
"""Unroll: UNROLL loops are replaced by copies of their body.

The copies share expressions that do not depend on the loop, so that later passes can recognise them
by identity. Indices that are constant in a copy are folded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vdla.compiler import ir
from vdla.compiler.arith import FALSE, TRUE, Linear, function_ranges, linear, var_names
from vdla.compiler.ir import extent_text, map_children, map_match, map_operands, map_prefetch, map_store
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.simplify import Scope, is_pure

UNROLL_LIMIT = 1 << 13  # stores; beyond that LLVM takes minutes, without gain
_Env = Mapping[str, int]


def unroll(fn: ir.Function) -> ir.Function:
    """`fn` without UNROLL loops.

    for i in unroll(2):            c[0] = a[0]
        c[i] = a[i]           ->   c[1] = a[1]

    Raises:
        PassError: an UNROLL loop has a symbolic extent or exceeds UNROLL_LIMIT.
    """
    _count_stores(fn.body)
    unrolled = {s.var for s in ir.find(fn.body, ir.For) if s.kind is ir.LoopKind.UNROLL}
    if not unrolled:
        return fn
    writer = _Unroller(Scope(function_ranges(fn)), frozenset(unrolled))
    return replace(fn, body=writer.statement(fn.body, {}))


def _count_stores(stmt: ir.Stmt) -> int:
    """The number of stores in `stmt` after unrolling."""
    if isinstance(stmt, ir.Store):
        return 1
    inside = sum(_count_stores(child) for child in ir.children(stmt))
    if not isinstance(stmt, ir.For) or stmt.kind is not ir.LoopKind.UNROLL:
        return inside
    where = f"unroll of {stmt.var}"
    if not isinstance(stmt.extent, int):
        raise PassError(f"{where}: the extent must be a number, got {extent_text(stmt.extent)}; split the loop first")
    if stmt.extent * inside > UNROLL_LIMIT:
        expansion = f"{stmt.extent} iterations of {inside}"
        raise PassError(f"{where}: the loop must expand to at most {UNROLL_LIMIT} stores, got {expansion}")
    return stmt.extent * inside


@dataclass(slots=True)
class _Unroller:
    """Unrolls loops; an expression is rebuilt once per assignment of the loops it depends on."""

    scope: Scope
    unrolled: frozenset[str]
    free: dict[int, tuple[str, ...]] = field(default_factory=dict)
    forms: dict[int, Linear | None] = field(default_factory=dict)
    done: dict[tuple[int, bool, tuple[int, ...]], ir.Expr] = field(default_factory=dict)

    def statement(self, stmt: ir.Stmt, env: _Env) -> ir.Stmt:
        """`stmt` unrolled, with the loops in `env` at fixed iterations."""
        match stmt:
            case ir.For(var=var, kind=ir.LoopKind.UNROLL, body=body):
                return ir.seq(*(self.statement(body, {**env, var: i}) for i in range(stmt.size)))
            case ir.Store():
                return map_store(stmt, lambda e: self.expr(e, env, True), lambda e: self.expr(e, env, False))
            case ir.Prefetch():
                return map_prefetch(stmt, lambda e: self.expr(e, env, True))
            case ir.If(cond=cond, body=body):
                new = self.expr(cond, env, True)
                if new == FALSE:
                    return ir.Seq(())
                inner = self.statement(body, env)
                return inner if new == TRUE or inner == ir.Seq(()) else ir.If(new, inner)
            case ir.IntrinsicCall(match=match, body=body):
                return ir.IntrinsicCall(map_match(match, lambda e: self.expr(e, env, True)), self.statement(body, env))
        new_stmt = map_children(stmt, lambda child: self.statement(child, env))
        return ir.Seq(()) if ir.children(new_stmt) == (ir.Seq(()),) else new_stmt

    def expr(self, expr: ir.Expr, env: _Env, index: bool) -> ir.Expr:
        """An expression at the iterations `env`; `index` is set for indices and conditions."""
        names = self.names(expr)
        here = tuple(name for name in names if name in env)
        if not here:
            return expr
        key = (id(expr), index, tuple(env[name] for name in here))
        if key not in self.done:
            self.done[key] = self.rebuild(expr, env, here, index)
        return self.done[key]

    def rebuild(self, expr: ir.Expr, env: _Env, here: tuple[str, ...], index: bool) -> ir.Expr:
        """An expression that depends on the loops `here`, rebuilt."""
        if index and is_pure(expr):
            form = self.form(expr)
            if form is not None:
                const = form.const + sum(form.terms.get(ir.Var(n), 0) * env[n] for n in here)
                return Linear({t: f for t, f in form.terms.items() if t.name not in here}, const).expr()  # type: ignore
            return replace(self.scope, values={n: ir.Const(env[n]) for n in here}).condition(expr)
        match expr:
            case ir.Var(name=name):
                return ir.Const(env[name])
            case ir.Load(buffer=buffer, indices=indices):
                return ir.Load(buffer, tuple(self.expr(i, env, True) for i in indices))
            case ir.Select(cond=cond, a=a, b=b):
                test = self.expr(cond, env, True)
                if test in (TRUE, FALSE):
                    return self.expr(a if test == TRUE else b, env, index)
                return ir.Select(test, self.expr(a, env, index), self.expr(b, env, index))
        return map_operands(expr, lambda operand: self.expr(operand, env, False))

    def names(self, expr: ir.Expr) -> tuple[str, ...]:
        """The unrolled loops on which an expression depends; cached."""
        if id(expr) not in self.free:
            self.free[id(expr)] = tuple(sorted(var_names(expr) & self.unrolled))
        return self.free[id(expr)]

    def form(self, expr: ir.Expr) -> Linear | None:
        """An index as an affine form, if it is one; cached."""
        if id(expr) not in self.forms:
            form = linear(expr)
            self.forms[id(expr)] = form if all(isinstance(t, ir.Var) for t in form.terms) else None
        return self.forms[id(expr)]

# SPDX-License-Identifier: Apache-2.0
"""Bounds on the loops of a nest from conditions: a predicate, or the test for padding.

A comparison that is affine in the loops is kept as `form >= 0`; any other condition is evaluated
point by point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vdla.compiler import ir
from vdla.compiler.arith import affine, conjuncts, evaluate, var_names
from vdla.compiler.codegen.vdla.nest import Loop

_Form = tuple[Mapping[str, int], int]
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, and the affine form that is >= 0 exactly where it holds, if there is one."""

    expr: ir.Expr
    form: _Form | None


@dataclass(slots=True)
class Bounds:
    """The first iteration of each loop and its end, under some conditions.

    `irregular` is a loop whose iterations do not form a range.
    """

    start: dict[str, int] = field(default_factory=dict)
    end: dict[str, int] = field(default_factory=dict)
    irregular: str | None = None

    def of(self, loop: Loop) -> _Range:
        """The first iteration and the end of a loop, inside its extent."""
        start = min(max(self.start.get(loop.var, 0), 0), loop.extent)
        return start, max(start, min(self.end.get(loop.var, loop.extent), loop.extent))


def comparisons(exprs: Iterable[ir.Expr]) -> tuple[Condition, ...]:
    """The conditions whose conjunction is that of `exprs`; an equality becomes two comparisons."""
    result: list[Condition] = []
    for expr in (part for whole in exprs for part in conjuncts(whole)):
        match expr:
            case ir.Binary(op="eq", a=a, b=b):
                result += [_condition(ir.Binary("ge", a, b)), _condition(ir.Binary("le", a, b))]
            case _:
                result.append(_condition(expr))
    return tuple(result)


def _condition(expr: ir.Expr) -> Condition:
    if not isinstance(expr, ir.Binary) or expr.op not in ("lt", "le", "gt", "ge"):
        return Condition(expr, None)
    more, less = (expr.b, expr.a) if expr.op in ("lt", "le") else (expr.a, expr.b)
    form = affine(ir.Binary("sub", more, less))
    return Condition(expr, None if form is None else (form[0], form[1] - (expr.op in ("lt", "gt"))))


def loop_bounds(conditions: Iterable[Condition], loops: Iterable[Loop], env: Mapping[str, int]) -> Bounds | None:
    """The bounds of the loops under the conditions, None if no iteration is left.

    `env` has the values of the loops outside.
    """
    result = Bounds()
    extents = {loop.var: loop.extent for loop in loops}
    for condition in conditions:
        if not _narrow(result, condition, extents, env):
            return None
    return result


def _narrow(limits: Bounds, condition: Condition, extents: Mapping[str, int], env: Mapping[str, int]) -> bool:
    """Narrow the bounds by one condition; False if it cannot hold."""
    if condition.form is None:
        free = sorted(var_names(condition.expr) & set(extents))
        if not free:
            return bool(evaluate(condition.expr, env, default=0))
        limits.irregular = free[0]
        return True
    steps, const = condition.form
    const += sum(step * env[v] for v, step in steps.items() if v in env)
    free = [v for v, step in steps.items() if v in extents and step]
    if len(free) > 1:
        limits.irregular = free[0]
    if len(free) != 1:
        return bool(free) or const >= 0
    var, step = free[0], steps[free[0]]
    if step > 0:  # step * var >= -const
        limits.start[var] = max(limits.start.get(var, 0), -(const // step))
    else:  # var <= const // -step
        limits.end[var] = min(limits.end.get(var, extents[var]), const // -step + 1)
    return True


def truth_over(condition: Condition, loops: Iterable[Loop], env: Mapping[str, int]) -> bool | None:
    """Whether the condition holds in every iteration (True), in none (False) or in some (None)."""
    extents = {loop.var: loop.extent for loop in loops}
    if condition.form is None:
        varies = var_names(condition.expr) & set(extents)
        return None if varies else bool(evaluate(condition.expr, env, default=0))
    steps, const = condition.form
    low = high = const + sum(step * env[v] for v, step in steps.items() if v in env)
    for var, extent in extents.items():
        reach = steps.get(var, 0) * (extent - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    return True if low >= 0 else False if high < 0 else None

"""Index arithmetic: affine forms, interval bounds, simplification; `evaluate` has values.

Everything here is exact integer arithmetic on int32 index expressions. `ranges` maps a variable to its inclusive
bounds; a variable or an element that has none may be any int32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.ir.dtypes import is_float, is_integer
from vdla.support.errors import Error

Range = tuple[int, int]
Ranges = Mapping[str, Range]
ANY: Range = (-(1 << 31), (1 << 31) - 1)
TRUE = ir.Const(True, "bool")
FALSE = ir.Const(False, "bool")

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0, "min": min, "max": max,
    "shl": lambda a, b: a << b, "shr": lambda a, b: a >> b, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


class AffineError(Error, ValueError):
    """An index expression that has no value: it reads a buffer or a variable that is not known, or narrows one."""


def var_names(expr: ir.Expr) -> set[str]:
    """The variables in `expr`."""
    return {e.name for e in ir.walk_expr(expr) if isinstance(e, ir.Var)}


# --- sums of terms ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Linear:
    """`const` + the sum of coefficient x term; a term is a variable or a whole expression that is not a sum."""

    terms: Mapping[ir.Expr, int]
    const: int = 0

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for term, factor in other.terms.items():
            terms[term] = terms.get(term, 0) + factor
        return Linear({t: f for t, f in terms.items() if f}, self.const + other.const)

    def scaled(self, factor: int) -> Linear:
        """Every coefficient times `factor`."""
        return Linear({t: f * factor for t, f in self.terms.items()} if factor else {}, self.const * factor)

    def only(self, keep: Callable[[ir.Expr], bool]) -> Linear:
        """The terms that `keep` wants, without the constant."""
        return Linear({t: f for t, f in self.terms.items() if keep(t)})

    def expr(self) -> ir.Expr:
        """As an expression: the terms in order, then the constant."""
        parts = [times(t, f) for t, f in self.terms.items()]
        if not parts:
            return ir.Const(self.const)
        total = parts[0]
        for part in parts[1:]:
            total = ir.Binary("add", total, part)
        if self.const:
            total = ir.Binary("add" if self.const > 0 else "sub", total, ir.Const(abs(self.const)))
        return total


def times(term: ir.Expr, factor: int) -> ir.Expr:
    """`term * factor`."""
    return term if factor == 1 else ir.Binary("mul", term, ir.Const(factor))


def linear(expr: ir.Expr) -> Linear:
    """`expr` as a sum of terms; only of integers are numbers constants of it."""
    match expr:
        case ir.Const(value=value, dtype=dtype) if is_integer(dtype):
            return Linear({}, int(value))
        case ir.Binary(op="add", a=a, b=b):
            return linear(a) + linear(b)
        case ir.Binary(op="sub", a=a, b=b):
            return linear(a) + linear(b).scaled(-1)
        case ir.Binary(op="mul", a=a, b=b):
            left, right = linear(a), linear(b)
            if not right.terms:
                return left.scaled(right.const)
            if not left.terms:
                return right.scaled(left.const)
    return Linear({expr: 1})


def affine(expr: ir.Expr) -> tuple[dict[str, int], int] | None:
    """`expr` as (coefficient of each variable, constant); None if it is not affine."""
    form = linear(expr)
    if not all(isinstance(term, ir.Var) for term in form.terms):
        return None
    return {term.name: factor for term, factor in form.terms.items() if isinstance(term, ir.Var)}, form.const


# --- bounds ----------------------------------------------------------------------------------------------------------


def bounds(expr: ir.Expr, ranges: Ranges) -> Range:
    """The smallest interval, inclusive, that is known to hold every value of `expr`."""
    match expr:
        case ir.Var(name=name):
            return ranges.get(name, ANY)
        case ir.Const(value=value, dtype=dtype) if not is_float(dtype):
            return int(value), int(value)
        case ir.Binary(op="add" | "sub" | "mul"):
            return sum_bounds(expr, ranges)
        case ir.Binary(op=op, a=a, b=b):
            return operation_bounds(op, bounds(a, ranges), bounds(b, ranges))
        case ir.Select(cond=cond, a=a, b=b):
            return select_bounds(bounds(cond, ranges), bounds(a, ranges), bounds(b, ranges))
        case ir.Cast(dtype="int32" | "int64", value=value):
            return bounds(value, ranges)
    return ANY


def sum_bounds(expr: ir.Binary, ranges: Ranges) -> Range:
    """Bounds of a sum or product, term by term, so that what cancels does not count."""
    form = linear(expr)
    if form.terms == {expr: 1}:
        corners = [x * y for x in bounds(expr.a, ranges) for y in bounds(expr.b, ranges)]
        return min(corners), max(corners)
    return linear_bounds(form, ranges)


def linear_bounds(form: Linear, ranges: Ranges) -> Range:
    """Bounds of a sum of terms."""
    low = high = form.const
    for term, factor in form.terms.items():
        a, b = bounds(term, ranges)
        low += min(a * factor, b * factor)
        high += max(a * factor, b * factor)
    return low, high


def operation_bounds(op: str, a: Range, b: Range) -> Range:
    """Bounds of an operation that is not a sum."""
    if op in ir.COMPARE_OPS:
        return compare_bounds(op, a, b)
    if op == "mod" and b[0] == b[1] > 0:
        return a if a[0] >= 0 and a[1] < b[0] else (0, b[0] - 1)
    if op in ("min", "max"):
        return FUNCTIONS[op](a[0], b[0]), FUNCTIONS[op](a[1], b[1])
    if b[0] == b[1] and ((op == "floordiv" and b[0] > 0) or (op in ("shr", "shl") and 0 <= b[0] < 64)):
        return FUNCTIONS[op](a[0], b[0]), FUNCTIONS[op](a[1], b[0])
    if op in ir.LOGIC_OPS and min(a[0], b[0]) >= 0 and max(a[1], b[1]) <= 1:
        if op == "xor" and (a[0] < a[1] or b[0] < b[1]):
            return 0, 1
        return FUNCTIONS[op](a[0], b[0]), FUNCTIONS[op](a[1], b[1])
    return ANY


def compare_bounds(op: str, a: Range, b: Range) -> Range:
    """(1, 1) for what always holds, (0, 0) for what never holds, else (0, 1)."""
    always = {"lt": a[1] < b[0], "le": a[1] <= b[0], "gt": a[0] > b[1], "ge": a[0] >= b[1],
              "eq": a[0] == a[1] == b[0] == b[1], "ne": a[1] < b[0] or b[1] < a[0]}  # fmt: skip
    opposite = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
    return (1, 1) if always[op] else (0, 0) if always[opposite[op]] else (0, 1)


def select_bounds(cond: Range, a: Range, b: Range) -> Range:
    """Bounds of a select."""
    if cond[0] == cond[1]:
        return a if cond[0] else b
    return min(a[0], b[0]), max(a[1], b[1])


def overlapping(form: Linear, ranges: Ranges) -> set[str]:
    """The variables of a sum that can give one value in several ways, as y * 2 + k does with k in [0, 3).

    None where each coefficient exceeds what the terms with smaller ones add up to.
    """
    reach, overlaps = 0, False
    terms = [(abs(factor), bounds(term, ranges)) for term, factor in form.terms.items()]
    for factor, (low, high) in sorted(terms):
        overlaps |= factor <= reach and high > low
        reach += factor * (high - low)
    return set().union(*(var_names(term) for term in form.terms)) if overlaps else set()


# --- simplification --------------------------------------------------------------------------------------------------


def simplify(expr: ir.Expr, ranges: Ranges) -> ir.Expr:
    """An index expression or condition of the same value, sums collected, divisions and comparisons decided."""
    match expr:
        case ir.Binary(op="add" | "sub" | "mul", a=a, b=b):
            return collected(linear(ir.Binary(expr.op, simplify(a, ranges), simplify(b, ranges)))).expr()
        case ir.Binary(op="floordiv" | "mod", a=a, b=ir.Const(value=divisor)) if int(divisor) > 0:
            return divided(expr.op, collected(linear(simplify(a, ranges))), int(divisor), ranges)
        case ir.Binary(op="and" | "or"):
            return simplify_logic(expr, ranges)
        case ir.Binary(op=op, a=a, b=b) if op in ir.COMPARE_OPS and not (ir.is_condition(a) or ir.is_condition(b)):
            return decided(op, simplify(a, ranges), simplify(b, ranges), ranges)
        case ir.Binary(op="min" | "max", a=a, b=b):
            return chosen(expr.op, simplify(a, ranges), simplify(b, ranges), ranges)
    old = ir.operands(expr)
    new = tuple(simplify(operand, ranges) for operand in old)
    return expr if new == old else ir.with_operands(expr, new)


def collected(form: Linear) -> Linear:
    """The sum with `x // c * c + x % c` put together to `x` again."""
    for term, factor in form.terms.items():
        if isinstance(term, ir.Binary) and term.op == "mod" and isinstance(term.b, ir.Const):
            whole = ir.Binary("floordiv", term.a, term.b)
            if form.terms.get(whole) == factor * int(term.b.value):
                rest = Linear({t: f for t, f in form.terms.items() if t not in (term, whole)}, form.const)
                return collected(rest + linear(term.a).scaled(factor))
    return form


def divided(op: str, form: Linear, divisor: int, ranges: Ranges) -> ir.Expr:
    """The quotient or remainder: multiples of the divisor leave it where the rest stays in [0, divisor)."""
    whole = Linear({t: f for t, f in form.terms.items() if f % divisor == 0}, form.const // divisor * divisor)
    rest = form + whole.scaled(-1)
    low, high = linear_bounds(rest, ranges)
    quotient = Linear({t: f // divisor for t, f in whole.terms.items()}, whole.const // divisor)
    if low // divisor == high // divisor:
        shift = low // divisor
        exact = quotient + Linear({}, shift) if op == "floordiv" else rest + Linear({}, -shift * divisor)
        return exact.expr()
    if op == "mod":
        return ir.Binary("mod", rest.expr(), ir.Const(divisor))
    return (quotient + Linear({ir.Binary("floordiv", rest.expr(), ir.Const(divisor)): 1})).expr()


def decided(op: str, a: ir.Expr, b: ir.Expr, ranges: Ranges) -> ir.Expr:
    """A comparison, or the constant that it always is."""
    difference = linear(a) + linear(b).scaled(-1)
    low, high = compare_bounds(op, linear_bounds(difference, ranges), (0, 0))
    if low == high:
        return TRUE if low else FALSE
    return split_equality(difference, ranges) if op == "eq" else ir.Binary(op, a, b)


def split_equality(difference: Linear, ranges: Ranges) -> ir.Expr:
    """`difference == 0` as smaller equalities: `a * 4 + b == 7` with b in [0, 4) is `a == 1 and b == 3`."""
    if any(f < 0 for f in difference.terms.values()):
        if all(f < 0 for f in difference.terms.values()):
            return split_equality(difference.scaled(-1), ranges)
        return ir.Binary("eq", Linear(difference.terms).expr(), ir.Const(-difference.const))
    target = -difference.const
    if not difference.terms:
        return FALSE if target else TRUE
    for unit in sorted({f for f in difference.terms.values() if f > 1}, reverse=True):
        whole = {t: f // unit for t, f in difference.terms.items() if f % unit == 0}
        rest = Linear({t: f for t, f in difference.terms.items() if f % unit})
        low, high = linear_bounds(rest, ranges)
        if low >= 0 and high < unit:
            outer = split_equality(Linear(whole, -(target // unit)), ranges)
            inner = split_equality(rest + Linear({}, -(target % unit)), ranges)
            return FALSE if FALSE in (outer, inner) else conjunction([outer, inner])
    return ir.Binary("eq", Linear(difference.terms).expr(), ir.Const(target))


def chosen(op: str, a: ir.Expr, b: ir.Expr, ranges: Ranges) -> ir.Expr:
    """A minimum or maximum, or the side that it always is."""
    low, high = linear_bounds(linear(a) + linear(b).scaled(-1), ranges)
    if high <= 0:
        return a if op == "min" else b
    if low >= 0:
        return b if op == "min" else a
    return ir.Binary(op, a, b)


def simplify_logic(expr: ir.Binary, ranges: Ranges) -> ir.Expr:
    """A conjunction or disjunction without what is decided."""
    a, b = simplify(expr.a, ranges), simplify(expr.b, ranges)
    none, absorbing = (TRUE, FALSE) if expr.op == "and" else (FALSE, TRUE)
    if a == absorbing or b == absorbing:
        return absorbing
    if a in (none, b):
        return b
    return a if b == none else ir.Binary(expr.op, a, b)


# --- conditions ------------------------------------------------------------------------------------------------------


def conjuncts(condition: ir.Expr | None) -> list[ir.Expr]:
    """The conditions that together are `condition`; none for None."""
    match condition:
        case None:
            return []
        case ir.Binary(op="and", a=a, b=b):
            return conjuncts(a) + conjuncts(b)
        case ir.Const(value=value) if value:
            return []
    return [condition]


def conjunction(conditions: Iterable[ir.Expr]) -> ir.Expr:
    """All of `conditions`, each once."""
    result: ir.Expr = TRUE
    for part in dict.fromkeys(part for condition in conditions for part in conjuncts(condition)):
        result = part if result == TRUE else ir.Binary("and", result, part)
    return result


def predicate_of(conditions: Iterable[ir.Expr]) -> ir.Expr | None:
    """All of `conditions` as the predicate of a block."""
    result = conjunction(conditions)
    return None if result == TRUE else result

"""Which part of a buffer a block touches while the loops outside of some place stand still.

A `Span` is one dimension of it: from `offset + low` to `offset + high`, inclusive, where `offset` is a sum over the
outer loops alone; of that, only [floor, ceil] is ever touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce

from vdla.compiler import ir
from vdla.compiler.affine import Linear, Range, Ranges, bounds, linear, linear_bounds, simplify, var_names
from vdla.compiler.schedule.access import Indices, Leaf, reads

Limit = tuple[Linear, Range]  # a sum of terms, without constant, and what a condition leaves of its range
FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class Span:
    """One dimension of a region."""

    offset: Linear
    low: int
    high: int
    floor: int
    ceil: int

    @property
    def extent(self) -> int:
        """The number of positions while the outer loops stand still."""
        return self.high - self.low + 1

    def whole(self) -> Span:
        """All of [floor, ceil] where the span is as wide, else the span."""
        if self.extent > self.ceil - self.floor:
            return replace(self, offset=Linear({}), low=self.floor, high=max(self.ceil, self.floor))
        return self

    def clamped(self) -> Span:
        """The same span inside [floor, ceil], if no outer loop moves it."""
        if self.offset.terms:
            return self
        low = min(max(self.low, self.floor), self.ceil)
        return replace(self, low=low, high=max(min(self.high, self.ceil), low))

    def union(self, other: Span) -> Span:
        """A span that holds both."""
        floor, ceil = min(self.floor, other.floor), max(self.ceil, other.ceil)
        if self.offset == other.offset:
            return Span(self.offset, min(self.low, other.low), max(self.high, other.high), floor, ceil)
        return Span(Linear({}), floor, ceil, floor, ceil)

    def shifted(self, by: int) -> Span:
        """Every position moved by `by`."""
        return Span(self.offset, self.low + by, self.high + by, self.floor + by, self.ceil + by)

    def meets(self, other: Span, ranges: Ranges) -> bool:
        """Whether some position may lie in both, for equal outer loops."""
        least, most = linear_bounds(other.offset + self.offset.scaled(-1), ranges)
        apart = other.low + least > self.high or other.high + most < self.low
        return not apart and self.floor <= other.ceil and other.floor <= self.ceil

    def covers(self, need: Span, ranges: Ranges) -> bool:
        """Whether every position of `need` lies inside, whatever the outer loops are."""
        least, most = linear_bounds(need.offset + self.offset.scaled(-1), ranges)
        if self.low <= need.low + least and self.high >= need.high + most:
            return True
        return not self.offset.terms and self.low <= need.floor and self.high >= need.ceil


def need_of(readers: Iterable[Leaf], buffer: ir.Buffer, outer: Collection[str], ranges: Ranges) -> list[Span]:
    """The region of `buffer` that `readers` read while the loops `outer` stand still."""
    needs = [need_at(reader, reads(reader.block, buffer.name), buffer, outer, ranges) for reader in readers]
    return [reduce(Span.union, dimension).clamped() for dimension in zip(*needs, strict=True)]


def need_at(
    reader: Leaf, accesses: Iterable[Indices], buffer: ir.Buffer, outer: Collection[str], ranges: Ranges
) -> list[Span]:
    """The region that some accesses of a leaf touch."""
    spans = [touched(reader, indices, buffer, outer, ranges) for indices in accesses]
    return [reduce(Span.union, dimension) for dimension in zip(*spans, strict=True)]


def touched(leaf: Leaf, indices: Indices, buffer: ir.Buffer, outer: Collection[str], ranges: Ranges) -> list[Span]:
    """The region that one access of a leaf touches."""
    limits = limits_of(leaf.conditions)
    domains = ranges | {axis.var: (0, axis.extent - 1) for axis in leaf.block.axes}  # type: ignore[operator]
    spans = []
    for index, extent in zip(indices, buffer.dims, strict=True):
        floor, ceil = bounds(index, domains)
        offset, (low, high) = span_of(bound_form(leaf, index, ranges), outer, ranges, limits)
        spans.append(Span(offset, low, high, max(floor, 0), min(ceil, extent - 1)))
    return spans


def bound_form(leaf: Leaf, index: ir.Expr, ranges: Ranges) -> Linear:
    """An index as a sum over loop variables."""
    form = leaf.bound(index)
    if all(isinstance(term, ir.Var) for term in form.terms):
        return form
    return linear(simplify(form.expr(), ranges))


def span_of(form: Linear, outer: Collection[str], ranges: Ranges, limits: list[Limit]) -> tuple[Linear, Range]:
    """The offset over the outer loops and the bounds of the rest."""
    offset, inner = Linear({}), Linear({}, form.const)
    for term, factor in form.terms.items():
        names = var_names(term)
        if names and names <= set(outer):
            offset += Linear({term: factor})
        else:
            fixed, rest = divided_span(term, outer, ranges)
            offset += fixed.scaled(factor)
            inner += rest.scaled(factor)
    return offset, limited_bounds(inner, ranges, limits)


def divided_span(term: ir.Expr, outer: Collection[str], ranges: Ranges) -> tuple[Linear, Linear]:
    """A quotient of outer and inner loops as an outer quotient and what the inner loops add to it.

    With x in [a, b], (o + x) // c is (o + a) // c plus 0 to ceil((b - a) / c).
    """
    if not (isinstance(term, ir.Binary) and term.op == "floordiv" and isinstance(term.b, ir.Const)):
        return Linear({}), Linear({term: 1})
    numerator, divisor = linear(term.a), int(term.b.value)
    fixed = numerator.only(lambda t: var_names(t) <= set(outer))
    if not fixed.terms or divisor <= 0:
        return Linear({}), Linear({term: 1})
    low, high = linear_bounds(numerator + fixed.scaled(-1), ranges)
    quotient = ir.Binary("floordiv", (fixed + Linear({}, low)).expr(), ir.Const(divisor))
    steps = -(-(high - low) // divisor)
    return Linear({quotient: 1}), Linear({ir.Binary("mod", term, ir.Const(steps + 1)): 1})


def limits_of(conditions: Iterable[ir.Expr]) -> list[Limit]:
    """What comparisons with constants say about sums."""
    limits: list[Limit] = []
    for condition in conditions:
        if isinstance(condition, ir.Binary) and condition.op in ("lt", "le", "gt", "ge", "eq"):
            form = linear(condition.a) + linear(condition.b).scaled(-1)
            edge = -form.const
            allowed = {"lt": (-FAR, edge - 1), "le": (-FAR, edge), "gt": (edge + 1, FAR), "ge": (edge, FAR)}
            limits.append((Linear(form.terms), allowed.get(condition.op, (edge, edge))))
    return limits


def limited_bounds(form: Linear, ranges: Ranges, limits: list[Limit]) -> Range:
    """Bounds of a sum, where a condition limits a part of it."""
    low, high = linear_bounds(form, ranges)
    for part, (least, most) in limits:
        factor = multiple_of(form, part)
        if factor > 0:
            rest_low, rest_high = linear_bounds(form + part.scaled(-factor), ranges)
            low, high = max(low, rest_low + factor * least), min(high, rest_high + factor * most)
    return low, high


def multiple_of(form: Linear, part: Linear) -> int:
    """How many times `form` holds `part`; 0 if it does not hold each of its terms equally often."""
    factors = {form.terms.get(term, 0) / factor for term, factor in part.terms.items()}
    factor = factors.pop() if len(factors) == 1 else 0
    return int(factor) if factor == int(factor) else 0

# SPDX-License-Identifier: Apache-2.0
"""The region of a buffer that a block accesses in one iteration of the outer loops.

A `Span` is one dimension of a region: `offset + low` to `offset + high`, inclusive, where `offset`
is a linear form over the outer loops. Accesses never leave [floor, ceil].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from vdla.compiler import ir
from vdla.compiler.analysis.access import Indices, LeafBlock, read_indices
from vdla.compiler.analysis.symbols import (
    Bounds,
    Domains,
    at_least,
    extent_form,
    form_bounds,
    is_symbolic,
    larger,
    smaller,
)
from vdla.compiler.arith import Linear, Ranges, linear, linear_bounds, simplify, var_names

ZERO, ONE = Linear({}), Linear({}, 1)

Limit = tuple[Linear, Linear | None, Linear | None]  # a form over loops, and its bounds under a condition


@dataclass(frozen=True, slots=True)
class Span:
    """One dimension of a region; the bounds are constants or forms over symbols."""

    offset: Linear
    low: Linear
    high: Linear
    floor: Linear
    ceil: Linear

    @property
    def extent(self) -> Linear:
        """The number of positions in one iteration of the outer loops."""
        return self.high - self.low + ONE

    @property
    def first(self) -> Linear:
        """The first position."""
        return self.offset + self.low

    def full(self, ranges: Ranges) -> Span:
        """[floor, ceil] if the span is at least as wide, else the span."""
        if at_least(self.extent, self.ceil - self.floor + ONE, ranges):
            return replace(self, offset=ZERO, low=self.floor, high=larger(self.ceil, self.floor, ranges))
        return self

    def clamped(self, ranges: Ranges) -> Span:
        """The span clipped to [floor, ceil], if it does not depend on outer loops."""
        if self.offset.terms:
            return self
        low = smaller(larger(self.low, self.floor, ranges), self.ceil, ranges)
        return replace(self, low=low, high=larger(smaller(self.high, self.ceil, ranges), low, ranges))

    def union(self, other: Span, ranges: Ranges) -> Span:
        """The smallest span known to contain both."""
        floor, ceil = smaller(self.floor, other.floor, ranges), larger(self.ceil, other.ceil, ranges)
        if self.offset == other.offset:
            low, high = smaller(self.low, other.low, ranges), larger(self.high, other.high, ranges)
            return Span(self.offset, low, high, floor, ceil)
        return Span(ZERO, floor, ceil, floor, ceil)

    def shifted(self, by: int) -> Span:
        """The span shifted by `by` positions."""
        more = Linear({}, by)
        return Span(self.offset, self.low + more, self.high + more, self.floor + more, self.ceil + more)

    def meets(self, other: Span, ranges: Ranges) -> bool:
        """Whether the spans may overlap in one iteration of the outer loops."""
        least, most = form_bounds(other.offset - self.offset, ranges)
        after = at_least(other.low + least, self.high + ONE, ranges)
        before = at_least(self.low, other.high + most + ONE, ranges)
        apart = at_least(self.floor, other.ceil + ONE, ranges) or at_least(other.floor, self.ceil + ONE, ranges)
        return not (after or before or apart)

    def covers(self, need: Span, ranges: Ranges) -> bool:
        """Whether the span contains `need` in every iteration of the outer loops."""
        least, most = form_bounds(need.offset - self.offset, ranges)
        if at_least(need.low + least, self.low, ranges) and at_least(self.high, need.high + most, ranges):
            return True
        fixed = not self.offset.terms
        return fixed and at_least(need.floor, self.low, ranges) and at_least(self.high, need.ceil, ranges)


def full_span(extent: ir.Extent) -> Span:
    """The span of a full dimension."""
    last = extent_form(extent) - ONE
    return Span(ZERO, ZERO, last, ZERO, last)


def union(spans: Iterable[Span], ranges: Ranges) -> Span:
    """A span that contains all of `spans`."""
    return reduce(lambda a, b: a.union(b, ranges), spans)


def region_read(readers: Iterable[LeafBlock], buffer: ir.Buffer, outer: Collection[str], ranges: Domains) -> list[Span]:
    """The region of `buffer` that `readers` read in one iteration of the loops `outer`."""
    needs = [
        accesses_region(reader, read_indices(reader.block, buffer.name), buffer, outer, ranges) for reader in readers
    ]
    return [union(dimension, ranges).clamped(ranges) for dimension in zip(*needs, strict=True)]


def accesses_region(
    reader: LeafBlock, accesses: Iterable[Indices], buffer: ir.Buffer, outer: Collection[str], ranges: Domains
) -> list[Span]:
    """The region of `buffer` that several accesses of a leaf touch."""
    spans = [access_region(reader, indices, buffer, outer, ranges) for indices in accesses]
    return [union(dimension, ranges) for dimension in zip(*spans, strict=True)]


def access_region(
    leaf: LeafBlock, indices: Indices, buffer: ir.Buffer, outer: Collection[str], ranges: Domains
) -> list[Span]:
    """The region of `buffer` that one access of a leaf touches."""
    limits = limits_of(leaf.conditions, ranges)
    domains = ranges.only_symbols().with_extents({axis.var: axis.extent for axis in leaf.block.axes})
    spans = []
    for index, extent in zip(indices, buffer.shape, strict=True):
        floor, ceil = form_bounds(linear(index), domains)
        last = extent_form(extent) - ONE
        offset, (low, high) = span_of(index_form(leaf, index, ranges), outer, ranges, limits)
        spans.append(Span(offset, low, high, larger(floor, ZERO, ranges), smaller(ceil, last, ranges)))
    return spans


def within_limits(
    reader: LeafBlock, accesses: Sequence[Indices], buffer: ir.Buffer, outer: Collection[str], ranges: Domains
) -> list[Span]:
    """The region of `accesses_region`, with the edges that the reader's conditions set whatever the
    outer loops are: `i * 4 + j < 7` ends at 6 in the last tile of 4."""
    limits = limits_of(reader.conditions, ranges)
    spans = accesses_region(reader, accesses, buffer, outer, ranges)
    if not limits:
        return spans
    result = []
    for dimension, span in enumerate(spans):
        forms = [index_form(reader, indices[dimension], ranges) for indices in accesses]
        edges = [limited_bounds(form, ranges, limits) for form in forms]
        low, high = reduce(lambda a, b: (smaller(a[0], b[0], ranges), larger(a[1], b[1], ranges)), edges)
        floor, ceil = larger(span.floor, low, ranges), smaller(span.ceil, high, ranges)
        result.append(replace(span, floor=floor, ceil=ceil))
    return result


def index_form(leaf: LeafBlock, index: ir.Expr, ranges: Ranges) -> Linear:
    """An index as a linear form over loop variables."""
    form = leaf.bound(index)
    if all(isinstance(term, ir.Var) for term in form.terms):
        return form
    return linear(simplify(form.expr(), ranges))


def span_of(form: Linear, outer: Collection[str], ranges: Ranges, limits: list[Limit]) -> tuple[Linear, Bounds]:
    """The part of a form over the outer loops, and the bounds of the rest."""
    if all(isinstance(term, ir.Var) for term in form.terms):
        offset = form.only(lambda term: isinstance(term, ir.Var) and term.name in outer)
        inner = Linear({t: f for t, f in form.terms.items() if t not in offset.terms}, form.const)
        return offset, limited_bounds(inner, ranges, limits)
    offset, inner = Linear({}), Linear({}, form.const)
    for term, factor in form.terms.items():
        names = var_names(term)
        if names and names <= set(outer):
            offset += Linear({term: factor})
        else:
            fixed, rest = _divided_span(term, outer, ranges)
            offset += fixed.scaled(factor)
            inner += rest.scaled(factor)
    return offset, limited_bounds(inner, ranges, limits)


def _divided_span(term: ir.Expr, outer: Collection[str], ranges: Ranges) -> tuple[Linear, Linear]:
    """A quotient over outer and inner loops as an outer quotient plus a bounded inner term.

    With x in [a, b], (o + x) // c is (o + a) // c plus 0 to ceil((b - a) / c).
    """
    if not (isinstance(term, ir.Binary) and term.op == "floordiv" and isinstance(term.b, ir.Const)):
        return Linear({}), Linear({term: 1})
    numerator, divisor = linear(term.a), int(term.b.value)
    fixed = numerator.only(lambda t: var_names(t) <= set(outer))
    if not fixed.terms or divisor <= 0:
        return Linear({}), Linear({term: 1})
    low, high = linear_bounds(numerator - fixed, ranges)
    quotient = ir.binary("floordiv", (fixed + low).expr(), divisor)
    steps = -(-(high - low) // divisor)
    return Linear({quotient: 1}), Linear({ir.binary("mod", term, steps + 1): 1})


def limits_of(conditions: Iterable[ir.Expr], ranges: Ranges) -> list[Limit]:
    """The bounds that conditions put on linear forms."""
    limits: list[Limit] = []
    for condition in conditions:
        if isinstance(condition, ir.Binary) and condition.op in ("lt", "le", "gt", "ge", "eq"):
            form = linear(condition.a) - linear(condition.b)
            part = form.only(lambda term: not is_symbolic(term, ranges))
            edge = part - form
            below, above = edge - ONE, edge + ONE
            allowed = {"lt": (None, below), "le": (None, edge), "gt": (above, None), "ge": (edge, None)}
            limits.append((part, *allowed.get(condition.op, (edge, edge))))
    return limits


def limited_bounds(form: Linear, ranges: Ranges, limits: list[Limit]) -> Bounds:
    """The bounds of a form under `limits` of parts of it."""
    low, high = form_bounds(form, ranges)
    for part, least, most in limits:
        factor = multiple_of(form, part)
        first, last = (least, most) if factor > 0 else (most, least)
        if factor:
            rest_low, rest_high = form_bounds(form + part.scaled(-factor), ranges)
            low = low if first is None else larger(low, rest_low + first.scaled(factor), ranges)
            high = high if last is None else smaller(high, rest_high + last.scaled(factor), ranges)
    return low, high


def multiple_of(form: Linear, part: Linear) -> int:
    """The factor by which `form` contains `part`; 0 if the coefficients have no common factor."""
    factors = {form.terms.get(term, 0) / factor for term, factor in part.terms.items()}
    factor = factors.pop() if len(factors) == 1 else 0
    return int(factor) if factor == int(factor) else 0

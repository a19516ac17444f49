"""The part of a buffer that is live inside an allocation, as an origin and a shape.

It is the bounding box of all accesses, and moves with the loops outside. A dimension without known
bounds, or through which accesses move differently, stays at full extent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis import Indices, LeafBlock, Limit, Span, index_form, limits_of, span_of
from vdla.compiler.arith import Linear, Ranges, bounds, linear_bounds

_UNBOUNDED = 1 << 28  # an extent from here on results from a symbolic one


@dataclass(frozen=True, slots=True)
class LiveWindow:
    """One dimension: `extent` positions from `origin`, a form over the loops outside."""

    origin: Linear
    extent: ir.Extent


@dataclass(frozen=True, slots=True)
class LeafAccess:
    """An access of a leaf block, its indices over the axes of the block."""

    leaf: LeafBlock
    indices: Indices


def live_windows(
    accesses: Iterable[LeafAccess], buffer: ir.Buffer, outer: Collection[str], ranges: Ranges
) -> list[LiveWindow]:
    """The part of `buffer` that the accesses cover in one iteration of the loops `outer`."""
    total: list[Span] | None = None
    for access in accesses:
        spans = _spans(access, buffer, outer, ranges)
        total = spans if total is None else [a.union(b, ranges) for a, b in zip(total, spans, strict=True)]
    assert total is not None
    return [_window(span, extent, ranges) for span, extent in zip(total, buffer.shape, strict=True)]


def _spans(access: LeafAccess, buffer: ir.Buffer, outer: Collection[str], ranges: Ranges) -> list[Span]:
    """The region of one access; a symbolic dimension ends at the largest int32."""
    leaf = access.leaf
    limits = limits_of(leaf.conditions, ranges)
    ranges = _narrowed(limits, outer, ranges)
    domains = {**ranges, **{axis.var: (0, _last_index(axis.extent, ranges)) for axis in leaf.block.axes}}
    spans = []
    for index, extent in zip(access.indices, buffer.shape, strict=True):
        floor, ceil = bounds(index, domains)
        form = index_form(leaf, index, ranges)
        moving = form.only(lambda term: bounds(term, ranges) != (0, 0))  # drops loops of one iteration
        offset, (low, high) = span_of(moving + Linear({}, form.const), outer, ranges, limits)
        edges = max(floor, 0), min(ceil, _last_index(extent, ranges))
        spans.append(Span(offset, low, high, *(Linear({}, edge) for edge in edges)))
    return spans


def _narrowed(limits: Iterable[Limit], outer: Collection[str], ranges: Ranges) -> Ranges:
    """`ranges` in which no inner loop exceeds what a limit of a sum leaves it.

    A fused loop that is split over threads has such a limit: `o * 256 + ty * 16 + tx < 64`.
    """
    found = dict(ranges)
    for part, _, most in limits:
        if most is None or most.terms:
            continue
        least = linear_bounds(part, ranges)[0]
        for term, factor in part.terms.items():
            if isinstance(term, ir.Var) and factor > 0 and term.name not in outer:
                low, high = found[term.name]
                room = (most.const - least) // factor + bounds(term, ranges)[0]
                found[term.name] = low, max(low, min(high, room))
    return found


def _last_index(extent: ir.Extent, ranges: Ranges) -> int:
    """The largest index below an extent."""
    return (extent if isinstance(extent, int) else bounds(extent, ranges)[1]) - 1


def _window(span: Span, extent: ir.Extent, ranges: Ranges) -> LiveWindow:
    """The window of a span in a dimension of the given extent."""
    span = span.clamped(ranges).full(ranges)
    size = span.extent
    if size.terms or size.const >= _UNBOUNDED or (isinstance(extent, int) and size.const >= extent):
        return LiveWindow(Linear({}), extent)
    return LiveWindow(span.first, max(size.const, 1))

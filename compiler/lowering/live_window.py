"""The part of a buffer that is live inside an allocation, as an origin and a shape.

It is the bounding box of all accesses, and moves with the loops outside. A dimension without known
bounds, or through which accesses move differently, stays at full extent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis import Indices, LeafBlock, Span, index_form, limits_of, span_of
from vdla.compiler.arith import Linear, Ranges, bounds

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

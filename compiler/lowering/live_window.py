# SPDX-License-Identifier: Apache-2.0
"""The part of a buffer that is live inside an allocation, as an origin and a shape.

It is the bounding box of all accesses, and moves with the loops outside. A dimension without known
bounds, or through which accesses move differently, stays at full extent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count
from math import gcd, prod

from vdla.compiler import ir
from vdla.compiler.analysis import Indices, LeafBlock, Limit, Span, index_form, limits_of, span_of
from vdla.compiler.arith import Linear, Ranges, bounds, linear_bounds
from vdla.compiler.ir import extent_text
from vdla.compiler.lowering.check import PassError

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
        offset, (low, high) = span_of(moving + form.const, outer, ranges, limits)
        edges = max(floor, 0), min(ceil, _last_index(extent, ranges))
        spans.append(Span(offset, low, high, *(Linear({}, edge) for edge in edges)))
    return spans


def _narrowed(limits: Iterable[Limit], outer: Collection[str], ranges: Ranges) -> Ranges:
    """`ranges` in which no inner loop exceeds what a limit of a sum leaves it.

    A fused loop that is split over threads has such a limit: `o * 256 + ty * 16 + tx < 64`.
    """
    result = dict(ranges)
    for part, _, most in limits:
        if most is None or most.terms:
            continue
        least = linear_bounds(part, ranges)[0]
        for term, factor in part.terms.items():
            if isinstance(term, ir.Var) and factor > 0 and term.name not in outer:
                low, high = result[term.name]
                room = (most.const - least) // factor + bounds(term, ranges)[0]
                result[term.name] = low, max(low, min(high, room))
    return result


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


# --- layouts by annotations of the writing block --------------------------------------------------

_Shape = tuple[ir.Extent, ...]


def wants_double_buffer(writers: list[LeafBlock]) -> bool:
    """Whether a writer is annotated with `double_buffer`."""
    return any(writer.block.annotations.get("double_buffer") for writer in writers)


def align_strides(buffer: str, shape: _Shape, writers: list[LeafBlock]) -> _Shape:
    """The shape padded according to the `storage_align` annotations of the writers."""
    for writer in writers:
        if "storage_align" in writer.block.annotations:
            axis, factor, offset = writer.block.annotations["storage_align"]
            shape = pad_stride(buffer, shape, axis, factor, offset)
    return shape


def pad_stride(buffer: str, shape: _Shape, axis: int, factor: int, offset: int) -> _Shape:
    """The shape padded so that the stride of dimension `axis` is `offset` modulo `factor`.

    Dimension `axis + 1` is padded, and inner ones too if it alone cannot give that stride.
    """
    inner = shape[axis + 1 :]
    sizes = [extent for extent in inner if isinstance(extent, int)]
    if not inner:
        return shape  # the stride of the last dimension is one element
    if len(sizes) < len(inner):
        symbolic = next(extent for extent in inner if not isinstance(extent, int))
        rule = f"the dimensions inside dimension {axis} of storage_align must be constant"
        raise PassError(f"place storage of {buffer}: {rule}, got {extent_text(symbolic)}")
    rows = sizes[1:]
    if offset % gcd(prod(rows), factor):
        rows = [next(n for n in count(size) if gcd(n, factor) == 1) for size in rows]
    shared = gcd(prod(rows), factor)
    step = factor // shared
    right = offset // shared * pow(prod(rows) // shared, -1, step)  # times prod(rows), `offset` modulo `factor`
    return (*shape[: axis + 1], sizes[0] + (right - sizes[0]) % step, *rows)

# SPDX-License-Identifier: Apache-2.0
"""Prefetch: the annotations of loops become Prefetch statements at the start of their iterations.

Each names one element of a cache line. A prefetch has no effect and may lie outside its buffer, so
the last iterations need no condition; only loads within its indices, which are real, are clipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from vdla.compiler import ir
from vdla.compiler.analysis import (
    Domains,
    LeafBlock,
    Span,
    access_region,
    ceil_div,
    domains_of,
    extent_form,
    extent_of,
    leaves,
    read_indices,
    used_names,
)
from vdla.compiler.arith import Linear, var_names
from vdla.compiler.ir import Names, map_children, storage_dtype

_LINE_BYTES = 64  # where lines are shorter, as on a Cortex-A9, every other one is prefetched
_Region = list[Span]


@dataclass(frozen=True, slots=True)
class _PrefetchSite:
    """A loop around a block that prefetches `buffer`, `distance` iterations site."""

    leaf: LeafBlock
    loop: ir.For
    buffer: str
    distance: int

    @property
    def outer(self) -> set[str]:
        """The loops that are fixed while one iteration reads its region."""
        loops = self.leaf.loops
        return {loop.var for loop in loops[: loops.index(self.loop) + 1]}

    def persists(self, name: str) -> bool:
        """Whether a buffer keeps its content from one iteration to the next."""
        inside = self.leaf.path[self.leaf.path.index(self.loop) :]
        return not any(isinstance(stmt, ir.Alloc) and name in stmt.buffers for stmt in inside)


def prefetch(fn: ir.Function) -> ir.Function:
    """`fn` with prefetches of the regions that blocks will read.

    for i in range(8):  # prefetch=(('a', 'c', 1),)      for i in range(8):
        for j in range(16):                                  prefetch a[i + 1, 0]
            block c(vi=i, vj=j): ... a[vi, vj]      ->       for j in range(16):
                                                                 block c(vi=i, vj=j): ... a[vi, vj]
    """
    sites: dict[int, list[_PrefetchSite]] = {}
    for site in _prefetch_sites(fn):
        sites.setdefault(id(site.loop), []).append(site)
    if not sites:
        return fn
    ranges, names = domains_of(fn), used_names(fn)

    def visit(stmt: ir.Stmt) -> ir.Stmt:
        new = map_children(stmt, visit)
        first = [nest for site in sites.get(id(stmt), ()) for nest in _prefetches(fn, site, ranges, names)]
        return replace(new, body=ir.seq(*first, new.body)) if first and isinstance(new, ir.For) else new

    return replace(fn, body=visit(fn.body))


def _prefetch_sites(fn: ir.Function) -> Iterator[_PrefetchSite]:
    """The annotated sites that still apply: the block is in the loop, the buffer exists."""
    for leaf in leaves(fn):
        for loop in takewhile(lambda loop: "tensorize" not in loop.annotations, leaf.loops):  # inside: one call
            for buffer, block, distance in loop.annotations.get("prefetch", ()):
                site = _PrefetchSite(leaf, loop, buffer, distance)
                if block == leaf.name and buffer in fn.buffers and site.persists(buffer):
                    yield site


def _prefetches(fn: ir.Function, site: _PrefetchSite, ranges: Domains, names: Names) -> Iterator[ir.Stmt]:
    """The prefetches at the start of an iteration; none of regions that do not move."""
    buffer = fn.buffers[site.buffer]
    result: list[_Region] = []
    for indices in read_indices(site.leaf.block, buffer.name):
        region = access_region(site.leaf, indices, buffer, site.outer, ranges)
        if any(site.loop.var in var_names(term) for span in region for term in span.offset.terms):
            _merge_into(result, region, ranges)
    for region in result:
        whole = [span.clamped(ranges).full(ranges) for span in region]
        tables = {e.buffer for s in whole for t in s.offset.terms for e in ir.find(t, ir.Load)}
        if all(site.persists(name) for name in tables):
            yield _prefetch_nest(fn, whole, site, ranges, names)


def _merge_into(regions: list[_Region], region: _Region, ranges: Domains) -> None:
    """Merges a region into one with the same offsets, or appends it."""
    for number, other in enumerate(regions):
        if all(a.offset == b.offset for a, b in zip(other, region, strict=True)):
            regions[number] = [a.union(b, ranges) for a, b in zip(other, region, strict=True)]
            return
    regions.append(region)


def _prefetch_nest(fn: ir.Function, region: _Region, site: _PrefetchSite, ranges: Domains, names: Names) -> ir.Stmt:
    """A prefetch of each cache line of a region, as loops over its dimensions."""
    buffer = fn.buffers[site.buffer]
    shifted = {site.loop.var: ir.binary("add", site.loop.var, site.distance)}
    per_line = max(_LINE_BYTES // storage_dtype(buffer.dtype).itemsize, 1)  # elements
    loops: list[tuple[str, ir.Extent]] = []
    indices: list[ir.Expr] = []
    for span, extent in reversed(list(zip(region, buffer.shape, strict=True))):
        size = extent_of(span.extent)
        steps = ceil_div(size, per_line, ranges)
        index = _clip_loads(fn, ir.substitute(span.first.expr(), shifted))
        if steps != 1:
            loops.append((names.fresh("ahead", buffer.name), steps))
            index = ir.Binary("add", index, Linear({ir.Var(loops[-1][0]): per_line}).expr())
        indices.append(index)
        per_line = max(per_line // extent, 1) if isinstance(extent, int) and size == extent else 1
    nest: ir.Stmt = ir.Prefetch(buffer.name, tuple(reversed(indices)))
    for var, steps in loops:
        nest = ir.For(var, steps, nest)
    return nest


def _clip_loads(fn: ir.Function, expr: ir.Expr) -> ir.Expr:
    """An index with its own loads clipped to their buffers."""

    def clipped(part: ir.Expr) -> ir.Expr:
        if not isinstance(part, ir.Load):
            return part
        shape = fn.buffers[part.buffer].shape
        return ir.Load(part.buffer, tuple(_clip(i, extent) for i, extent in zip(part.indices, shape, strict=True)))

    return ir.transform(expr, clipped)


def _clip(index: ir.Expr, extent: ir.Extent) -> ir.Expr:
    """`index` clipped to [0, extent)."""
    last = (extent_form(extent) - 1).expr()
    return ir.Binary("min", ir.binary("max", index, 0), last)

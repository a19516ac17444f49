"""Prefetch: what a schedule asks to be fetched ahead becomes requests at the start of an iteration.

A request names one element of each cache line. It changes nothing and may lie outside of its buffer, so that the last
iterations need no condition; only the place of an index that is read itself is kept inside, as that read is a real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, leaves, reads
from vdla.compiler.analysis.read_region import Span, touched
from vdla.compiler.analysis.symbols import Domains, ceil_divided, domains_of, extent_form, extent_of
from vdla.compiler.analysis.tree import names_of
from vdla.compiler.arith import Linear, var_names
from vdla.compiler.ir import Names, map_children, map_operands, storage_dtype

_LINE_BYTES = (
    64  # bytes of a line of the cache; where lines are shorter, as on a Cortex-A9, every other one is asked for
)
_Region = list[Span]


@dataclass(frozen=True, slots=True)
class _PrefetchSite:
    """A block at a loop of it that fetches `buffer` for `distance` iterations later."""

    leaf: LeafBlock
    loop: ir.For
    buffer: str
    distance: int

    @property
    def outer(self) -> set[str]:
        """The loops that stand still while the region of one iteration is read."""
        loops = self.leaf.loops
        return {loop.var for loop in loops[: loops.index(self.loop) + 1]}

    def lives(self, name: str) -> bool:
        """Whether a buffer is the same one in the next iteration."""
        inside = self.leaf.path[self.leaf.path.index(self.loop) :]
        return not any(isinstance(stmt, ir.Alloc) and name in stmt.buffers for stmt in inside)


def prefetch(fn: ir.Function) -> ir.Function:
    """`fn` with requests for what blocks will read.

    for i in range(8):  # prefetch=(('a', 'c', 1),)         for i in range(8):
        for j in range(16):                                     prefetch a[i + 1, 0]
            block c(vi=i, vj=j): ... a[vi, vj]         ->       for j in range(16):
                                                                    block c(vi=i, vj=j): ... a[vi, vj]
    """
    asked: dict[int, list[_PrefetchSite]] = {}
    for ahead in _prefetch_sites(fn):
        asked.setdefault(id(ahead.loop), []).append(ahead)
    if not asked:
        return fn
    ranges, names = domains_of(fn), names_of(fn)

    def visit(stmt: ir.Stmt) -> ir.Stmt:
        new = map_children(stmt, visit)
        first = [request for ahead in asked.get(id(stmt), ()) for request in _prefetches(fn, ahead, ranges, names)]
        return replace(new, body=ir.seq(*first, new.body)) if first and isinstance(new, ir.For) else new

    return replace(fn, body=visit(fn.body))


def _prefetch_sites(fn: ir.Function) -> Iterator[_PrefetchSite]:
    """What loops are annotated with, where it still is: the block may have left the loop, the buffer be gone."""
    for leaf in leaves(fn):
        if any("tensorize" in loop.annotations for loop in leaf.loops):
            continue  # its loops are one step
        for loop in leaf.loops:
            for buffer, block, distance in loop.annotations.get("prefetch", ()):
                ahead = _PrefetchSite(leaf, loop, buffer, distance)
                if block == leaf.name and buffer in fn.buffers and ahead.lives(buffer):
                    yield ahead


def _prefetches(fn: ir.Function, ahead: _PrefetchSite, ranges: Domains, names: Names) -> Iterator[ir.Stmt]:
    """The requests at the start of an iteration; none for what is the same in all iterations."""
    buffer = fn.buffers[ahead.buffer]
    found: list[_Region] = []
    for indices in reads(ahead.leaf.block, buffer.name):
        region = touched(ahead.leaf, indices, buffer, ahead.outer, ranges)
        if any(ahead.loop.var in var_names(term) for span in region for term in span.offset.terms):
            _merge_into(found, region, ranges)
    for region in found:
        whole = [span.clamped(ranges).whole(ranges) for span in region]
        tables = {e.buffer for s in whole for t in s.offset.terms for e in ir.walk_expr(t) if isinstance(e, ir.Load)}
        if all(ahead.lives(name) for name in tables):
            yield _prefetch_nest(fn, whole, ahead, ranges, names)


def _merge_into(found: list[_Region], region: _Region, ranges: Domains) -> None:
    """Add a region to those that move the same way, if there are such."""
    for number, other in enumerate(found):
        if all(a.offset == b.offset for a, b in zip(other, region, strict=True)):
            found[number] = [a.union(b, ranges) for a, b in zip(other, region, strict=True)]
            return
    found.append(region)


def _prefetch_nest(fn: ir.Function, region: _Region, ahead: _PrefetchSite, ranges: Domains, names: Names) -> ir.Stmt:
    """A request for each line of a region, as loops over its dimensions."""
    buffer = fn.buffers[ahead.buffer]
    moved = {ahead.loop.var: ir.Binary("add", ir.Var(ahead.loop.var), ir.Const(ahead.distance))}
    room = max(_LINE_BYTES // storage_dtype(buffer.dtype).itemsize, 1)  # elements
    loops: list[tuple[str, ir.Extent]] = []
    indices: list[ir.Expr] = []
    for span, extent in reversed(list(zip(region, buffer.shape, strict=True))):
        size = extent_of(span.extent)
        steps = ceil_divided(size, room, ranges)
        index = _clip_loads(fn, ir.substitute(span.first.expr(), moved))
        if steps != 1:
            loops.append((names.fresh("ahead", buffer.name), steps))
            index = ir.Binary("add", index, Linear({ir.Var(loops[-1][0]): room}).expr())
        indices.append(index)
        room = max(room // extent, 1) if isinstance(extent, int) and size == extent else 1
    nest: ir.Stmt = ir.Prefetch(buffer.name, tuple(reversed(indices)))
    for var, steps in loops:
        nest = ir.For(var, steps, nest)
    return nest


def _clip_loads(fn: ir.Function, expr: ir.Expr) -> ir.Expr:
    """An index whose own reads are all inside of their buffers, whatever guards them where it is used."""
    new = map_operands(expr, lambda operand: _clip_loads(fn, operand))
    if not isinstance(new, ir.Load):
        return new
    shape = fn.buffers[new.buffer].shape
    return ir.Load(new.buffer, tuple(_clip(i, extent) for i, extent in zip(new.indices, shape, strict=True)))


def _clip(index: ir.Expr, extent: ir.Extent) -> ir.Expr:
    """The nearest index in a dimension."""
    last = (extent_form(extent) + Linear({}, -1)).expr()
    return ir.Binary("min", ir.Binary("max", index, ir.Const(0)), last)

# SPDX-License-Identifier: Apache-2.0
"""Moving a block: its checks, its loops at the new place, and their insertion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, leaf_at, leaves, stores, written_buffers
from vdla.compiler.analysis.dataflow import bounds_axis
from vdla.compiler.analysis.read_region import ONE, Limit, Span, full_span, limited_bounds, limits_of
from vdla.compiler.analysis.symbols import at_least, domains_of, extent_of
from vdla.compiler.analysis.tree import (
    Path,
    ScheduleError,
    block_at,
    block_path,
    loop_path,
    loops_on,
    replace_at,
    substitute_loops,
    used_names,
)
from vdla.compiler.arith import Linear, Ranges, linear, predicate_of, var_names
from vdla.compiler.ir import Names, expr_text


def movable_leaf(fn: ir.Function, name: str, where: str) -> LeafBlock:
    """The leaf `name`, which must store at its spatial axes and be its buffers' only writer."""
    path = block_path(fn, name, where)
    block = block_at(path)
    check_not_blockized(path, "moved", where)
    axis_vars = tuple(ir.Var(axis.var) for axis in block.axes if axis.kind is not ir.AxisKind.REDUCE)
    if any(store.indices != axis_vars for store in stores(block)):
        raise ScheduleError(f"{where}: the block must compute one element at its spatial axes, got {name}")
    for other in leaves(fn):
        if other.name != name and written_buffers(other.block) & written_buffers(block):
            rule = f"the block must be the only one that writes {', '.join(sorted(written_buffers(block)))}"
            raise ScheduleError(f"{where}: {rule}, got {other.name} too; decompose its sum last")
    return leaf_at(path)


def check_terms_kept(leaf: LeafBlock, where: str) -> None:
    """Refuse to rebuild the loops of a reduction whose conditions skip terms other than past the
    end of an axis."""
    loops = {loop.var for loop in leaf.loops}
    summed = leaf.loops_along(ir.AxisKind.REDUCE)
    forms = [linear(value).terms for value in leaf.values.values()]
    for condition in leaf.conditions:
        if var_names(condition) & summed and not bounds_axis(condition, forms, loops):
            rule = f"the terms that {leaf.name} sums must not depend on several axes"
            raise ScheduleError(f"{where}: {rule}, got the condition {expr_text(condition)}")


def check_not_blockized(path: Path, done: str, where: str) -> None:
    """Refuse nested blocks."""
    block = block_at(path)
    if any(isinstance(stmt, ir.Block) for stmt in (*path[:-1], *list(ir.walk(block))[1:])):
        raise ScheduleError(f"{where}: the block must be {done} before it is blockized, got {block.name}")


def target_loops(fn: ir.Function, loop: str, where: str) -> list[ir.For]:
    """The loops down to `loop`, which must not lie inside a block."""
    path = loop_path(fn, loop, where)
    if any(isinstance(stmt, ir.Block) for stmt in path):
        raise ScheduleError(f"{where}: the loop must not lie inside a block, got {loop}")
    return loops_on(path)


def build_nest(fn: ir.Function, block: ir.Block, spans: Mapping[str, Span], conditions: list[ir.Expr]) -> ir.Stmt:
    """`block` in new loops: over the span of each axis in `spans`, over the full extent of the
    others.

    The step of a scan gets no loop. Conditions are added where a span can exceed its floor or ceil.
    """
    names, ranges = used_names(fn), domains_of(fn)
    limits = limits_of(conditions, ranges)
    loops: list[tuple[str, ir.Extent]] = []
    values: list[ir.Expr] = []
    for axis in block.axes:
        span = spans.get(axis.var) or full_span(axis.extent)
        if axis.kind is ir.AxisKind.SCAN and axis.var in spans:
            conditions = [*conditions, *_clamps(span.first, span, ranges, limits)]
            values.append(span.first.expr())
            continue
        var = _fresh_loop(names, axis, block.name)
        value = span.first + Linear({ir.Var(var): 1})
        conditions = [*conditions, *_clamps(value, span, ranges, limits)]
        loops.append((var, extent_of(span.extent)))
        values.append(value.expr())
    nest: ir.Stmt = replace(block, values=tuple(values), predicate=predicate_of(conditions))
    for var, extent in reversed(loops):
        nest = ir.For(var, extent, nest)
    return nest


def check_step(leaf: LeafBlock, spans: Mapping[str, Span], outer: Collection[str], where: str) -> None:
    """Refuse a place at which a block of a scan would not compute the current step."""
    for axis in leaf.block.axes:
        if axis.kind is ir.AxisKind.SCAN:
            step = leaf.values[axis.var]
            around = sorted(var_names(step) - set(outer))
            if around:
                rule = f"{leaf.name} must stay inside of {around[0]}, over which it scans"
                raise ScheduleError(f"{where}: {rule}, got a place outside")
            span = spans.get(axis.var)
            if span is None or span.extent != ONE or span.first != linear(step):
                text = "all" if span is None else expr_text(span.first.expr())
                raise ScheduleError(
                    f"{where}: {leaf.name} must compute the step {expr_text(linear(step).expr())} inside it, got {text}"
                )


def in_fresh_loops(fn: ir.Function, block: ir.Block, loops: list[ir.For]) -> ir.Stmt:
    """`block`, bound to `loops`, in serial copies of those loops with fresh names."""
    names = used_names(fn)
    fresh = {loop.var: names.fresh(loop.var, block.name) for loop in loops}
    ranges = domains_of(fn).with_extents({fresh[loop.var]: loop.extent for loop in loops})
    nest = substitute_loops(block, {old: ir.Var(new) for old, new in fresh.items()}, ranges)
    for loop in reversed(loops):
        nest = ir.For(fresh[loop.var], loop.extent, nest)
    return nest


def _fresh_loop(names: Names, axis: ir.Axis, block: str) -> str:
    """A name for the loop of an axis: the axis's name without its `v`."""
    return names.fresh(axis.var.removeprefix("v") or axis.var, block)


def _clamps(value: Linear, span: Span, ranges: Ranges, limits: list[Limit]) -> list[ir.Expr]:
    """The conditions that keep `value` in [floor, ceil], where `limits` let it exceed them."""
    low, high = limited_bounds(span.offset, ranges, limits)
    conditions: list[ir.Expr] = []
    if not at_least(low + span.low, span.floor, ranges):
        conditions.append(ir.Binary("ge", value.expr(), span.floor.expr()))
    if not at_least(span.ceil, high + span.high, ranges):
        conditions.append(ir.Binary("lt", value.expr(), (span.ceil + ONE).expr()))
    return conditions


def insert_nest(
    fn: ir.Function, loop: str | None, nest: ir.Stmt, near: Callable[[ir.Stmt], bool], after: bool
) -> ir.Function:
    """`fn` with `nest` directly inside `loop` (None: at the top), before the first or after the
    last `near` statement."""
    path: Path = (fn.body,) if loop is None else loop_path(fn, loop, "insert")
    old = fn.body if loop is None else path[-1]
    body = old.body if isinstance(old, ir.For) and loop is not None else old
    parts: list[ir.Stmt] = list(body.stmts) if isinstance(body, ir.Seq) else [body]
    hits = [position for position, part in enumerate(parts) if near(part)]
    parts.insert(hits[-1] + 1 if after else hits[0], nest)
    new = ir.seq(*parts)
    return replace_at(fn, path, replace(old, body=new) if isinstance(old, ir.For) and loop is not None else new)


def contains_block(blocks: set[str]) -> Callable[[ir.Stmt], bool]:
    """A predicate: whether a statement contains one of `blocks`."""
    return lambda stmt: any(isinstance(inner, ir.Block) and inner.name in blocks for inner in ir.walk(stmt))


def single_store(leaf: LeafBlock, where: str) -> ir.Store:
    """The only store of a leaf."""
    first, *others = stores(leaf.block)
    if others:
        raise ScheduleError(f"{where}: the block must compute one value, got {len(others) + 1} at once")
    return first


def check_only_writer(fn: ir.Function, leaf: LeafBlock, where: str) -> None:
    """Refuse a buffer that another block writes."""
    for other in leaves(fn):
        if other.name != leaf.name and written_buffers(other.block) & written_buffers(leaf.block):
            raise ScheduleError(f"{where}: no other block must write its buffer, got {other.name}")

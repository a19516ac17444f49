"""The primitive that moves a producer to its readers."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, leaves, readers_of, readers_of_any, written_buffers
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.read_region import region_read, union
from vdla.compiler.analysis.symbols import domains_of
from vdla.compiler.analysis.tree import loop_names, remove_at
from vdla.compiler.arith import var_names
from vdla.compiler.ir import THREAD, THREAD_AXES
from vdla.compiler.schedule.place import (
    build_nest,
    check_step,
    check_terms_kept,
    contains_block,
    insert_nest,
    movable_leaf,
    target_loops,
)


def compute_at(fn: ir.Function, block: str, loop: str) -> ir.Function:
    """Compute a block inside `loop`: in each iteration, the region that its readers read there.

    for h in range(16):                       for y in range(4):
        block b(vh=h): ...                        for h in range(6):
    for y in range(4):                     ->         block b(vh=y * 4 + h) where y * 4 + h < 16
        for i in range(6):                        for i in range(6):
            block c(...): ... b[y * 4 + i]            block c(...): ... b[y * 4 + i]

    Its former loops and their kinds are dropped. Every reader must lie inside `loop`. A buffer in
    "shared" is for all threads of a block: its region is what all iterations of the loops bound to
    thread axes read.
    """
    where = f"compute_at of {block} at {loop}"
    leaf = movable_leaf(fn, block, where)
    check_terms_kept(leaf, where)
    buffers = sorted(written_buffers(leaf.block))
    for buffer in buffers:
        if buffer in fn.params:
            raise ScheduleError(f"{where}: the block must not compute an output, got {buffer}")
    target_loops(fn, loop, where)
    readers = readers_of_any(leaves(fn), set(buffers))
    outside = [reader.name for reader in readers if loop not in [step.var for step in reader.loops]]
    if outside or not readers:
        found = f"{', '.join(outside)} outside" if outside else "none"
        raise ScheduleError(f"{where}: every reader of {', '.join(buffers)} must lie inside {loop}, got {found}")
    without = remove_at(fn, leaf.path)
    if loop not in loop_names(without):
        raise ScheduleError(f"{where}: the loop must lie around a reader, got a loop of {block} alone")
    result = compute_for_readers(without, leaf.block, loop, where, leaf)
    check_flow(result, block, where)
    return result


def compute_for_readers(
    fn: ir.Function, block: ir.Block, loop: str | None, where: str, placed: LeafBlock | None = None
) -> ir.Function:
    """`fn`, which lacks `block`, with the block computed for its readers inside `loop` (None: the
    whole function).

    `placed` is its former place.
    """
    order, buffers = leaves(fn), sorted(written_buffers(block))
    around = target_loops(fn, loop, where) if loop is not None else []
    shared = any(fn.buffers[buffer].scope == "shared" for buffer in buffers)
    outer = {step.var for step in around if not (shared and step.annotations.get(THREAD) in THREAD_AXES)}
    ranges = domains_of(fn)
    needs = [region_read(found, fn.buffers[b], outer, ranges) for b in buffers if (found := readers_of(order, b))]
    spans = [union(dimension, ranges) for dimension in zip(*needs, strict=True)]
    own = [axis for axis in block.axes if axis.kind is not ir.AxisKind.REDUCE]
    scanned = {axis.var for axis in own if axis.kind is ir.AxisKind.SCAN}
    by_axis = {a.var: s if a.var in scanned else s.full(ranges) for a, s in zip(own, spans, strict=True)}
    if placed is not None:
        check_step(placed, by_axis, outer, where)
    readers = readers_of_any(order, set(buffers))
    nest = build_nest(fn, block, by_axis, _shared_conditions(readers, outer))
    return insert_nest(fn, loop, nest, contains_block({reader.name for reader in readers}), after=False)


def _shared_conditions(readers: list[LeafBlock], outer: set[str]) -> list[ir.Expr]:
    """The conditions over outer loops that all readers share."""
    first, *others = readers
    shared = [c for c in first.conditions if all(c in other.conditions for other in others)]
    inner = {loop.var for loop in first.loops} - outer
    return [c for c in shared if not var_names(c) & inner]

# SPDX-License-Identifier: Apache-2.0
"""Dataflow between blocks: the check behind every primitive that moves one.

The flow from a writer to a reader is sound if the writer comes first, if in each iteration of their
common loops it covers the region that the reader reads, and if its reductions are complete there.
Buffers keep their full shape, and a block always computes the same value for an element, so these
conditions suffice.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.access import (
    Indices,
    LeafBlock,
    leaves,
    read_buffers,
    read_indices,
    readers_of,
    store_to,
    writers_of,
    written_buffers,
)
from vdla.compiler.analysis.read_region import Span, within_limits
from vdla.compiler.analysis.symbols import domains_of, extent_form
from vdla.compiler.analysis.tree import ScheduleError, is_unchecked
from vdla.compiler.analysis.written_region import region_written
from vdla.compiler.arith import linear, var_names
from vdla.compiler.ir import expr_text


def check_flow(fn: ir.Function, name: str, where: str) -> None:
    """Refuse `fn` if a read by or from the block `name` no longer finds its value."""
    if is_unchecked():
        return
    all_leaves = leaves(fn)
    block = next(leaf for leaf in all_leaves if leaf.name == name)
    for buffer in sorted(read_buffers(block.block)):
        for writer in writers_of(all_leaves, buffer):
            check_pair(fn, all_leaves, writer, block, buffer, where)
    for buffer in sorted(written_buffers(block.block)):
        for reader in readers_of(all_leaves, buffer):
            check_pair(fn, all_leaves, block, reader, buffer, where)
        _check_start(fn, all_leaves, buffer, where)


def _check_start(fn: ir.Function, order: list[LeafBlock], buffer: str, where: str) -> None:
    """Refuse a decomposed reduction into elements that its init block has not written."""
    writers = writers_of(order, buffer)
    for start in (leaf for leaf in writers if not _accumulates(leaf, buffer)):
        for leaf in writers:
            if leaf.block.init is None and _accumulates(leaf, buffer):
                check_pair(fn, order, start, leaf, buffer, where)


def _accumulates(leaf: LeafBlock, buffer: str) -> bool:
    """Whether a block reads the element that it writes, as a reduction does."""
    return store_to(leaf.block, buffer).indices in read_indices(leaf.block, buffer)


def check_pair(
    fn: ir.Function, order: list[LeafBlock], writer: LeafBlock, reader: LeafBlock, buffer: str, where: str
) -> None:
    """Refuse an unsound flow of `buffer` between two blocks."""
    common = common_loops(writer, reader)
    accesses = read_indices(reader.block, buffer)
    states = [access for access in accesses if _is_earlier_step(writer, reader, buffer, access, common)]
    if states:
        steps = common[: max(place for place, loop in enumerate(common) if loop.var in scan_loops(writer)) + 1]
        _check_coverage(fn, writer, reader, buffer, states, steps, where)
    now = [access for access in accesses if access not in states]
    if not now:
        return
    if order.index(writer) > order.index(reader):
        rule = f"{reader.name} must come after {writer.name}, which computes {buffer}"
        raise ScheduleError(f"{where}: {rule}, got it before")
    _check_complete(writer, reader, common, where)
    _check_coverage(fn, writer, reader, buffer, now, common, where)


def scan_loops(leaf: LeafBlock) -> set[str]:
    """The loops over the steps of a scan."""
    return leaf.loops_along(ir.AxisKind.SCAN)


def _is_earlier_step(writer: LeafBlock, reader: LeafBlock, buffer: str, access: Indices, common: list[ir.For]) -> bool:
    """Whether the writer computed the element in an earlier step of a scan around both."""
    if not scan_loops(writer) or not scan_loops(writer) <= {loop.var for loop in common}:
        return False
    for store_index, index in zip(store_to(writer.block, buffer).indices, access, strict=True):
        if _is_scan_step(writer, store_index):
            step = writer.bound(store_index)
            ago = step - reader.bound(index)
            forwards = all(factor > 0 for factor in step.terms.values())
            backwards = all(factor < 0 for factor in step.terms.values())
            if not ago.terms and ((forwards and ago.const > 0) or (backwards and ago.const < 0)):
                return True
    return False


def _check_coverage(
    fn: ir.Function,
    writer: LeafBlock,
    reader: LeafBlock,
    buffer: str,
    accesses: list[Indices],
    common: list[ir.For],
    where: str,
) -> None:
    """Refuse accesses outside of the region that the writer computes per iteration of the common
    loops.

    The state of a scan may come from an earlier step.
    """
    _check_conditions(writer, reader, common, where)
    ranges, outer, shape = domains_of(fn), {loop.var for loop in common}, fn.buffers[buffer]
    made = region_written(writer, shape, outer, ranges, f"{where}: {reader.name}")
    need = [span.clamped(ranges) for span in within_limits(reader, accesses, shape, outer, ranges)]
    for dimension, (has, wants) in enumerate(zip(made, need, strict=True)):
        index = store_to(writer.block, buffer).indices[dimension]
        earlier = _is_earlier_step(writer, reader, buffer, accesses[0], common) and _is_scan_step(writer, index)
        if not earlier and not has.covers(wants, ranges):
            place = f"in the same iteration of {common[-1].var}" if common else "before it"
            rule = f"{reader.name} must read only what {writer.name} computes {place}"
            raise ScheduleError(f"{where}: {rule}, got {difference_text(buffer, dimension, has, wants)}")


def _is_scan_step(leaf: LeafBlock, index: ir.Expr) -> bool:
    """Whether an index is a scan axis."""
    return isinstance(index, ir.Var) and leaf.axis_of(index.name).kind is ir.AxisKind.SCAN


def common_loops(a: LeafBlock, b: LeafBlock) -> list[ir.For]:
    """The loops around both leaves, outermost first."""
    return [one for one, two in zip(a.loops, b.loops, strict=False) if one is two]


def _check_complete(writer: LeafBlock, reader: LeafBlock, common: list[ir.For], where: str) -> None:
    """Refuse a read of a reduction that a later iteration continues."""
    for loop in reduction_loops(writer, common):
        if last_iteration(loop) not in reader.conditions:
            rule = f"{reader.name} must read {writer.name} where its reduction over {loop.var} is complete"
            raise ScheduleError(f"{where}: {rule}, got a read in every iteration")


def _check_conditions(writer: LeafBlock, reader: LeafBlock, common: list[ir.For], where: str) -> None:
    """Refuse a reader that runs where the writer does not, in the common loops."""
    for condition in selecting_conditions(writer, common):
        if condition not in reader.conditions:
            rule = f"{reader.name} must run only where {writer.name} has run"
            raise ScheduleError(f"{where}: {rule} ({expr_text(condition)}), got every iteration")


def selecting_conditions(leaf: LeafBlock, common: list[ir.For]) -> list[ir.Expr]:
    """The conditions that skip elements of the buffer in some iterations of the common loops.

    Other conditions bound an axis, end a reduction, or come from `compute_once`.
    """
    outer = {loop.var for loop in common}
    summed = leaf.loops_along(ir.AxisKind.REDUCE)
    used = {name for value in leaf.values.values() for name in var_names(value)}
    forms = [linear(value).terms for value in leaf.values.values()]
    loops = {loop.var for loop in leaf.loops}
    return [
        condition
        for condition in leaf.conditions
        if var_names(condition) & outer
        and not _is_compute_once(condition, used)
        and (
            is_equality(condition)
            or not (var_names(condition) & loops <= summed or bounds_axis(condition, forms, loops))
        )
    ]


def is_equality(condition: ir.Expr) -> bool:
    """Whether a condition is an equality, which selects single iterations."""
    return isinstance(condition, ir.Binary) and condition.op == "eq"


def bounds_axis(condition: ir.Expr, forms: list[Mapping[ir.Expr, int]], loops: set[str]) -> bool:
    """Whether a condition compares the binding of an axis with a constant or with symbols."""
    if not isinstance(condition, ir.Binary):
        return False
    difference = linear(condition.a) - linear(condition.b)
    return difference.only(lambda term: bool(var_names(term) & loops)).terms in forms


def _is_compute_once(condition: ir.Expr, used: set[str]) -> bool:
    """Whether a condition is that of `compute_once`: the first iteration of an unused loop."""
    match condition:
        case ir.Binary("eq", ir.Var(name), ir.Const(0)):
            return name not in used
    return False


def reduction_loops(leaf: LeafBlock, common: list[ir.For]) -> list[ir.For]:
    """The loops among `common` over which a leaf reduces."""
    names = leaf.loops_along(ir.AxisKind.REDUCE)
    return [loop for loop in common if loop.var in names and loop.extent != 1]


def last_iteration(loop: ir.For) -> ir.Expr:
    """The condition that selects the last iteration."""
    last = extent_form(loop.extent) - 1
    return ir.binary("eq", loop.var, last.expr())


def first_iteration(loop: str) -> ir.Expr:
    """The condition that selects the first iteration."""
    return ir.binary("eq", loop, 0)


def difference_text(buffer: str, dimension: int, has: Span, wants: Span) -> str:
    """The two spans, for messages."""
    return f"dimension {dimension} of {buffer}: reads {_span_text(wants)}, computed {_span_text(has)}"


def _span_text(span: Span) -> str:
    """A span as `first..last`."""
    first, last = (expr_text((span.offset + edge).expr()) for edge in (span.low, span.high))
    return f"{first}..{last}"

# SPDX-License-Identifier: Apache-2.0
"""The primitive that moves a producer to its readers."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.access import (
    LeafBlock,
    leaf_at,
    leaves,
    read_buffers,
    read_indices,
    readers_of,
    readers_of_any,
    stores,
    written_buffers,
)
from vdla.compiler.analysis.dataflow import (
    check_flow,
    difference_text,
    last_iteration,
    reduction_loops,
    selecting_conditions,
)
from vdla.compiler.analysis.read_region import ZERO, Span, access_region, full_span, region_read, union
from vdla.compiler.analysis.symbols import Domains, domains_of
from vdla.compiler.analysis.tree import ScheduleError, block_path, is_unchecked, loop_names, remove_at
from vdla.compiler.analysis.written_region import region_written
from vdla.compiler.arith import TRUE, linear, simplify, var_names
from vdla.compiler.ir import THREAD, THREAD_AXES, expr_text
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
        place = f"{', '.join(outside)} outside" if outside else "none"
        raise ScheduleError(f"{where}: every reader of {', '.join(buffers)} must lie inside {loop}, got {place}")
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
    needs = [region_read(readers, fn.buffers[b], outer, ranges) for b in buffers if (readers := readers_of(order, b))]
    spans = [union(dimension, ranges) for dimension in zip(*needs, strict=True)]
    axes = [axis for axis in block.axes if axis.kind is not ir.AxisKind.REDUCE]
    scanned = {axis.var for axis in axes if axis.kind is ir.AxisKind.SCAN}
    by_axis = {a.var: s if a.var in scanned else s.full(ranges) for a, s in zip(axes, spans, strict=True)}
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


# --- reverse_compute_at ---------------------------------------------------------------------------

# The primitive that moves a consumer to its producers.


def reverse_compute_at(fn: ir.Function, block: str, loop: str) -> ir.Function:
    """Run a consumer inside `loop`, on the region that its producers compute in each iteration.

    for k in range(8):                         for k in range(8):
        for i in range(4):                         for i in range(4):
            block b(vi=i, vk=reduce k): ... ->         block b(vi=i, vk=reduce k): ...
    for i in range(4):                                 for c_i in range(1):
        block c(vi=i): ... b[vi]                           block c(vi=i + c_i) where k == 7

    Inside reduce loops of a producer it runs in their last iteration, after the last term.
    """
    where = f"reverse_compute_at of {block} at {loop}"
    leaf = movable_leaf(fn, block, where)
    check_terms_kept(leaf, where)
    inside = ir.walk(target_loops(fn, loop, where)[-1])
    if all(stmt is leaf.block for stmt in inside if isinstance(stmt, ir.Block)):
        raise ScheduleError(f"{where}: the loop must lie around a producer, got a loop of {block} alone")
    without = remove_at(fn, leaf.path)
    producers = _producers_under(without, leaf, loop)
    if not producers:
        read = ", ".join(sorted(read_buffers(leaf.block)))
        raise ScheduleError(f"{where}: a producer of {read} must lie inside {loop}, got none")
    common = target_loops(without, loop, where)
    spans = _consumed(without, leaf.block, producers, {step.var for step in common})
    conditions = [c for producer in producers for c in _conditions_after(producer, common)]
    _check_last_terms(producers, common, domains_of(without), where)
    check_step(leaf, spans, [step.var for step in common], where)
    nest = build_nest(without, leaf.block, spans, conditions)
    result = insert_nest(without, loop, nest, contains_block({producer.name for producer in producers}), after=True)
    check_flow(result, block, where)
    if not is_unchecked():
        _check_outputs(result, block, where)
    return result


def _check_outputs(fn: ir.Function, block: str, where: str) -> None:
    """Refuse a place at which a block would skip elements of an output."""
    leaf = leaf_at(block_path(fn, block, where))
    ranges = domains_of(fn)
    for store in (store for store in stores(leaf.block) if store.buffer in fn.params):
        made = region_written(leaf, fn.buffers[store.buffer], set(), ranges, f"{where}: the caller")
        for dimension, (span, extent) in enumerate(zip(made, fn.buffers[store.buffer].shape, strict=True)):
            full = full_span(extent)
            if not span.covers(full, ranges):
                difference = difference_text(store.buffer, dimension, span, full)
                raise ScheduleError(f"{where}: {block} must compute all of its output inside it, got {difference}")


def _producers_under(fn: ir.Function, consumer: LeafBlock, loop: str) -> list[LeafBlock]:
    """The leaves inside `loop` that write what `consumer` reads."""
    wanted = read_buffers(consumer.block)
    inside = (leaf for leaf in leaves(fn) if loop in [step.var for step in leaf.loops])
    return [leaf for leaf in inside if written_buffers(leaf.block) & wanted]


def _consumed(fn: ir.Function, block: ir.Block, producers: list[LeafBlock], outer: set[str]) -> dict[str, Span]:
    """The span of each consumer axis that indexes a produced dimension as `axis + constant`."""
    spans: dict[str, Span] = {}
    sources: dict[str, tuple[str, int]] = {}
    ranges = domains_of(fn)
    extents = {axis.var: axis.extent for axis in block.axes if axis.kind is not ir.AxisKind.REDUCE}
    for producer, store in ((leaf, store) for leaf in producers for store in stores(leaf.block)):
        made = access_region(producer, store.indices, fn.buffers[store.buffer], outer, ranges)
        for indices in read_indices(block, store.buffer):
            for dimension, (index, span) in enumerate(zip(indices, made, strict=True)):
                axis, const = _single_axis(index, extents)
                if axis and axis not in spans and _is_apart(span, (producer.name, dimension), spans, sources):
                    sources[axis] = producer.name, dimension
                    shifted = span.shifted(-const)
                    last = full_span(extents[axis]).high
                    spans[axis] = Span(shifted.offset, shifted.low, shifted.high, ZERO, last).clamped(ranges)
    return spans


def _is_apart(
    span: Span, source: tuple[str, int], spans: Mapping[str, Span], sources: Mapping[str, tuple[str, int]]
) -> bool:
    """Whether an axis may follow a producer's dimension: no outer loop moves it together with
    another axis.

    Two axes moved by one loop would visit only a diagonal, unless they are two dimensions of one
    producer.
    """
    names = {name for term in span.offset.terms for name in var_names(term)}
    for axis, other in spans.items():
        shared = names & {name for term in other.offset.terms for name in var_names(term)}
        apart = sources[axis][0] == source[0] and sources[axis][1] != source[1]
        if shared and not apart:
            return False
    return True


def _single_axis(index: ir.Expr, extents: dict[str, ir.Extent]) -> tuple[str, int]:
    """The axis and constant of an index `axis + const`; no axis for any other."""
    form = linear(index)
    match list(form.terms.items()):
        case [(ir.Var(name=name), 1)] if name in extents:
            return name, form.const
    return "", 0


def _check_last_terms(producers: list[LeafBlock], common: list[ir.For], ranges: Domains, where: str) -> None:
    """Refuse a place in reduce loops of a producer whose conditions skip their last iteration."""
    for producer in producers:
        ends = {loop.var: last_iteration(loop) for loop in reduction_loops(producer, common)}
        last = {var: end.b for var, end in ends.items() if isinstance(end, ir.Binary)}
        for condition in _inherited(producer, common):
            if var_names(condition) & last.keys() and simplify(ir.substitute(condition, last), ranges) != TRUE:
                rule = f"{producer.name} must have a term in the last iteration of {', '.join(last)}"
                raise ScheduleError(f"{where}: {rule}, got terms where {expr_text(condition)}")


def _conditions_after(producer: LeafBlock, common: list[ir.For]) -> list[ir.Expr]:
    """The conditions on the common loops under which the producer is complete."""
    return [*_inherited(producer, common), *(last_iteration(loop) for loop in reduction_loops(producer, common))]


def _inherited(producer: LeafBlock, common: list[ir.For]) -> list[ir.Expr]:
    """The conditions on the common loops under which the producer runs."""
    inner = {loop.var for loop in producer.loops} - {loop.var for loop in common}
    return [c for c in selecting_conditions(producer, common) if not var_names(c) & inner]

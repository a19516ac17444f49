"""The primitive that moves a consumer to its producers."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.access import (
    LeafBlock,
    leaf_at,
    leaves,
    read_buffers,
    read_indices,
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
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.read_region import ZERO, Span, access_region, full_span
from vdla.compiler.analysis.symbols import Domains, domains_of
from vdla.compiler.analysis.tree import block_path, remove_at
from vdla.compiler.analysis.unchecked import is_unchecked
from vdla.compiler.analysis.written_region import region_written
from vdla.compiler.arith import TRUE, linear, simplify, var_names
from vdla.compiler.ir import expr_text
from vdla.compiler.schedule.place import (
    build_nest,
    check_step,
    check_terms_kept,
    contains_block,
    insert_nest,
    movable_leaf,
    target_loops,
)


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
                found = difference_text(store.buffer, dimension, span, full)
                raise ScheduleError(f"{where}: {block} must compute all of its output there, got {found}")


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
    own = {name for term in span.offset.terms for name in var_names(term)}
    for axis, other in spans.items():
        shared = own & {name for term in other.offset.terms for name in var_names(term)}
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

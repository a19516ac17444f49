"""The primitive that moves a consumer to its producer."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.affine import linear, var_names
from vdla.compiler.schedule.access import Leaf, leaves, read_buffers, reads, stores, written
from vdla.compiler.schedule.flow import check_flow, is_last, selecting_conditions, summed_loops
from vdla.compiler.schedule.place import check_step, holds, inserted, movable, nest_at, target_loops
from vdla.compiler.schedule.region import Span, touched
from vdla.compiler.schedule.tree import ScheduleError, all_ranges, loop_names, removed


def reverse_compute_at(fn: ir.Function, block: str, loop: str) -> ir.Function:
    """Run a consumer inside `loop`, in each iteration on the region that its producers compute there.

        for k in range(8):                           for k in range(8):
            for i in range(4):                           for i in range(4):
                block b(vi=i, vk=reduce k): ...   ->         block b(vi=i, vk=reduce k): ...
        for i in range(4):                                   for c_i in range(1):
            block c(vi=i): ... b[vi]                             block c(vi=i + c_i) where k == 7: ... b[vi]

    Under reduce loops of a producer it runs in their last iteration only, where the sum is complete.
    """
    where = f"reverse_compute_at of {block} at {loop}"
    leaf = movable(fn, block, where)
    target_loops(fn, loop, where)
    without = removed(fn, leaf.path)
    if loop not in loop_names(without):
        raise ScheduleError(f"{where}: the loop must lie around a producer, got a loop of {block} alone")
    producers = producers_under(without, leaf, loop)
    if not producers:
        read = ", ".join(sorted(read_buffers(leaf.block)))
        raise ScheduleError(f"{where}: a producer of {read} must lie inside {loop}, got none")
    common = target_loops(without, loop, where)
    spans = consumed(without, leaf.block, producers, {step.var for step in common})
    conditions = [c for producer in producers for c in conditions_after(producer, common)]
    check_step(leaf, spans, [step.var for step in common], where)
    nest = nest_at(without, leaf.block, spans, conditions)
    result = inserted(without, loop, nest, holds({producer.name for producer in producers}), after=True)
    check_flow(result, block, where)
    return result


def producers_under(fn: ir.Function, consumer: Leaf, loop: str) -> list[Leaf]:
    """The leaves inside `loop` that write what `consumer` reads."""
    wanted = read_buffers(consumer.block)
    inside = (leaf for leaf in leaves(fn) if loop in [step.var for step in leaf.loops])
    return [leaf for leaf in inside if written(leaf.block) & wanted]


def consumed(fn: ir.Function, block: ir.Block, producers: list[Leaf], outer: set[str]) -> dict[str, Span]:
    """The span of each axis of the consumer that indexes a produced dimension by itself plus a constant."""
    spans: dict[str, Span] = {}
    extents = {axis.var: axis.size for axis in block.axes if axis.kind is not ir.AxisKind.REDUCE}
    for producer, store in ((leaf, store) for leaf in producers for store in stores(leaf.block)):
        made = touched(producer, store.indices, fn.buffers[store.buffer], outer, all_ranges(fn))
        for indices in reads(block, store.buffer):
            for index, span in zip(indices, made, strict=True):
                axis, const = single_axis(index, extents)
                if axis and axis not in spans:
                    moved = span.shifted(-const)
                    domain = Span(moved.offset, moved.low, moved.high, 0, extents[axis] - 1)
                    spans[axis] = domain.clamped()
    return spans


def single_axis(index: ir.Expr, extents: dict[str, int]) -> tuple[str, int]:
    """The axis and constant of an index `axis + const`; no axis for any other."""
    form = linear(index)
    match list(form.terms.items()):
        case [(ir.Var(name=name), 1)] if name in extents:
            return name, form.const
    return "", 0


def conditions_after(producer: Leaf, common: list[ir.For]) -> list[ir.Expr]:
    """Where, among the iterations of the common loops, the producer has finished its elements."""
    outer = {loop.var for loop in common}
    inherited = [c for c in selecting_conditions(producer, common) if var_names(c) <= outer]
    return [*inherited, *(is_last(loop) for loop in summed_loops(producer, common))]

"""The schedule of a stage that brings none of its own: vector lanes along contiguous elements, outer loops in parallel.

Every function here leaves a block as it is where it knows nothing better, and only changes the order of a reduction's
terms by `rfactor`, which gives each lane a partial result.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import ir
from vdla.compiler.analysis.access import loads
from vdla.compiler.operators.cpu.nest import Nest, nest_named, points, size_of
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

NEAR = 4  # elements: vectors are loaded whole and shuffled for strides up to this
FEWEST_LANES = 2
PARALLEL_POINTS = 1 << 15  # evaluations that are worth waking other threads for
PARALLEL_PARTS = 16  # iterations of a parallel loop from which on no other loop joins it
TRANSPOSE_TILE = 16


def attempt(schedule: Schedule, change: Callable[[], object]) -> bool:
    """Whether a group of primitives is legal; the schedule is as before if it is not."""
    before = schedule.fn, schedule.trace
    try:
        change()
    except (ScheduleError, ir.SymbolicError):
        schedule.fn, schedule.trace = before
        return False
    return True


def schedule_stage(schedule: Schedule, block: str, target: Target) -> None:
    """Give one block its lanes and threads, if its loops are still as they were created."""
    nest = nest_named(schedule.fn, block)
    if any(loop.kind is not ir.LoopKind.SERIAL or "tensorize" in loop.annotations for loop in nest.leaf.loops):
        return
    whole = points(nest.leaf.loops)
    vectorize_stage(schedule, block, target)
    if nest.alone and whole >= PARALLEL_POINTS:
        parallelize(schedule, block)


# --- lanes -----------------------------------------------------------------------------------------------------------


def vectorize_stage(schedule: Schedule, block: str, target: Target) -> None:
    """Vector lanes for a block, along a spatial loop if the accesses allow, else along the innermost reduction."""
    nest = nest_named(schedule.fn, block)
    lanes = target.lanes(nest.element_bytes)
    spatial, reduced = nest.loops("spatial"), nest.loops("reduce")
    if not spatial and not reduced:
        return
    if reduced:
        vectorize_reduction(schedule, nest, lanes)
    elif is_flat(nest):
        attempt(schedule, lambda: flat_lanes(schedule, nest, lanes))
    elif (inner := crossing_loop(nest)) is not None:
        attempt(schedule, lambda: transpose_tiles(schedule, inner.var, spatial[-1].var))
    else:
        attempt(schedule, lambda: lanes_along(schedule, spatial[-1], lanes))


def lanes_along(schedule: Schedule, loop: ir.For, lanes: int) -> str:
    """Lanes along a loop: the whole of a short one, else vectors of it; the loop over the lanes."""
    if size_of(loop.extent) < FEWEST_LANES:
        raise ScheduleError(f"lanes along {loop.var}: the extent must be at least {FEWEST_LANES}, got {loop.extent}")
    inner = loop.var
    if not isinstance(loop.extent, int) or loop.extent > lanes:
        inner = schedule.split(loop.var, factor=lanes)[1]
    schedule.vectorize(inner)
    return inner


def is_flat(nest: Nest) -> bool:
    """Whether all accesses walk their buffers in the order of the loops, so that the loops are as good as one."""
    own = [loop for loop in nest.own if size_of(loop.extent) > 1]
    if len(own) < 2 or any(not isinstance(loop.extent, int) for loop in nest.own):
        return False
    below = 1
    for loop in reversed(own):
        strides = [*nest.read_strides(loop.var), *nest.write_strides(loop.var)]
        if any(stride != below for stride in strides):
            return False
        below *= size_of(loop.extent)
    return True


def flat_lanes(schedule: Schedule, nest: Nest, lanes: int) -> None:
    """One loop of vectors over all elements; rows of whole vectors need no joining."""
    last = nest.own[-1]
    if size_of(last.extent) % lanes == 0:
        lanes_along(schedule, last, lanes)
        return
    fused = schedule.fuse(*(loop.var for loop in nest.own))
    lanes_along(
        schedule, next(loop for loop in nest_named(schedule.fn, nest.leaf.name).own if loop.var == fused), lanes
    )


def crossing_loop(nest: Nest) -> ir.For | None:
    """The loop along which a load is contiguous where it is not along the innermost one: that of a transposition."""
    *outer, last = nest.loops("spatial")
    if all(stride is not None and abs(stride) <= NEAR for stride in nest.read_strides(last.var)):
        return None
    return next((loop for loop in reversed(outer) if 1 in nest.read_strides(loop.var)), None)


def transpose_tiles(schedule: Schedule, y: str, x: str) -> None:
    """Square tiles, in which both the loads and the stores stay within a few cache lines."""
    y_outer, y_inner = schedule.split(y, factor=TRANSPOSE_TILE)
    x_outer, x_inner = schedule.split(x, factor=TRANSPOSE_TILE)
    between = [
        loop for loop in schedule.loops(block_inside(schedule, x_inner)) if loop not in (y_inner, x_outer, x_inner)
    ]
    schedule.reorder(*between[between.index(y_outer) :], x_outer, y_inner, x_inner)


def block_inside(schedule: Schedule, loop: str) -> str:
    """The block under a loop that holds one."""
    stmt = next(s for s in ir.walk(schedule.fn.body) if isinstance(s, ir.For) and s.var == loop)
    return next(s.name for s in ir.walk(stmt) if isinstance(s, ir.Block))


# --- reductions ------------------------------------------------------------------------------------------------------


def vectorize_reduction(schedule: Schedule, nest: Nest, lanes: int) -> None:
    """Lanes along the results where neighbours read neighbours, else partial results along the terms."""
    spatial, reduced = nest.loops("spatial"), nest.loops("reduce")
    along_results = bool(spatial) and worth_lanes(nest, spatial[-1], lanes)
    if along_results and attempt(schedule, lambda: lanes_of_results(schedule, spatial[-1], reduced, lanes)):
        return
    if worth_lanes(nest, reduced[-1], lanes) and has_loads(nest):
        attempt(schedule, lambda: lanes_of_terms(schedule, nest, reduced[-1], lanes))


def worth_lanes(nest: Nest, loop: ir.For, lanes: int) -> bool:
    """Whether the loads of neighbouring iterations are near each other, and there are enough of them."""
    near = all(stride is not None and abs(stride) <= NEAR for stride in nest.read_strides(loop.var))
    return near and size_of(loop.extent) >= min(lanes, NEAR)


def has_loads(nest: Nest) -> bool:
    """Whether a block reads anything but its results."""
    return any(load.buffer != nest.leaf.name for load in loads(nest.leaf.block))


def lanes_of_results(schedule: Schedule, loop: ir.For, reduced: list[ir.For], lanes: int) -> None:
    """A vector of results, kept while all their terms are added."""
    inner = lanes_along(schedule, loop, lanes)
    schedule.reorder(*(r.var for r in reduced), inner)


def lanes_of_terms(schedule: Schedule, nest: Nest, loop: ir.For, lanes: int) -> None:
    """Each lane the partial result of every so-manieth term; the partial results are combined at the end."""
    inner = schedule.split(loop.var, factor=lanes)[1] if size_of(loop.extent) > lanes else loop.var
    kept = sum(axis.kind is not ir.AxisKind.REDUCE for axis in nest.leaf.block.axes)
    partial = schedule.rfactor(inner, factor_axis=kept)
    own = nest_named(schedule.fn, partial)
    lane = own.loops("spatial")[-1]
    schedule.reorder(*(r.var for r in own.loops("reduce")), lane.var)
    schedule.vectorize(lane.var)


# --- threads ---------------------------------------------------------------------------------------------------------


def parallelize(schedule: Schedule, block: str) -> None:
    """The outermost spatial loops of a block as one parallel loop."""
    nest = nest_named(schedule.fn, block)
    outer: list[ir.For] = []
    for loop in nest.own:
        serial = loop.kind is ir.LoopKind.SERIAL
        if loop not in nest.loops("spatial") or not serial or points(outer) >= PARALLEL_PARTS:
            break
        outer.append(loop)
    if outer and points(outer) > 1:
        attempt(schedule, lambda: parallel_loops(schedule, [loop.var for loop in outer]))


def parallel_loops(schedule: Schedule, names: list[str]) -> None:
    """Loops joined and run in parallel."""
    schedule.parallel(schedule.fuse(*names) if len(names) > 1 else names[0])

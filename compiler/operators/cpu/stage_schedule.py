"""The schedule of a stage of no operator: lanes along contiguous elements, outer loops in parallel.

A block that none of the rules improves stays as it is. Only `rfactor`, which gives each lane a
partial result, changes the order of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler import ir
from vdla.compiler.analysis import loads
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, iteration_count, nominal_extent
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

_NEAR = 4  # the largest stride in elements for which whole vectors are loaded and shuffled
FEWEST_LANES = 2
_VECTORS = 4  # of partial results of a long reduction
_FEW_LANES = 4  # of the last vector of partial results
PARALLEL_ITERATIONS = 1 << 15  # the fewest iterations worth waking other threads for
_PARALLEL_PARTS = 16  # the iterations of a parallel loop beyond which no inner loop is fused into it
_TRANSPOSE_TILE = 16


def attempt(schedule: Schedule, change: Callable[[], object]) -> bool:
    """Apply primitives if all are legal, else restore the schedule; whether they were legal."""
    before = schedule.fn, schedule.trace
    try:
        change()
    except (ScheduleError, ir.SymbolicError):
        schedule.fn, schedule.trace = before
        return False
    return True


def schedule_stage(schedule: Schedule, block: str, target: Target) -> None:
    """Vectorise and parallelise one block, if no primitive has touched its loops."""
    nest = block_nest(schedule.fn, block)
    if any(loop.kind is not ir.LoopKind.SERIAL or "tensorize" in loop.annotations for loop in nest.leaf.loops):
        return
    iterations = iteration_count(nest.leaf.loops)
    _vectorize(schedule, block, target)
    if nest.is_alone and iterations >= PARALLEL_ITERATIONS:
        _parallelize(schedule, block)


# --- lanes ----------------------------------------------------------------------------------------


def _vectorize(schedule: Schedule, block: str, target: Target) -> None:
    """Lanes along a spatial loop if the accesses allow it, else along the innermost reduction."""
    nest = block_nest(schedule.fn, block)
    lanes = target.lanes(nest.element_bytes)
    spatial, reduced = nest.loops("spatial"), nest.loops("reduce")
    if not spatial and not reduced:
        return
    if reduced:
        _vectorize_reduction(schedule, nest, lanes)
    elif (period := _period(nest, spatial[-1], lanes)) is not None:
        attempt(schedule, lambda: _periodic_lanes(schedule, nest, period, lanes))
    elif iteration_count(flat := _flat_loops(nest)) > nominal_extent(spatial[-1].extent):
        attempt(schedule, lambda: _flat_lanes(schedule, nest, flat, lanes))
    elif (inner := _transposed_loop(nest)) is not None:
        attempt(schedule, lambda: _transpose_tiles(schedule, inner.var, spatial[-1].var))
    else:
        attempt(schedule, lambda: _lanes_along(schedule, spatial[-1], lanes))


def _lanes_along(schedule: Schedule, loop: ir.For, lanes: int) -> str:
    """Lanes along a loop, or along a part of a longer one; the loop of the lanes."""
    if nominal_extent(loop.extent) < FEWEST_LANES:
        raise ScheduleError(f"lanes along {loop.var}: the extent must be at least {FEWEST_LANES}, got {loop.extent}")
    inner = loop.var
    if not isinstance(loop.extent, int) or loop.extent > lanes:
        inner = schedule.split(loop.var, factor=lanes)[1]
    schedule.vectorize(inner)
    return inner


def _period(nest: BlockNest, loop: ir.For, lanes: int) -> int | None:
    """The number of iterations after which a load begins again, as in a tiled array."""
    indices = [index for load in loads(nest.leaf.block) for index in load.indices]
    for term in (term for index in indices for term in nest.leaf.bound(index).terms):
        match term:
            case ir.Binary("mod", ir.Var(loop.var), ir.Const(int(period))) if isinstance(loop.extent, int):
                if lanes <= period < loop.extent and loop.extent % period == 0:
                    return period
    return None


def _periodic_lanes(schedule: Schedule, nest: BlockNest, period: int, lanes: int) -> None:
    """Lanes along one period, in which loads are contiguous."""
    schedule.split(nest.loops("spatial")[-1].var, factor=period)
    _lanes_along(schedule, block_nest(schedule.fn, nest.leaf.name).loops("spatial")[-1], lanes)


def _flat_loops(nest: BlockNest) -> Sequence[ir.For]:
    """The longest run of inner loops over which every access is contiguous."""
    below = 1
    for at, loop in reversed(list(enumerate(nest.own))):
        strides = [*nest.read_strides(loop.var), *nest.write_strides(loop.var)]
        if not isinstance(loop.extent, int) or (loop.extent > 1 and any(stride != below for stride in strides)):
            return nest.own[at + 1 :]
        below *= loop.extent
    return nest.own


def _flat_lanes(schedule: Schedule, nest: BlockNest, loops: Sequence[ir.For], lanes: int) -> None:
    """A loop of whole vectors over the fewest inner loops, or over all that are contiguous.

    Outer loops that stay apart keep conditions on their variables out of the vectors.
    """
    runs = (loops[-count:] for count in range(1, len(loops) + 1))
    inner = next((run for run in runs if iteration_count(run) % lanes == 0), loops)
    if len(inner) == 1:
        _lanes_along(schedule, inner[0], lanes)
        return
    fused = schedule.fuse(*(loop.var for loop in inner))
    _lanes_along(
        schedule, next(loop for loop in block_nest(schedule.fn, nest.leaf.name).own if loop.var == fused), lanes
    )


def _transposed_loop(nest: BlockNest) -> ir.For | None:
    """The outer loop along which a load is contiguous, as in a transposition."""
    *outer, last = nest.loops("spatial")
    if all(stride is not None and abs(stride) <= _NEAR for stride in nest.read_strides(last.var)):
        return None
    return next((loop for loop in reversed(outer) if 1 in nest.read_strides(loop.var)), None)


def _transpose_tiles(schedule: Schedule, y: str, x: str) -> None:
    """Square tiles, in which loads and stores stay within a few cache lines."""
    y_outer, y_inner = schedule.split(y, factor=_TRANSPOSE_TILE)
    x_outer, x_inner = schedule.split(x, factor=_TRANSPOSE_TILE)
    between = [
        loop for loop in schedule.loops(_block_inside(schedule, x_inner)) if loop not in (y_inner, x_outer, x_inner)
    ]
    schedule.reorder(*between[between.index(y_outer) :], x_outer, y_inner, x_inner)


def _block_inside(schedule: Schedule, loop: str) -> str:
    """The first block inside of a loop."""
    stmt = next(s for s in ir.walk(schedule.fn.body) if isinstance(s, ir.For) and s.var == loop)
    return next(s.name for s in ir.walk(stmt) if isinstance(s, ir.Block))


# --- reductions -----------------------------------------------------------------------------------


def _vectorize_reduction(schedule: Schedule, nest: BlockNest, lanes: int) -> None:
    """Lanes along the results if neighbours read neighbouring elements, else partial results."""
    spatial, reduced = nest.loops("spatial"), nest.loops("reduce")
    along_results = bool(spatial) and _worth_lanes(nest, spatial[-1], lanes)
    if along_results and attempt(schedule, lambda: _lanes_of_results(schedule, spatial[-1], reduced, lanes)):
        return
    if _worth_lanes(nest, reduced[-1], lanes) and _has_loads(nest):
        attempt(schedule, lambda: _lanes_of_terms(schedule, nest, reduced[-1], lanes))


def _worth_lanes(nest: BlockNest, loop: ir.For, lanes: int) -> bool:
    """Whether neighbouring iterations load nearby elements, and there are enough iterations."""
    near = all(stride is not None and abs(stride) <= _NEAR for stride in nest.read_strides(loop.var))
    return near and nominal_extent(loop.extent) >= min(lanes, _NEAR)


def _has_loads(nest: BlockNest) -> bool:
    """Whether a block reads anything but its own results."""
    return any(load.buffer != nest.leaf.name for load in loads(nest.leaf.block))


def _lanes_of_results(schedule: Schedule, loop: ir.For, reduced: list[ir.For], lanes: int) -> None:
    """A vector of results, accumulated over all reduction loops."""
    inner = _lanes_along(schedule, loop, lanes)
    schedule.reorder(*(r.var for r in reduced), inner)


def _lanes_of_terms(schedule: Schedule, nest: BlockNest, loop: ir.For, lanes: int) -> None:
    """Partial results: lane `l` accumulates every `lanes`-th term; lanes are combined last.

    A long reduction has several vectors of them, as one would wait for its own result. They are
    combined to one vector, and that to a part of one, before the last elements are.
    """
    widths = [lanes]
    if nominal_extent(loop.extent) >= lanes * _VECTORS * _VECTORS:
        widths = [lanes * _VECTORS, lanes] + [_FEW_LANES] * (lanes > _FEW_LANES)
    for width in widths:
        _partial_results(schedule, nest.leaf.name, width)


def _partial_results(schedule: Schedule, block: str, lanes: int) -> None:
    """Partial results along the innermost reduction of a block, which combines them."""
    nest = block_nest(schedule.fn, block)
    loop = nest.loops("reduce")[-1]
    inner = schedule.split(loop.var, factor=lanes)[1] if nominal_extent(loop.extent) > lanes else loop.var
    rank = sum(axis.kind is not ir.AxisKind.REDUCE for axis in nest.leaf.block.axes)
    partial = schedule.rfactor(inner, factor_axis=rank)
    own = block_nest(schedule.fn, partial)
    lane = own.loops("spatial")[-1]
    schedule.reorder(*(r.var for r in own.loops("reduce")), lane.var)
    schedule.vectorize(lane.var)


# --- threads --------------------------------------------------------------------------------------


def _parallelize(schedule: Schedule, block: str) -> None:
    """The outermost spatial loops of a block as one parallel loop."""
    nest = block_nest(schedule.fn, block)
    outer: list[ir.For] = []
    for loop in nest.own:
        serial = loop.kind is ir.LoopKind.SERIAL
        if loop not in nest.loops("spatial") or not serial or iteration_count(outer) >= _PARALLEL_PARTS:
            break
        outer.append(loop)
    if outer and iteration_count(outer) > 1:
        attempt(schedule, lambda: _parallel_loops(schedule, [loop.var for loop in outer]))


def _parallel_loops(schedule: Schedule, names: list[str]) -> None:
    """Fuse loops and run them in parallel."""
    schedule.parallel(schedule.fuse(*names) if len(names) > 1 else names[0])

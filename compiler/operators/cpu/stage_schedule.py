# SPDX-License-Identifier: Apache-2.0
"""The schedule of a stage without an operator: lanes along contiguous elements, outer loops in
parallel.

Inlining saves the round trip of a stage through memory: a stage is inlined if each of its elements
is read once, or if recomputing an element costs no more than loading it. Stages of operators and
outputs are never inlined.

Other blocks stay unchanged. Only `rfactor`, which gives each lane a partial result, changes the
order of a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import loads, stores
from vdla.compiler.operators.cpu.block_nest import (
    BlockNest,
    block_nest,
    block_nests,
    consumers,
    iteration_count,
    nominal_extent,
)
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import Target

_CHEAP = 3  # operations that cost less than an element's round trip through memory
_NEAR = 4  # the largest stride in elements at which vectors are loaded and shuffled
FEWEST_LANES = 2
_VECTORS, _WIDE_VECTORS = 4, 2  # of partial results of a long reduction; combining wide ones costs more
_WIDE_LANES = 16
_LONG = 16  # vectors of terms of a long reduction
_FEW_LANES = 4  # of the last vector of partial results
PARALLEL_ITERATIONS = 1 << 15  # the fewest iterations worth waking threads for
_PARALLEL_PARTS = 16  # iterations: a parallel loop with more is not fused with inner loops
_TRANSPOSE_TILE = 16


def attempt(schedule: Schedule, change: Callable[[], object]) -> bool:
    """Apply primitives, or restore the schedule if one is illegal; whether all were legal."""
    before = schedule.fn, schedule.trace
    try:
        change()
    except (ScheduleError, ir.SymbolicError):
        schedule.fn, schedule.trace = before
        return False
    return True


def schedule_stage(schedule: Schedule, block: str, target: Target) -> None:
    """Vectorise and parallelise one block, if its loops are still unscheduled."""
    nest = block_nest(schedule.fn, block)
    if any(loop.kind is not ir.LoopKind.SERIAL or "tensorize" in loop.annotations for loop in nest.leaf.loops):
        return
    iterations = iteration_count(nest.leaf.loops)
    _vectorize(schedule, block, target)
    if nest.is_alone and iterations >= PARALLEL_ITERATIONS:
        _parallelize(schedule, block)


# --- inlining -------------------------------------------------------------------------------------


def inline_stages(schedule: Schedule) -> None:
    """Inline element-wise stages where that pays."""
    done: set[str] = set()
    while True:
        candidates = [nest for nest in block_nests(schedule.fn) if nest.name not in done and _is_elementwise(nest)]
        if not candidates:
            return
        done.add(candidates[0].name)
        if _pays(candidates[0]):
            attempt(schedule, lambda block=candidates[0].name: schedule.inline(block))  # type: ignore[misc]


def _is_elementwise(nest: BlockNest) -> bool:
    """Whether a block is an intermediate stage without reduction and without an operator."""
    block = nest.leaf.block
    if OPERATOR in block.annotations or block.init is not None or not isinstance(block.body, ir.Store):
        return False
    spatial = all(axis.kind is ir.AxisKind.SPATIAL for axis in block.axes)
    return nest.is_alone and spatial and block.body.buffer not in nest.fn.params


def _pays(nest: BlockNest) -> bool:
    """Whether inlining a stage costs less in repeated operations than it saves in loads."""
    (store,) = stores(nest.leaf.block)
    readers = consumers(nest)
    if any(OPERATOR in reader.leaf.block.annotations for reader in readers):
        return False
    if operation_count(store.value) == 0:
        return True
    elements = prod(nominal_extent(extent) for extent in nest.fn.buffers[store.buffer].shape)
    accesses = {r.name: sum(load.buffer == store.buffer for load in loads(r.leaf.block)) for r in readers}
    times = sum(iteration_count(r.loops) * accesses[r.name] for r in readers)
    return times <= elements or (operation_count(store.value) <= _CHEAP and times <= 2 * elements)


def operation_count(value: ir.Expr) -> int:
    """The operations of an expression without index arithmetic; a call counts as several."""
    match value:
        case ir.Load() | ir.Var() | ir.Const():
            return 0
        case ir.Select(cond=_, a=a, b=b):
            return operation_count(a) + operation_count(b)
        case ir.Call(args=args):
            return 4 * _CHEAP + sum(operation_count(arg) for arg in args)
    return (not isinstance(value, ir.Cast)) + sum(operation_count(operand) for operand in ir.operands(value))


# --- lanes ----------------------------------------------------------------------------------------


def _vectorize(schedule: Schedule, block: str, target: Target) -> None:
    """Lanes along a spatial loop if the accesses allow it, else along the innermost reduction."""
    nest = block_nest(schedule.fn, block)
    lanes = target.lanes(nest.element_bytes)
    spatial, reduced = nest.loops_of("spatial"), nest.loops_of("reduce")
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
    """Vectorise a loop, or a part of a longer one; the vector loop."""
    if nominal_extent(loop.extent) < FEWEST_LANES:
        raise ScheduleError(f"lanes along {loop.var}: the extent must be at least {FEWEST_LANES}, got {loop.extent}")
    inner = loop.var
    if not isinstance(loop.extent, int) or loop.extent > lanes:
        inner = schedule.split(loop.var, factor=lanes)[1]
    schedule.vectorize(inner)
    return inner


def _period(nest: BlockNest, loop: ir.For, lanes: int) -> int | None:
    """The period in iterations of a load with wrap-around, as in a tiled array."""
    indices = [index for load in loads(nest.leaf.block) for index in load.indices]
    for term in (term for index in indices for term in nest.leaf.bound(index).terms):
        match term:
            case ir.Binary("mod", ir.Var(loop.var), ir.Const(int(period))) if isinstance(loop.extent, int):
                if lanes <= period < loop.extent and loop.extent % period == 0:
                    return period
    return None


def _periodic_lanes(schedule: Schedule, nest: BlockNest, period: int, lanes: int) -> None:
    """Lanes along one period, in which loads are contiguous."""
    schedule.split(nest.loops_of("spatial")[-1].var, factor=period)
    _lanes_along(schedule, block_nest(schedule.fn, nest.name).loops_of("spatial")[-1], lanes)


def _flat_loops(nest: BlockNest) -> Sequence[ir.For]:
    """The longest run of inner loops over which every access is contiguous."""
    below = 1
    for at, loop in reversed(list(enumerate(nest.loops))):
        strides = [*nest.read_strides(loop.var), *nest.write_strides(loop.var)]
        if not isinstance(loop.extent, int) or (loop.extent > 1 and any(stride != below for stride in strides)):
            return nest.loops[at + 1 :]
        below *= loop.extent
    return nest.loops


def _flat_lanes(schedule: Schedule, nest: BlockNest, loops: Sequence[ir.For], lanes: int) -> None:
    """A loop of whole vectors over the fewest inner loops, or over all that are contiguous.

    Unfused outer loops keep conditions on their variables out of the vectors.
    """
    runs = (loops[-count:] for count in range(1, len(loops) + 1))
    inner = next((run for run in runs if iteration_count(run) % lanes == 0), loops)
    if len(inner) == 1:
        _lanes_along(schedule, inner[0], lanes)
        return
    fused = schedule.fuse(*(loop.var for loop in inner))
    _lanes_along(schedule, next(loop for loop in block_nest(schedule.fn, nest.name).loops if loop.var == fused), lanes)


def _transposed_loop(nest: BlockNest) -> ir.For | None:
    """The outer loop along which a load is contiguous, as in a transposition."""
    *outer, last = nest.loops_of("spatial")
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
    spatial, reduced = nest.loops_of("spatial"), nest.loops_of("reduce")
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
    """Whether a block reads buffers other than its results."""
    return any(load.buffer != nest.name for load in loads(nest.leaf.block))


def _lanes_of_results(schedule: Schedule, loop: ir.For, reduced: list[ir.For], lanes: int) -> None:
    """A vector of results, accumulated over all reduction loops."""
    inner = _lanes_along(schedule, loop, lanes)
    schedule.reorder(*(r.var for r in reduced), inner)


def _lanes_of_terms(schedule: Schedule, nest: BlockNest, loop: ir.For, lanes: int) -> None:
    """Partial results: lane `l` accumulates every `lanes`-th term; lanes are combined last.

    A long reduction has several vectors of them to hide latency. They are combined to one vector,
    then to a part of one, then to a scalar.
    """
    widths, extent = [lanes], nominal_extent(loop.extent)
    if extent >= lanes * _LONG:
        widths = [lanes * (_WIDE_VECTORS if lanes >= _WIDE_LANES else _VECTORS), lanes]
    is_alone = len(nest.loops_of("reduce")) == 1
    if lanes > _FEW_LANES and (len(widths) > 1 or (is_alone and extent >= _FEW_LANES * lanes)):
        widths.append(_FEW_LANES)
    for width in widths:
        _partial_results(schedule, nest.name, width)
    _unroll_few(schedule, nest.name)


def _partial_results(schedule: Schedule, block: str, lanes: int) -> None:
    """Partial results along the innermost reduction of a block, which combines them."""
    nest = block_nest(schedule.fn, block)
    loop = nest.loops_of("reduce")[-1]
    inner = schedule.split(loop.var, factor=lanes)[1] if nominal_extent(loop.extent) > lanes else loop.var
    rank = sum(axis.kind is not ir.AxisKind.REDUCE for axis in nest.leaf.block.axes)
    partial = schedule.rfactor(inner, factor_axis=rank)
    sums = block_nest(schedule.fn, partial)
    lane = sums.loops_of("spatial")[-1]
    schedule.reorder(*(r.var for r in sums.loops_of("reduce")), lane.var)
    schedule.vectorize(lane.var)
    _unroll_few(schedule, partial)


def _unroll_few(schedule: Schedule, block: str) -> None:
    """Unroll the innermost reduction of a few partial results, which then stay in registers."""
    for loop in block_nest(schedule.fn, block).loops_of("reduce")[-1:]:  # of a short row none
        if isinstance(loop.extent, int) and loop.extent <= _FEW_LANES:
            schedule.unroll(loop.var)


# --- threads --------------------------------------------------------------------------------------


def _parallelize(schedule: Schedule, block: str) -> None:
    """The outermost spatial loops of a block as one parallel loop."""
    nest = block_nest(schedule.fn, block)
    outer: list[ir.For] = []
    for loop in nest.loops:
        serial = loop.kind is ir.LoopKind.SERIAL
        if loop not in nest.loops_of("spatial") or not serial or iteration_count(outer) >= _PARALLEL_PARTS:
            break
        outer.append(loop)
    if outer and iteration_count(outer) > 1:
        attempt(schedule, lambda: _parallel_loops(schedule, [loop.var for loop in outer]))


def _parallel_loops(schedule: Schedule, names: list[str]) -> None:
    """Fuse loops and run them in parallel."""
    schedule.parallel(schedule.fuse(*names) if len(names) > 1 else names[0])

"""The default schedule of any function for a GPU: a thread for each element of each stage.

The spatial loops of a block are fused and split over the blocks and threads of a grid; reductions
run in sequence, into a register, or where few results have many terms, in a tree over the threads
of a group. Matrix products get their own schedule, where tiles divide their extents. Steps that are
illegal for a function are skipped: what no step binds, one thread runs.
"""

from __future__ import annotations

from functools import partial

from vdla.compiler import ir
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, block_nests, iteration_count
from vdla.compiler.operators.cpu.inlining import inline_stages
from vdla.compiler.operators.cpu.stage_schedule import attempt
from vdla.compiler.operators.gpu.matmul_schedule import GROUP, schedule_matmul
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits

THREADS = 128
"""The threads of a block: several warps, so that one computes while another waits for memory."""
GROUP_THREADS = 64
"""The threads that reduce to one result together."""
_LONG = 8  # terms for each of them
_FEW_RESULTS = 4096  # beyond, a thread for each keeps the device busy


def grid_schedule(fn: ir.Function, limits: GridLimits | None = None, threads: int = THREADS) -> Schedule:
    """A schedule of `fn` with blocks of `threads` threads, or as many as the device has."""
    schedule = Schedule(fn)
    inline_stages(schedule)
    most = GridLimits("").threads if limits is None else limits.threads
    for nest in block_nests(schedule.fn):
        name = nest.leaf.name
        product = nest.leaf.block.annotations.get(OPERATOR) == "matmul" and most >= GROUP**2
        if not (product and attempt(schedule, partial(schedule_matmul, schedule, name))):
            bind_stage(schedule, name, min(threads, most))
    return schedule


def bind_stage(schedule: Schedule, block: str, threads: int) -> None:
    """Give each element of a block a thread, if no other block shares its loops."""
    nest = block_nest(schedule.fn, block)
    if not nest.is_alone:
        return
    if _is_long(nest) and attempt(schedule, lambda: _reduce_in_group(schedule, block)):
        return
    if iteration_count(nest.loops("spatial")) == 1:
        return
    if nest.loops("reduce") and attempt(schedule, lambda: _reduce_in_register(schedule, block, threads)):
        return
    attempt(schedule, lambda: _bind_elements(schedule, block, threads))


def _is_long(nest: BlockNest) -> bool:
    """Whether a few results have so many terms that a group of threads is worth its barriers."""
    terms, results = iteration_count(nest.loops("reduce")), iteration_count(nest.loops("spatial"))
    return terms >= _LONG * GROUP_THREADS and results <= _FEW_RESULTS


def _reduce_in_group(schedule: Schedule, block: str) -> None:
    """A group of threads for each result: a part of the terms for each, combined in a tree."""
    nest = block_nest(schedule.fn, block)
    reduced = [loop.var for loop in nest.loops("reduce")]
    outer = [loop.var for loop in nest.own if loop.var not in reduced]
    schedule.reorder(*outer, *reduced)
    terms = schedule.fuse(*reduced) if len(reduced) > 1 else reduced[0]
    step, part = schedule.split(terms, factor=GROUP_THREADS)  # neighbours read neighbours
    schedule.reorder(part, step)
    schedule.bind(schedule.fuse(*outer) if len(outer) > 1 else outer[0], "blockIdx.x")
    schedule.thread_reduce(part, "threadIdx.x")


def _reduce_in_register(schedule: Schedule, block: str, threads: int) -> None:
    """A thread for each result, which it reduces in a local variable."""
    copy = schedule.cache_write(block, "local")
    schedule.compute_at(block, _bind_elements(schedule, copy, threads))


def _bind_elements(schedule: Schedule, block: str, threads: int) -> str:
    """The fused spatial loops over blocks and threads; the innermost loop bound."""
    nest = block_nest(schedule.fn, block)
    spatial = nest.loops("spatial")
    others = [loop.var for loop in nest.own if loop not in spatial]
    if not spatial:
        raise ScheduleError(f"threads for {block}: a loop must be spatial, got none")
    if [loop.var for loop in nest.own] != [*(loop.var for loop in spatial), *others]:
        schedule.reorder(*(loop.var for loop in spatial), *others)
    fused = schedule.fuse(*(loop.var for loop in spatial)) if len(spatial) > 1 else spatial[0].var
    extent = next(loop.extent for loop in block_nest(schedule.fn, block).own if loop.var == fused)
    if isinstance(extent, int) and extent <= threads:
        schedule.bind(fused, "threadIdx.x")
        return fused
    outer, inner = schedule.split(fused, factor=threads)
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    return inner

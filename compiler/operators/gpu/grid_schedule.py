"""The default schedule of any function for a GPU.

Operators have schedules of their own. Of the other stages, those that serve the rows of a result
become one kernel with a group of threads, or one thread, for each row; reductions of many terms get
groups of threads, and all others a thread for each element. Steps that are illegal for a function
are skipped: what no step binds, one thread runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from vdla.compiler import ir
from vdla.compiler.ir import THREAD
from vdla.compiler.operators.cpu.block_nest import block_nest, block_nests, iteration_count
from vdla.compiler.operators.cpu.inlining import inline_stages
from vdla.compiler.operators.cpu.stage_schedule import attempt
from vdla.compiler.operators.gpu.conv2d_schedule import default_conv2d_tiles, schedule_conv2d
from vdla.compiler.operators.gpu.depthwise_schedule import default_depthwise_tiles, schedule_depthwise
from vdla.compiler.operators.gpu.element_schedule import THREADS, default_element_tiles, schedule_elements
from vdla.compiler.operators.gpu.matmul_schedule import default_matmul_tiles, schedule_matmul
from vdla.compiler.operators.gpu.reduction_schedule import default_reduction_tiles, schedule_reduction
from vdla.compiler.operators.gpu.row_schedule import default_row_tiles, row_producers, schedule_rows
from vdla.compiler.operators.gpu.tensor_core_schedule import (
    TensorCoreTiles,
    default_tensor_core_tiles,
    schedule_tensor_cores,
)
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

Tiles = Any  # one of the dataclasses of the schedules


def operator_schedules() -> Mapping[str, tuple[Callable[[Schedule, str, GridLimits], Tiles], Callable[..., None]]]:
    """The default tiles and the schedule of each operator."""
    return {
        "conv2d": (default_conv2d_tiles, schedule_conv2d),
        "depthwise_conv2d": (default_depthwise_tiles, schedule_depthwise),
        "matmul": (default_matmul_tiles, schedule_matmul),
    }


def grid_schedule(
    fn: ir.Function,
    limits: GridLimits | None = None,
    threads: int = THREADS,
    tiles: Mapping[str, Tiles] | None = None,
) -> Schedule:
    """A schedule of `fn` with groups of `threads` threads where each computes elements of its own.

    `tiles` gives the tiles of operators by the name of their block, which must then be legal.
    """
    schedule = Schedule(fn)
    inline_stages(schedule)
    device = GridLimits("") if limits is None else limits
    given = tiles or {}
    for name in [nest.leaf.name for nest in block_nests(schedule.fn) if OPERATOR in nest.leaf.block.annotations]:
        _schedule_operator(schedule, name, device, given)
    for name in reversed([nest.leaf.name for nest in block_nests(schedule.fn)]):
        if not _is_bound(schedule, name):
            bind_stage(schedule, name, device, threads)
    return schedule


def _schedule_operator(schedule: Schedule, block: str, limits: GridLimits, given: Mapping[str, Tiles]) -> None:
    """Apply the schedule of the operator that a block sums, if it has one."""
    operator = str(block_nest(schedule.fn, block).leaf.block.annotations.get(OPERATOR, ""))
    if operator not in operator_schedules():
        return
    default, apply = operator_schedules()[operator]
    if isinstance(given.get(block), TensorCoreTiles):
        apply = schedule_tensor_cores
    if block in given:
        apply(schedule, block, given[block])
    elif not (operator == "matmul" and limits.tensor_cores and _use_tensor_cores(schedule, block, limits)):
        attempt(schedule, lambda: apply(schedule, block, default(schedule, block, limits)))


def _use_tensor_cores(schedule: Schedule, block: str, limits: GridLimits) -> bool:
    """Apply the schedule for tensor cores, if they can compute the product; whether they can."""
    default, apply = default_tensor_core_tiles, schedule_tensor_cores
    return attempt(schedule, lambda: apply(schedule, block, default(schedule, block, limits)))


def _is_bound(schedule: Schedule, block: str) -> bool:
    """Whether a loop around a block is bound."""
    return any(THREAD in loop.annotations for loop in block_nest(schedule.fn, block).leaf.loops)


def bind_stage(schedule: Schedule, block: str, limits: GridLimits, threads: int) -> None:
    """Give the elements of a block groups or threads, with the stages that serve it alone.

    The first stages are left out, one after another, until the rest fits.
    """
    if not block_nest(schedule.fn, block).is_alone:
        return
    producers = row_producers(schedule, block)
    for first in range(len(producers)):
        if attempt(schedule, partial(_bind_rows, schedule, block, limits, threads, producers[first:])):
            return
    if attempt(schedule, lambda: _bind_reduction(schedule, block, limits)):
        return
    if iteration_count(block_nest(schedule.fn, block).loops("spatial")) > 1:
        attempt(schedule, lambda: _bind_elements(schedule, block, limits, threads))


def _bind_rows(schedule: Schedule, block: str, limits: GridLimits, threads: int, producers: list[str]) -> None:
    """A group or a thread for each row."""
    tiles = default_row_tiles(schedule, block, limits, producers, threads)
    schedule_rows(schedule, block, tiles, producers, limits.shared_bytes // 2)


def _bind_elements(schedule: Schedule, block: str, limits: GridLimits, threads: int) -> None:
    """A thread for each element."""
    schedule_elements(schedule, block, default_element_tiles(schedule, block, limits, threads))


def _bind_reduction(schedule: Schedule, block: str, limits: GridLimits) -> None:
    """A group for each sum."""
    schedule_reduction(schedule, block, default_reduction_tiles(schedule, block, limits))

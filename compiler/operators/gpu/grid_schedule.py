# SPDX-License-Identifier: Apache-2.0
"""The default schedule of any function for a GPU.

Operators have their own schedules; tensor cores compute every product that they can. Of the other
stages, those that serve the rows of a result become one kernel with a group of threads, or one
thread, for each row; reductions of many terms get groups of threads, and all others a thread for
each element. Illegal steps are skipped: unbound blocks run in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import ir
from vdla.compiler.analysis import written_buffers
from vdla.compiler.ir import THREAD
from vdla.compiler.operators.cpu.block_nest import block_nest, block_nests, iteration_count
from vdla.compiler.operators.cpu.stage_schedule import attempt, inline_stages
from vdla.compiler.operators.gpu.conv2d_schedule import Conv2dProblem, image_of, schedule_conv2d
from vdla.compiler.operators.gpu.depthwise_schedule import DepthwiseProblem, schedule_depthwise
from vdla.compiler.operators.gpu.flat_schedules import (
    THREADS,
    ElementProblem,
    ReductionProblem,
    schedule_elements,
    schedule_reduction,
)
from vdla.compiler.operators.gpu.matmul_schedule import MatmulProblem, schedule_matmul
from vdla.compiler.operators.gpu.row_schedule import RowProblem, row_producers, schedule_rows
from vdla.compiler.operators.gpu.tensor_core_schedule import (
    TensorCoreProblem,
    TensorCoreTiles,
    schedule_tensor_cores,
)
from vdla.compiler.operators.gpu.tile_choice import TileChoices, TileProblem, Tiles
from vdla.compiler.operators.roles import OPERATOR, TILED_TRANSPOSE, WINDOW_ROWS
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits

_Ask = Callable[[Schedule, str, GridLimits], TileProblem]
_OPERATORS: Mapping[str, tuple[_Ask, Callable[..., None]]] = {
    "conv2d": (Conv2dProblem.of, schedule_conv2d),
    "depthwise_conv2d": (DepthwiseProblem.of, schedule_depthwise),
    "matmul": (MatmulProblem.of, schedule_matmul),
}
"""The tile problem and the schedule of each operator."""


def grid_schedule(
    fn: ir.Function,
    limits: GridLimits | None = None,
    threads: int = THREADS,
    tiles: Mapping[str, Tiles] | None = None,
) -> Schedule:
    """A schedule of `fn`, with groups of `threads` threads for element-wise blocks.

    `tiles` replaces default tiles of the same type, by block name.

    Raises:
        ScheduleError: given tiles are not legal.
    """
    choices = TileChoices(tiles or {})
    schedule = _schedule(fn, GridLimits("") if limits is None else limits, threads, choices)
    choices.check_given()
    return schedule


def grid_problems(fn: ir.Function, limits: GridLimits) -> dict[str, TileProblem]:
    """The tile problem of each block of a function, except for stages created by the schedule of
    another block.
    """
    schedule, choices = Schedule(fn), TileChoices({})
    inline_stages(schedule)
    _inline_images(schedule)
    _schedule(fn, limits, THREADS, choices)
    names = {nest.name for nest in block_nests(schedule.fn)}
    return {block: problem for block, problem in choices.asked.items() if block in names}


def _schedule(fn: ir.Function, device: GridLimits, threads: int, choices: TileChoices) -> Schedule:
    """The schedule of all blocks."""
    schedule = Schedule(fn)
    inline_stages(schedule)
    _inline_images(schedule)
    for nest in block_nests(schedule.fn):
        if OPERATOR in nest.leaf.block.annotations:
            _schedule_operator(schedule, nest.name, device, choices)
        elif device.tensor_cores and nest.loops_of("reduce"):
            _use_tensor_cores(schedule, nest.name, device, choices)
    for name in reversed([nest.name for nest in block_nests(schedule.fn)]):
        if not _is_bound(schedule, name):
            _bind_stage(schedule, name, device, threads, choices)
    return schedule


def _inline_images(schedule: Schedule) -> None:
    """Leave out what only lanes of CPUs need: images that are padded for rows of windows, and
    elements that are regrouped for a transposition.
    """
    for nest in block_nests(schedule.fn):
        operator = nest.leaf.block.annotations.get(OPERATOR)
        if operator == TILED_TRANSPOSE:
            attempt(schedule, partial(schedule.inline, nest.name))
        elif operator == WINDOW_ROWS:
            image = image_of(nest.leaf.block)
            makers = (maker.name for maker in block_nests(schedule.fn) if image in written_buffers(maker.leaf.block))
            for maker in makers:
                attempt(schedule, partial(schedule.inline, maker))


def _schedule_operator(schedule: Schedule, block: str, limits: GridLimits, choices: TileChoices) -> None:
    """Apply the schedule of the operator that a block sums, if it has one."""
    operator = str(block_nest(schedule.fn, block).leaf.block.annotations.get(OPERATOR, ""))
    if operator not in _OPERATORS:
        return
    problem, apply = _OPERATORS[operator]
    if isinstance(choices.given.get(block), TensorCoreTiles):
        apply = schedule_tensor_cores
    if block in choices.given:
        choices.selection[block] = choices.given[block]
        apply(schedule, block, choices.given[block])
    elif not (operator == "matmul" and limits.tensor_cores and _use_tensor_cores(schedule, block, limits, choices)):
        attempt(schedule, lambda: apply(schedule, block, choices.tiles(block, problem(schedule, block, limits))))


def _use_tensor_cores(schedule: Schedule, block: str, limits: GridLimits, choices: TileChoices) -> bool:
    """Apply the schedule for tensor cores if they can compute the product; whether it was."""

    def apply() -> None:
        problem = TensorCoreProblem.of(schedule, block, limits)
        schedule_tensor_cores(schedule, block, choices.tiles(block, problem))

    return attempt(schedule, apply)


def _is_bound(schedule: Schedule, block: str) -> bool:
    """Whether a loop around a block is bound."""
    return any(THREAD in loop.annotations for loop in block_nest(schedule.fn, block).leaf.loops)


def _bind_stage(schedule: Schedule, block: str, limits: GridLimits, threads: int, choices: TileChoices) -> None:
    """Map the elements of a block to groups or threads, with the stages that only it reads.

    The first stages are dropped, one after another, until the remaining ones fit.
    """
    if not block_nest(schedule.fn, block).is_alone:
        return
    producers = row_producers(schedule, block)
    for first in range(len(producers)):
        if attempt(schedule, partial(_bind_rows, schedule, block, limits, threads, producers[first:], choices)):
            return
    if attempt(schedule, lambda: _bind_reduction(schedule, block, limits, choices)):
        return
    if iteration_count(block_nest(schedule.fn, block).loops_of("spatial")) > 1:
        attempt(schedule, lambda: _bind_elements(schedule, block, limits, threads, choices))


def _bind_rows(
    schedule: Schedule, block: str, limits: GridLimits, threads: int, producers: list[str], choices: TileChoices
) -> None:
    """A group or a thread for each row."""
    tiles = choices.tiles(block, RowProblem.of(schedule, block, limits, producers, threads))
    schedule_rows(schedule, block, tiles, producers, limits.shared_bytes // 2)


def _bind_elements(schedule: Schedule, block: str, limits: GridLimits, threads: int, choices: TileChoices) -> None:
    """A thread for each element."""
    schedule_elements(schedule, block, choices.tiles(block, ElementProblem.of(schedule, block, limits, threads)))


def _bind_reduction(schedule: Schedule, block: str, limits: GridLimits, choices: TileChoices) -> None:
    """A group for each sum."""
    schedule_reduction(schedule, block, choices.tiles(block, ReductionProblem.of(schedule, block, limits)))

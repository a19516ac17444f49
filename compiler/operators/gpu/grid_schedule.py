"""The default schedule of any function for a GPU.

Operators have schedules of their own; any product that the tensor cores of a device can compute is
for them. Of the other stages, those that serve the rows of a result become one kernel with a group
of threads, or one thread, for each row; reductions of many terms get groups of threads, and all
others a thread for each element. Steps that are illegal for a function are skipped: what no step
binds, one thread runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from vdla.compiler.schedule import Schedule, ScheduleError
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

    `tiles` gives tiles by the name of their block, in place of the default ones of the same type.

    Raises:
        ScheduleError: given tiles are not legal.
    """
    choices = TileChoices(tiles or {})
    schedule = _schedule(fn, GridLimits("") if limits is None else limits, threads, choices)
    choices.check_all_taken()
    return schedule


def grid_tiles(fn: ir.Function, limits: GridLimits | None = None, threads: int = THREADS) -> dict[str, Tiles]:
    """The tiles that `grid_schedule` takes by default, by the name of their block."""
    choices = TileChoices({})
    _schedule(fn, GridLimits("") if limits is None else limits, threads, choices)
    return choices.taken


@dataclass(slots=True)
class TileChoices:
    """Tiles by the name of a block: those that were given, and those that were taken."""

    given: Mapping[str, Tiles]
    taken: dict[str, Tiles] = field(default_factory=dict)

    def tiles(self, block: str, default: Tiles) -> Tiles:
        """The given tiles of a block if they are for its schedule, else the default ones."""
        given = self.given.get(block)
        self.taken[block] = given if type(given) is type(default) else default
        return self.taken[block]

    def check_all_taken(self) -> None:
        """ScheduleError unless all given tiles were legal."""
        for block, tiles in self.given.items():
            if self.taken.get(block) != tiles:
                taken = self.taken.get(block, "no tiles")
                raise ScheduleError(f"grid schedule of {block}: tiles must be legal there, got {tiles}, not {taken}")


def _schedule(fn: ir.Function, device: GridLimits, threads: int, choices: TileChoices) -> Schedule:
    """The schedule of all blocks."""
    schedule = Schedule(fn)
    inline_stages(schedule)
    for nest in block_nests(schedule.fn):
        if OPERATOR in nest.leaf.block.annotations:
            _schedule_operator(schedule, nest.leaf.name, device, choices)
        elif device.tensor_cores and nest.loops("reduce"):
            _use_tensor_cores(schedule, nest.leaf.name, device, choices)
    for name in reversed([nest.leaf.name for nest in block_nests(schedule.fn)]):
        if not _is_bound(schedule, name):
            bind_stage(schedule, name, device, threads, choices)
    return schedule


def _schedule_operator(schedule: Schedule, block: str, limits: GridLimits, choices: TileChoices) -> None:
    """Apply the schedule of the operator that a block sums, if it has one."""
    operator = str(block_nest(schedule.fn, block).leaf.block.annotations.get(OPERATOR, ""))
    if operator not in operator_schedules():
        return
    default, apply = operator_schedules()[operator]
    if isinstance(choices.given.get(block), TensorCoreTiles):
        apply = schedule_tensor_cores
    if block in choices.given:
        choices.taken[block] = choices.given[block]
        apply(schedule, block, choices.given[block])
    elif not (operator == "matmul" and limits.tensor_cores and _use_tensor_cores(schedule, block, limits, choices)):
        attempt(schedule, lambda: apply(schedule, block, choices.tiles(block, default(schedule, block, limits))))


def _use_tensor_cores(schedule: Schedule, block: str, limits: GridLimits, choices: TileChoices) -> bool:
    """Apply the schedule for tensor cores, if they can compute the product; whether they can."""
    default, apply = default_tensor_core_tiles, schedule_tensor_cores
    return attempt(schedule, lambda: apply(schedule, block, choices.tiles(block, default(schedule, block, limits))))


def _is_bound(schedule: Schedule, block: str) -> bool:
    """Whether a loop around a block is bound."""
    return any(THREAD in loop.annotations for loop in block_nest(schedule.fn, block).leaf.loops)


def bind_stage(schedule: Schedule, block: str, limits: GridLimits, threads: int, choices: TileChoices) -> None:
    """Give the elements of a block groups or threads, with the stages that serve it alone.

    The first stages are left out, one after another, until the rest fits.
    """
    if not block_nest(schedule.fn, block).is_alone:
        return
    producers = row_producers(schedule, block)
    for first in range(len(producers)):
        if attempt(schedule, partial(_bind_rows, schedule, block, limits, threads, producers[first:], choices)):
            return
    if attempt(schedule, lambda: _bind_reduction(schedule, block, limits, choices)):
        return
    if iteration_count(block_nest(schedule.fn, block).loops("spatial")) > 1:
        attempt(schedule, lambda: _bind_elements(schedule, block, limits, threads, choices))


def _bind_rows(
    schedule: Schedule, block: str, limits: GridLimits, threads: int, producers: list[str], choices: TileChoices
) -> None:
    """A group or a thread for each row."""
    tiles = choices.tiles(block, default_row_tiles(schedule, block, limits, producers, threads))
    schedule_rows(schedule, block, tiles, producers, limits.shared_bytes // 2)


def _bind_elements(schedule: Schedule, block: str, limits: GridLimits, threads: int, choices: TileChoices) -> None:
    """A thread for each element."""
    schedule_elements(schedule, block, choices.tiles(block, default_element_tiles(schedule, block, limits, threads)))


def _bind_reduction(schedule: Schedule, block: str, limits: GridLimits, choices: TileChoices) -> None:
    """A group for each sum."""
    schedule_reduction(schedule, block, choices.tiles(block, default_reduction_tiles(schedule, block, limits)))

# SPDX-License-Identifier: Apache-2.0
"""The schedule of stages that serve the rows of a result, as one kernel with a group for each row.

The rows of softmax and of norms are reduced once or twice before their elements are computed. All
stages run inside the loop over the rows, in shared memory: reductions as trees over the threads,
element-wise stages distributed over them. One thread computes a short row in registers. Operands
shared by rows, such as a factor of a channel, are recomputed for each row if that is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import ClassVar

from vdla.compiler import ir
from vdla.compiler.analysis import Indices, leaves, loads, readers_of_any, written_buffers
from vdla.compiler.arith import var_names
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import (
    BlockNest,
    block_nest,
    block_nests,
    iteration_count,
    loops_inside,
    nominal_extent,
)
from vdla.compiler.operators.cpu.stage_schedule import attempt
from vdla.compiler.operators.gpu.flat_schedules import THREADS, bind_threads, groups_of, is_thread_enough, split_terms
from vdla.compiler.operators.gpu.group_loops import fuse_all, loop_extent
from vdla.compiler.operators.gpu.tile_choice import TileProblem, divisors, powers
from vdla.compiler.operators.roles import OPERATOR, WINDOW_ROWS
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits
from vdla.compiler.tensorize import LANES

_MOST_THREADS = 256
_ELEMENTS = 4  # of a row for each thread
_FEW_THREADS = 32  # a warp
_GROUP_THREADS = 64  # shorter rows share a group
_MOST_ROWS = 16  # of a group, where several threads compute a row
_MOST_EXTRA = 1.125  # of the work of all stages, with recomputation of shared operands


@dataclass(frozen=True, slots=True)
class RowTiles:
    """The threads of a row, and the rows of a group; unless a row has one thread, they must divide
    the innermost loop over rows.
    """

    threads: int
    rows: int = 1


def row_producers(schedule: Schedule, block: str) -> list[str]:
    """The producers that serve only a block, in order, without stages of operators."""
    order = [nest.name for nest in block_nests(schedule.fn)]
    producers: list[str] = []
    for name in reversed(order[: order.index(block)]):
        nest = block_nest(schedule.fn, name)
        buffers = written_buffers(nest.leaf.block)
        readers = {reader.name for reader in readers_of_any(leaves(schedule.fn), buffers)}
        operator = nest.leaf.block.annotations.get(OPERATOR, "")
        is_internal = not buffers & set(schedule.fn.params) and operator in ("", WINDOW_ROWS)
        if is_internal and nest.is_alone and readers and readers <= {block, *producers}:
            producers.insert(0, name)
    return producers


def row_loops(nest: BlockNest, producers: Sequence[BlockNest]) -> dict[str, int]:
    """The spatial loops along which all of a consumer's reads of its producers change, and the
    period of each in iterations: 4 if a row is read at `i // 4`.
    """
    made = {buffer for producer in producers for buffer in written_buffers(producer.leaf.block)}
    periods = {loop.var: 1 for loop in nest.loops_of("spatial") if loop.extent != 1}
    for load in loads(nest.leaf.block):
        if load.buffer in made:
            steps = _steps_of(nest, load.indices)
            periods = {loop: max(step, steps[loop]) for loop, step in periods.items() if loop in steps}
    return {loop.var: periods[loop.var] for loop in nest.loops if loop.var in periods}


def _steps_of(nest: BlockNest, indices: Indices) -> dict[str, int]:
    """The loops that indices depend on, and the period in iterations of each."""
    periods: dict[str, int] = {}
    for term in (term for index in indices for term in nest.leaf.bound(index).terms):
        match term:
            case ir.Binary("floordiv", ir.Var(name), ir.Const(int(step))):
                periods.setdefault(name, step)
            case _:
                periods |= dict.fromkeys(var_names(term), 1)
    return periods


@dataclass(frozen=True, kw_only=True)
class RowProblem(TileProblem):
    """`rows` rows of `length` elements, processed by `stages` stages, all but the last of which
    hold `held` elements of a row; the innermost loop over rows has `last` iterations. A row has
    `elements` results.

    If one thread computes a row, groups have `group_threads` threads by default.
    """

    operator: ClassVar[str] = "rows"
    block: str
    rows: int
    last: int
    length: int
    elements: int
    stages: int
    held: int
    group_threads: int

    @staticmethod
    def of(
        schedule: Schedule, block: str, limits: GridLimits, producers: Sequence[str], threads: int = THREADS
    ) -> RowProblem:
        """The problem of a block and its producers."""
        nest, *stages = nests = [block_nest(schedule.fn, name) for name in (block, *producers)]
        steps = row_loops(nest, stages)
        counts = [nominal_extent(loop.extent) // steps[loop.var] for loop in nest.loops if loop.var in steps]
        rows = prod(counts)
        iterations = sum(iteration_count(stage.leaf.loops) for stage in nests)
        return RowProblem(
            **TileProblem.facts(nest, limits) | {"iterations": iterations},
            block=block,
            rows=rows,
            last=counts[-1] if counts else 1,
            length=max(iteration_count(stage.loops) for stage in nests) // rows,
            elements=iteration_count(nest.loops_of("spatial")) // rows,
            stages=len(nests),
            held=sum(iteration_count(stage.loops_of("spatial")) for stage in stages) // rows,
            group_threads=min(threads, limits.threads),
        )

    @cached_property
    def default(self) -> RowTiles:
        """Threads for a few elements each; short rows share a group.

        Raises:
            ScheduleError: a result has so many terms that several groups must share them.
        """
        rows, length = self.rows, self.length
        if self.elements == 1 and groups_of(rows, length) > 1:
            raise ScheduleError(f"rows of {self.block}: a group must be enough for a row, got one of {length} terms")
        if length < _FEW_THREADS or (self.elements == 1 and is_thread_enough(rows, length)):
            return RowTiles(1, self.group_threads)
        share = min(max(_FEW_THREADS, min(length // _ELEMENTS, _MOST_THREADS)), self.limits.threads)
        threads = powers(1, share)[-1]
        return RowTiles(threads, divisors(self.last, max(1, _GROUP_THREADS // threads))[-1])

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two; a row of one thread keeps one thread."""
        threads = powers(LANES, self.limits.threads)
        if self.default.threads == 1:
            return {"threads": (1,), "rows": threads}
        return {"threads": threads, "rows": divisors(self.last, _MOST_ROWS)}

    def threads(self, tiles: RowTiles) -> int:
        """The threads of a group."""
        return tiles.threads * tiles.rows

    def fits(self, tiles: RowTiles) -> bool:
        """Whether most threads have an element, and a group needs at most half of the shared
        memory.
        """
        if tiles.threads > max(self.length, self.default.threads):
            return False
        held = self.held + self.stages * tiles.threads  # and a partial result of each thread
        nbytes = 0 if tiles.threads == 1 else held * self.itemsize * tiles.rows
        return self.holds(tiles) and (tiles == self.default or nbytes <= self.limits.shared_bytes // 2)


def schedule_rows(
    schedule: Schedule, block: str, tiles: RowTiles, producers: Sequence[str], shared_bytes: int = 1 << 30
) -> None:
    """Map `tiles.rows` rows of a block and of its producers to a group of threads.

    Raises:
        ScheduleError: a row needs more than `shared_bytes`, or rows would recompute too much.
    """
    before = _work(schedule, [block, *producers])
    elements = _work(schedule, [block])
    place, row_of_group = _row_loop(schedule, block, tiles, producers)
    for name in reversed(producers):
        for buffer in written_buffers(block_nest(schedule.fn, name).leaf.block):
            schedule.set_scope(buffer, "shared" if tiles.threads > 1 else "local")
        schedule.compute_at(name, place)
    padded = _work(schedule, [block]) / elements  # includes threads past the last row
    _check_work(block, before, round(_work(schedule, [block, *producers]) / padded))
    if tiles.threads == 1:
        return
    if row_of_group is not None:
        schedule.bind(row_of_group, "threadIdx.y")  # last, when all stages inside belong to one row
    row_bytes = sum(_row_bytes(schedule, name, place) for name in producers) * tiles.rows
    _check_bytes(block, row_bytes, shared_bytes)
    for name in [*producers, block]:
        _share_stage(schedule, name, place, tiles.threads)


def _row_loop(schedule: Schedule, block: str, tiles: RowTiles, producers: Sequence[str]) -> tuple[str, str | None]:
    """The loop around a row, bound to the grid unless it runs over the rows of a group, and that
    loop over rows if any.
    """
    nest = block_nest(schedule.fn, block)
    steps = row_loops(nest, [block_nest(schedule.fn, name) for name in producers])
    rows = [schedule.split(loop, factor=step)[0] if step > 1 else loop for loop, step in steps.items()]
    if not rows:
        rows = [schedule.split(nest.loops[0].var, factor=nest.loops[0].size)[0]]
    inner = [loop for loop in schedule.loops(block) if loop not in rows]
    schedule.reorder(*rows, *inner)
    if tiles.threads == 1:
        return bind_threads(schedule, block, fuse_all(schedule, rows), tiles.rows), None
    row_of_group = None
    if tiles.rows > 1:
        count = loop_extent(schedule, block, rows[-1])
        if count % tiles.rows:
            raise ScheduleError(f"rows of {block}: the rows of a group must divide {count}, got {tiles.rows}")
        rows[-1], row_of_group = schedule.split(rows[-1], factor=tiles.rows)
    row = fuse_all(schedule, rows)
    schedule.bind(row, "blockIdx.x")
    return row_of_group or row, row_of_group


def _share_stage(schedule: Schedule, block: str, place: str, threads: int) -> None:
    """Distribute a stage of a row over the threads."""
    nest = block_nest(schedule.fn, block)
    inside = set(loops_inside(schedule, block, place))
    inner = [loop for loop in nest.loops if loop.var in inside]
    spatial = [loop.var for loop in nest.loops_of("spatial") if loop in inner and loop.extent != 1]
    reduced = [loop.var for loop in nest.loops_of("reduce") if loop in inner]
    if spatial:
        schedule.reorder(*spatial, *(loop.var for loop in inner if loop.var not in spatial))
        _share_elements(schedule, block, spatial, threads)
    elif iteration_count([loop for loop in inner if loop.var in reduced]) >= threads:  # else the first one
        schedule.reorder(*(loop.var for loop in inner if loop.var not in reduced), *reduced)
        schedule.thread_reduce(split_terms(schedule, fuse_all(schedule, reduced), threads), "threadIdx.x")


def _share_elements(schedule: Schedule, block: str, loops: Sequence[str], threads: int) -> None:
    """Distribute the elements of a stage over the threads: over all of its loops, or over as many
    inner loops as possible.
    """
    for first in range(len(loops)):
        if attempt(schedule, partial(_share_loops, schedule, loops[first:], threads)):
            return
    raise ScheduleError(f"rows of {block}: a loop of a row must be distributed over threads, got {', '.join(loops)}")


def _share_loops(schedule: Schedule, loops: Sequence[str], threads: int) -> None:
    """Distribute the iterations of nested loops over the threads."""
    _, share = schedule.split(fuse_all(schedule, loops), factor=threads)
    schedule.bind(share, "threadIdx.x")


# --- the cost of a row ----------------------------------------------------------------------------


def _work(schedule: Schedule, blocks: Sequence[str]) -> int:
    """The iterations of several blocks."""
    return sum(iteration_count(block_nest(schedule.fn, name).leaf.loops) for name in blocks)


def _check_work(block: str, before: int, after: int) -> None:
    """Refuse rows that recompute too much."""
    if after > _MOST_EXTRA * before:
        rule = f"the stages inside must have at most {_MOST_EXTRA} of {before} iterations"
        raise ScheduleError(f"rows of {block}: {rule}, got {after}")


def _row_bytes(schedule: Schedule, block: str, place: str) -> int:
    """The shared memory of a stage for one row."""
    nest = block_nest(schedule.fn, block)
    inside = set(loops_inside(schedule, block, place))
    elements = iteration_count([loop for loop in nest.loops_of("spatial") if loop.var in inside])
    dtypes = [schedule.fn.buffers[buffer].dtype for buffer in written_buffers(nest.leaf.block)]
    return elements * sum(storage_dtype(dtype).itemsize for dtype in dtypes)


def _check_bytes(block: str, size: int, most: int) -> None:
    """Refuse rows beyond the shared memory of a group."""
    if size > most:
        raise ScheduleError(f"rows of {block}: a group must need at most {most} bytes of shared memory, got {size}")

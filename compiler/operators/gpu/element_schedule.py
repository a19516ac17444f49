"""The schedule of a stage for a GPU in which each thread computes some results of its own.

The spatial loops are fused and split over the groups and threads of a grid. A reduction runs in
sequence, in a variable of the thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from vdla.compiler.analysis import loads
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, iteration_count
from vdla.compiler.operators.gpu.group_loops import fuse_all
from vdla.compiler.operators.gpu.tile_choice import TileProblem, powers
from vdla.compiler.schedule import Schedule, ScheduleError
from vdla.compiler.target import GridLimits
from vdla.compiler.tensorize import LANES

THREADS = 128
"""The threads of a group: several warps, so that one computes while another waits for memory."""
_LANES = (4, 2)
_ENOUGH_THREADS = 1 << 14  # fewer elements are not worth vectors: more threads hide more latency


@dataclass(frozen=True, slots=True)
class ElementTiles:
    """The threads of a group, and the neighbouring elements of a thread, loaded at once."""

    threads: int = THREADS
    lanes: int = 1


@dataclass(frozen=True, kw_only=True)
class ElementProblem(TileProblem):
    """`elements` results, each of `terms` terms; `contiguous` neighbours lie beside each other.

    Groups have `group_threads` threads by default.
    """

    operator: ClassVar[str] = "elements"
    elements: int
    contiguous: int
    terms: int
    operands: int
    group_threads: int
    reduces: bool

    @staticmethod
    def of(schedule: Schedule, block: str, limits: GridLimits, threads: int = THREADS) -> ElementProblem:
        """Of a block."""
        nest = block_nest(schedule.fn, block)
        return ElementProblem(
            **TileProblem.facts(nest, limits),
            elements=iteration_count(nest.loops("spatial")),
            contiguous=_contiguous_elements(nest),
            terms=iteration_count(nest.loops("reduce")),
            operands=len(set(loads(nest.leaf.block))),
            group_threads=min(threads, limits.threads),
            reduces=bool(nest.loops("reduce")),
        )

    @cached_property
    def default(self) -> ElementTiles:
        """Vectors where neighbours are contiguous in all buffers and there are enough of them."""
        most = next((lanes for lanes in _LANES if self.elements >= lanes * _ENOUGH_THREADS), 1)
        legal = (n for n in _LANES if n <= most and self.contiguous % n == 0 and not self.reduces)
        return ElementTiles(self.group_threads, next(legal, 1))

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        lanes = [n for n in powers(1, 4) if self.contiguous % n == 0] if self.terms == 1 else [1]
        return {"threads": powers(LANES, self.limits.threads), "lanes": lanes}

    def fits(self, tiles: ElementTiles) -> bool:
        """Whether the threads of a group are allowed."""
        return self.holds(tiles)


def _contiguous_elements(nest: BlockNest) -> int:
    """The iterations of the innermost loop, if no access jumps along it; else 1."""
    spatial = nest.loops("spatial")
    if not spatial or not isinstance(spatial[-1].extent, int):
        return 1
    inner = spatial[-1].var
    near = all(stride in (0, 1) for stride in nest.read_strides(inner)) and set(nest.write_strides(inner)) == {1}
    return spatial[-1].size if near else 1


def schedule_elements(schedule: Schedule, block: str, tiles: ElementTiles) -> None:
    """Give each thread `tiles.lanes` results.

    Raises:
        ScheduleError: no loop is spatial.
    """
    if block_nest(schedule.fn, block).loops("reduce"):
        copy = schedule.cache_write(block, "local")
        schedule.compute_at(block, _bind_elements(schedule, copy, tiles))
    else:
        _bind_elements(schedule, block, tiles)


def _bind_elements(schedule: Schedule, block: str, tiles: ElementTiles) -> str:
    """The fused spatial loops over groups and threads; the innermost loop bound."""
    nest = block_nest(schedule.fn, block)
    spatial = [loop.var for loop in nest.loops("spatial")]
    others = [loop.var for loop in nest.own if loop.var not in spatial]
    if not spatial:
        raise ScheduleError(f"threads for {block}: a loop must be spatial, got none")
    if [loop.var for loop in nest.own] != [*spatial, *others]:
        schedule.reorder(*spatial, *others)
    if tiles.lanes > 1:
        spatial[-1], lane = schedule.split(spatial[-1], factor=tiles.lanes)
        schedule.vectorize(lane)
    return bind_threads(schedule, block, fuse_all(schedule, spatial), tiles.threads)


def bind_threads(schedule: Schedule, block: str, loop: str, threads: int) -> str:
    """Split a loop over groups of `threads` threads, or one group if that is enough; the loop over
    the threads."""
    extent = next(found.extent for found in block_nest(schedule.fn, block).own if found.var == loop)
    if isinstance(extent, int) and extent <= threads:
        schedule.bind(loop, "threadIdx.x")
        return loop
    group, thread = schedule.split(loop, factor=threads)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return thread

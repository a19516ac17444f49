# SPDX-License-Identifier: Apache-2.0
"""Schedules of stages in one dimension: reductions by groups of threads, and elements by threads.

In a reduction by a group, each thread reduces a part of the terms, then all threads combine in a
tree. Where one group for each result would leave the device idle, several groups share the terms:
the first launch computes a partial result for each, a second one combines them. Otherwise each
thread computes whole results: the spatial loops are fused and split over the groups and threads of
a grid, and a reduction runs sequentially in a register.
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
    """The threads of a group, and the neighbouring elements that a thread loads at once."""

    threads: int = THREADS
    lanes: int = 1


@dataclass(frozen=True, kw_only=True)
class ElementProblem(TileProblem):
    """`elements` results of `terms` terms each; `contiguous` ones can be loaded together.

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
            elements=iteration_count(nest.loops_of("spatial")),
            contiguous=_contiguous_elements(nest),
            terms=iteration_count(nest.loops_of("reduce")),
            operands=len(set(loads(nest.leaf.block))),
            group_threads=min(threads, limits.threads),
            reduces=bool(nest.loops_of("reduce")),
        )

    @cached_property
    def default(self) -> ElementTiles:
        """Vectors where enough elements are contiguous in all buffers."""
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
    """The iterations of the innermost loop if all accesses are contiguous or constant along it;
    else 1.
    """
    spatial = nest.loops_of("spatial")
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
    if block_nest(schedule.fn, block).loops_of("reduce"):
        copy = schedule.cache_write(block, "local")
        schedule.compute_at(block, _bind_elements(schedule, copy, tiles))
    else:
        _bind_elements(schedule, block, tiles)


def _bind_elements(schedule: Schedule, block: str, tiles: ElementTiles) -> str:
    """The fused spatial loops over groups and threads; the innermost loop bound."""
    nest = block_nest(schedule.fn, block)
    spatial = [loop.var for loop in nest.loops_of("spatial")]
    reduced = [loop.var for loop in nest.loops if loop.var not in spatial]
    if not spatial:
        raise ScheduleError(f"threads for {block}: a loop must be spatial, got none")
    if [loop.var for loop in nest.loops] != [*spatial, *reduced]:
        schedule.reorder(*spatial, *reduced)
    if tiles.lanes > 1:
        spatial[-1], lane = schedule.split(spatial[-1], factor=tiles.lanes)
        schedule.vectorize(lane)
    return bind_threads(schedule, block, fuse_all(schedule, spatial), tiles.threads)


def bind_threads(schedule: Schedule, block: str, loop: str, threads: int) -> str:
    """Split a loop over groups of `threads` threads, or use a single group if that suffices; the
    loop over threads.
    """
    extent = next(nest_loop.extent for nest_loop in block_nest(schedule.fn, block).loops if nest_loop.var == loop)
    if isinstance(extent, int) and extent <= threads:
        schedule.bind(loop, "threadIdx.x")
        return loop
    group, thread = schedule.split(loop, factor=threads)
    schedule.bind(group, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return thread


_THREADS = 64
_LONG = 8  # terms for each thread
_FEW_RESULTS = 4096  # with more, one thread for each keeps the device busy
_ENOUGH_GROUPS = 64
_GROUP_TERMS = 1 << 13  # of a group, where several groups share the terms of a result


@dataclass(frozen=True, slots=True)
class ReductionTiles:
    """The threads of a group, and the groups that share the terms of a result."""

    threads: int = _THREADS
    groups: int = 1


@dataclass(frozen=True, kw_only=True)
class ReductionProblem(TileProblem):
    """`results` reductions of `terms` terms each."""

    operator: ClassVar[str] = "reduction"
    results: int
    terms: int

    @staticmethod
    def of(schedule: Schedule, block: str, limits: GridLimits) -> ReductionProblem:
        """Of a block.

        Raises:
            ScheduleError: so many results, or so few terms, that a thread for each result is as
            fast.
        """
        nest = block_nest(schedule.fn, block)
        terms, results = iteration_count(nest.loops_of("reduce")), iteration_count(nest.loops_of("spatial"))
        if is_thread_enough(results, terms):
            raise ScheduleError(f"reduction of {block}: a few results must have many terms, got {results} of {terms}")
        return ReductionProblem(
            **TileProblem.facts(nest, limits),
            results=results,
            terms=terms,
        )

    @cached_property
    def default(self) -> ReductionTiles:
        """One or more groups for each result."""
        return ReductionTiles(min(_THREADS, self.limits.threads), groups_of(self.results, self.terms))

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        return {"threads": powers(LANES, self.limits.threads), "groups": powers(1, _ENOUGH_GROUPS)}

    def fits(self, tiles: ReductionTiles) -> bool:
        """Whether each thread has a term."""
        has_terms = tiles == self.default or tiles.threads * tiles.groups <= self.terms
        return has_terms and self.holds(tiles, tiles.threads * self.itemsize)


def groups_of(results: int, terms: int) -> int:
    """The number of groups, with equal parts, that share the terms of each result."""
    most = min(_ENOUGH_GROUPS // results, terms // _GROUP_TERMS)
    return next((n for n in range(most, 1, -1) if terms % n == 0), 1)


def is_thread_enough(results: int, terms: int) -> bool:
    """Whether a thread for each result is as fast as a group with its barriers."""
    return terms < _LONG * _THREADS or results > _FEW_RESULTS


def schedule_reduction(schedule: Schedule, block: str, tiles: ReductionTiles) -> None:
    """A group of threads for each result, or for each part of one.

    Raises:
        ScheduleError: the reduction has no partial results.
    """
    terms = _fused_terms(schedule, block_nest(schedule.fn, block))
    if tiles.groups > 1:
        part, inner = schedule.split(terms, nparts=tiles.groups)
        results = [loop for loop in schedule.loops(block) if loop not in (part, inner)]
        schedule.reorder(part, *results, inner)  # outermost, so that each stage is a launch
        reduce_in_group(schedule, schedule.rfactor(part), tiles.threads)
        reduce_in_group(schedule, block, min(tiles.threads, tiles.groups))
    else:
        reduce_in_group(schedule, block, tiles.threads)


def reduce_in_group(schedule: Schedule, block: str, threads: int) -> None:
    """A group of threads for each result: a part of the terms for each, combined in a tree."""
    nest = block_nest(schedule.fn, block)
    reduced = nest.loops_of("reduce")
    outer = [loop.var for loop in nest.loops if loop not in reduced]
    terms = _fused_terms(schedule, nest)
    part = split_terms(schedule, terms, threads)
    schedule.bind(fuse_all(schedule, outer), "blockIdx.x")
    schedule.thread_reduce(part, "threadIdx.x")


def split_terms(schedule: Schedule, terms: str, threads: int) -> str:
    """The loop over threads; each takes every `threads`-th term, so that loads coalesce."""
    step, part = schedule.split(terms, factor=threads)
    schedule.reorder(part, step)
    return part


def _fused_terms(schedule: Schedule, nest: BlockNest) -> str:
    """Fuse the reduction loops of a nest, inside the spatial loops."""
    reduced = [loop.var for loop in nest.loops_of("reduce")]
    outer = [loop.var for loop in nest.loops if loop.var not in reduced]
    schedule.reorder(*outer, *reduced)
    return fuse_all(schedule, reduced)

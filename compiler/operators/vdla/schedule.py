# SPDX-License-Identifier: Apache-2.0
"""The schedule of every operator: tiles of output, chunks of input channels, virtual threads.

    for section, group of output blocks, batch, tile of rows, tile of columns:
        for chunk of input blocks:       # the innermost tile loop that iterates has the threads
            load the padded window of the input
            for output block in the group:
                load its weights for this chunk             # once per group, if they are kept
                for y, x: for ci, ky, kx: accumulate; in the last chunk: requantise
                in the last chunk: for y, x: steps on finished sums, if any; requantise here instead
                in the last chunk: store

`by_blocks` accumulates one input block at a time, just after loading its part of the window and of
the weights:

            for output block in the group, input block in the chunk:
                for the first output block: load the window; load the weights
                for y, x: for ky, kx: accumulate

Stages are found by their roles (`roles.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from vdla.compiler import ir, te
from vdla.compiler.analysis.tree import is_unchecked
from vdla.compiler.codegen.vdla.intrinsics import dma
from vdla.compiler.ir.literals import with_literals, without_literals
from vdla.compiler.operators.vdla.roles import OUTPUT, RESULTS, SCALE, SUMS
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem, all_lanes_fit, all_weights_fit
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Buffer, Config

_TILE_LOOPS = ("sections", "groups", "batches", "rows", "cols", "chunks")
_ENTRY_AXES = ("vb", "vo", "vi", *(f"vi{number}" for number in range(1, 4)))
"""Rows, lanes and terms of an entry."""


@dataclass(frozen=True, slots=True)
class TileAxes:
    """The axes of the sums by role, one tile loop for each; there may be several `sections` and
    `batches`.
    """

    sections: tuple[str, ...]
    groups: str
    batches: tuple[str, ...]
    rows: str = "vy"
    cols: str = "vx"
    chunks: str = "vci"


@dataclass(frozen=True, slots=True)
class TileIntrinsics:
    """The intrinsics of the stages: `windows` load the input, `before` are stages in the
    accumulator that the sums read, in order, `after` those on finished sums, and `weights` has the
    parameter loaded as weights, if any. `results` sends what is finished to the output buffer.
    `tables` are loaded once: the reading stage, the parameter, the load.
    """

    windows: Mapping[str, Intrinsic]
    before: Mapping[str, Intrinsic]
    sums: Intrinsic
    weights: Mapping[str, Intrinsic]
    results: Intrinsic
    tables: tuple[tuple[str, str, Intrinsic], ...] = ()
    after: Mapping[str, Intrinsic] = field(default_factory=dict)

    @property
    def stages(self) -> dict[str, Intrinsic]:
        """All but the weights."""
        return {**self.windows, **self.before, SUMS: self.sums, **self.after}


@dataclass(frozen=True, slots=True)
class StagedFunction:
    """A function before tiling: each stage is in the memory of its intrinsic; `weights` copies
    weights to the chip, if any, and `tables` copy tables.
    """

    fn: ir.Function
    intrinsics: TileIntrinsics
    weights: str | None
    tables: Mapping[str, Intrinsic]

    @staticmethod
    def of(tensors: Sequence[te.Tensor], intrinsics: TileIntrinsics, name: str) -> StagedFunction:
        """The stages of a computation; `tensors` are the inputs and the output."""
        *inputs, output = tensors
        s = Schedule(te.create_function(inputs, [output], name))
        for stage, intrinsic in intrinsics.stages.items():
            s.set_scope(stage, intrinsic.scopes[intrinsic.output.name])
        s.set_scope(RESULTS, "out")
        weights = [s.cache_read(SUMS, factor, "wgt") for factor in intrinsics.weights]
        tables = {
            s.cache_read(stage, table, load.scopes[load.output.name]): load for stage, table, load in intrinsics.tables
        }
        for table, load in tables.items():
            s.full_extent(table, *(axis.var for axis in _block(s, table).axes[-len(load.output.shape) :]))
        return StagedFunction(_first(s.fn, tables), intrinsics, weights[0] if weights else None, tables)


def _first(fn: ir.Function, stages: Collection[str]) -> ir.Function:
    """The function with these stages, which read only inputs, before all others."""
    if not stages:
        return fn
    computing = [{part.name for part in ir.walk(stmt) if isinstance(part, ir.Block)} for stmt in ir.children(fn.body)]
    early = [not names.isdisjoint(stages) for names in computing]
    parts = sorted(zip(early, ir.children(fn.body), strict=True), key=lambda part: not part[0])
    return replace(fn, body=ir.seq(*(stmt for _, stmt in parts)))


def schedule_tiles(
    config: Config, staged: StagedFunction, problem: TilingProblem, tiling: Tiling, axes: TileAxes
) -> ir.Function:
    """The scheduled, tensorized function.

    Functions that differ in their literals only are scheduled once, and tensorized each.
    """
    blank, literals = without_literals(staged.fn)
    given = config, replace(staged, fn=blank), problem, tiling, axes
    key = config, str(blank), _key(staged), problem, tiling, axes, is_unchecked()
    fn, stages = _placed(_Question(given, key))
    s = Schedule(with_literals(fn, literals))
    for stage, intrinsic in stages.items():
        s.tensorize(stage, intrinsic)
    return s.fn


@dataclass(frozen=True, slots=True)
class _Question:
    """A function to schedule, and what its schedule depends on."""

    given: tuple[Config, StagedFunction, TilingProblem, Tiling, TileAxes] = field(compare=False)
    key: tuple[object, ...]


def _key(staged: StagedFunction) -> tuple[object, ...]:
    """What of a staged function its text does not say."""
    intrinsics = staged.intrinsics
    tables = (intrinsics.windows, intrinsics.before, intrinsics.weights, intrinsics.after, staged.tables)
    return (*(tuple(table.items()) for table in tables), intrinsics.sums, intrinsics.results, staged.weights)


@lru_cache(maxsize=128)
def _placed(question: _Question) -> tuple[ir.Function, Mapping[str, Intrinsic]]:
    """The scheduled function, and the intrinsic of each of its stages."""
    config, staged, problem, tiling, axes = question.given
    s, intrinsics = Schedule(staged.fn), staged.intrinsics
    stages = {**intrinsics.stages, **staged.tables}
    outer, block, part, x = _tile(s, tiling, axes)
    for stage in reversed(list(intrinsics.before)):  # readers first
        s.compute_at(stage, _last(outer))
    for stage in intrinsics.windows:
        first = block if tiling.out_blocks > 1 and not problem.separate else None
        _place_window(s, stage, outer, part if tiling.by_blocks and not intrinsics.before else None, first)
    for stage in intrinsics.before:
        s.store_at(stage, _tile_loop(outer))
    if staged.weights is not None:
        load = next(iter(intrinsics.weights.values()))
        _place_weights(s, staged.weights, outer, part, tiling.keep_weights, all_weights_fit(config, problem))
        s.full_extent(staged.weights, *(axis.var for axis in _block(s, staged.weights).axes[-len(load.output.shape) :]))
        stages[staged.weights] = load
    _place_results(s, outer, part, x, list(intrinsics.after))
    if tiling.strips > 1:
        s.strips(SUMS, tiling.strips)
    if not problem.raw:
        stage = _place_scale(s, outer, block if problem.lanes == 1 else None, all_lanes_fit(config, problem))
        stages[stage] = dma.load(config, Buffer.SCL)
    stages[RESULTS] = intrinsics.results
    stages[OUTPUT] = dma.store(config, problem.raw)
    return s.fn, MappingProxyType(stages)


_Outer = dict[str, list[str]]


def _tile(s: Schedule, tiling: Tiling, axes: TileAxes) -> tuple[_Outer, str, str, str]:
    """Split and order the loops of the sums.

    Returns the tile loops, the loop over output blocks, the innermost loop around a pass over the
    tile (the same loop, or with `by_blocks` the loop over input blocks), and the innermost spatial
    loop.
    """
    loops = dict(zip(_axes(s), s.loops(SUMS), strict=True))
    outer: _Outer = {"batches": [loops[axis] for axis in axes.batches]}
    if axes.sections:
        outer["sections"] = [loops[axis] for axis in axes.sections]
    sizes = {"groups": tiling.out_blocks, "rows": tiling.rows, "cols": tiling.cols, "chunks": tiling.in_blocks}
    for which, size in sizes.items():
        axis = getattr(axes, which)
        if axis in loops:
            tile, loops[axis] = s.split(loops[axis], factor=size)
            outer[which] = [tile]
    if tiling.threads > 1:
        threads_over = outer[tiling.threads_over]
        threads_over[-1:] = s.split(threads_over[-1], factor=tiling.threads)
    named = {*axes.sections, *axes.batches, axes.groups, axes.rows, axes.cols}
    inner = [loops[a] for a in loops if a not in (*named, *_ENTRY_AXES)]
    entry = [loops[a] for a in _ENTRY_AXES if a in loops]
    tiles = [loop for which in _TILE_LOOPS for loop in outer.get(which, [])]
    around = [loops[axes.groups]]
    if tiling.by_blocks and axes.chunks in loops:
        around.append(loops[axes.chunks])
    inside = [loop for loop in _spatial_first(s, inner) if loop not in around]
    s.reorder(*tiles, *around, loops[axes.rows], loops[axes.cols], *inside, *entry)
    if tiling.threads > 1:
        s.vthread(outer[tiling.threads_over][-1])
    return outer, around[0], around[-1], _innermost_spatial(s, [loops[axes.cols], *inner])


def _axes(s: Schedule) -> list[str]:
    """The axes of the sums' block, in the order of its loops."""
    return [axis.var for axis in _block(s, SUMS).axes]


def _block(s: Schedule, name: str) -> ir.Block:
    return next(b for b in ir.walk(s.fn.body) if isinstance(b, ir.Block) and b.name == name)


def _reduce_loops(s: Schedule) -> set[str]:
    block = _block(s, SUMS)
    values = (v for a, v in zip(block.axes, block.values, strict=True) if a.kind is ir.AxisKind.REDUCE)
    return {e.name for v in values for e in ir.walk_expr(v) if isinstance(e, ir.Var)}


def _spatial_first(s: Schedule, loops: list[str]) -> list[str]:
    reduce_loops = _reduce_loops(s)
    return sorted(loops, key=lambda loop: loop in reduce_loops)


def _innermost_spatial(s: Schedule, loops: list[str]) -> str:
    reduce_loops = _reduce_loops(s)
    return [loop for loop in s.loops(SUMS) if loop in loops and loop not in reduce_loops][-1]


def _last(outer: _Outer) -> str:
    """The innermost tile loop."""
    return [loop for which in _TILE_LOOPS for loop in outer.get(which, [])][-1]


def _tile_loop(outer: _Outer) -> str:
    """The innermost loop over tiles of output."""
    return outer["cols"][-1]


def _place_window(s: Schedule, stage: str, outer: _Outer, part: str | None, block: str | None) -> None:
    """Load a window for each chunk, or each part of it just before its first use.

    `block` is the loop over the output blocks that read the same window.
    """
    if part is None:
        s.compute_at(stage, _last(outer))
        return
    s.compute_at(stage, part)
    if block is not None:
        s.compute_once(stage, block)
    s.store_at(stage, _last(outer))


def _place_weights(s: Schedule, weights: str, outer: _Outer, part: str, keep: bool, all_fit: bool) -> None:
    """Load the weights of each pass over the tile before their first use.

    With `keep`, the weights of a group stay on the chip for all its tiles.
    """
    s.compute_at(weights, part)
    if keep:
        s.compute_once(weights, *outer["batches"], *outer["rows"], *outer["cols"])
        _allocate(s, weights, outer, all_fit)
    else:
        s.store_at(weights, _last(outer))


def _place_scale(s: Schedule, outer: _Outer, block: str | None, all_fit: bool) -> str:
    """Load the scale of each output block once per group; returns the stage.

    Without a `block` the lanes depend on the position, and the lanes of the whole group are loaded.
    """
    scale = s.cache_read(RESULTS, SCALE, "scl")
    s.compute_at(scale, block or outer["groups"][-1])
    if block is not None:
        s.compute_once(scale, *outer["batches"], *outer["rows"], *outer["cols"])
    _allocate(s, scale, outer, all_fit)
    return scale


def _allocate(s: Schedule, stage: str, outer: _Outer, all_groups: bool) -> None:
    """Allocate a stage for all groups of a section, so that no load waits, or for one group."""
    if all_groups:
        s.store_at(stage, outer["sections"][-1] if "sections" in outer else None)
    else:
        s.store_at(stage, outer["groups"][-1])


def _place_results(s: Schedule, outer: _Outer, part: str, x: str, after: Sequence[str]) -> None:
    """Emit each result in the pass that completes it; store each completed output block.

    Steps `after` the sums are passes over a completed block; the last one emits.
    """
    for stage in after:
        s.reverse_compute_at(stage, part)
    entry = len(_ENTRY_AXES[:2])
    s.reverse_compute_at(RESULTS, s.loops(after[-1])[-1 - entry] if after else x)
    s.reverse_compute_at(OUTPUT, part)
    for stage in (SUMS, *after, RESULTS):
        s.store_at(stage, _tile_loop(outer))

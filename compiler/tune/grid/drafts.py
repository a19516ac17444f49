# SPDX-License-Identifier: Apache-2.0
"""What the launch of a block roughly does with some tiles, without building it."""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod
from typing import Any

from vdla.compiler.operators.gpu.conv2d_schedule import Conv2dProblem, Conv2dTiles
from vdla.compiler.operators.gpu.depthwise_schedule import DepthwiseProblem, DepthwiseTiles
from vdla.compiler.operators.gpu.flat_schedules import ElementProblem, ElementTiles, ReductionProblem, ReductionTiles
from vdla.compiler.operators.gpu.matmul_schedule import MatmulProblem, MatmulTiles
from vdla.compiler.operators.gpu.row_schedule import RowProblem, RowTiles
from vdla.compiler.operators.gpu.tensor_core_schedule import VECTOR_BYTES, TensorCoreProblem, TensorCoreTiles
from vdla.compiler.operators.gpu.tile_choice import TileProblem, Tiles
from vdla.compiler.tune.grid.model import (
    BANK_BYTES,
    BANKS,
    IN_FLIGHT,
    OWN_REGISTERS,
    TENSOR_CORE_STEP,
    WARP,
    GridWork,
    ceil_div,
)

_STORED_BYTES = 4  # for each element of the result, as a row of a fragment moves a whole sector


def draft_work(problem: TileProblem, tiles: Tiles) -> GridWork:
    """The work of a launch."""
    return _DRAFTS[type(problem)](problem, tiles)


def _matmul(p: MatmulProblem, tiles: MatmulTiles) -> GridWork:
    """Each step moves two tiles to shared memory; each term fills registers from them."""
    threads = p.threads(tiles)
    warps, steps = ceil_div(threads, WARP), ceil_div(p.terms, tiles.depth)
    sums = tiles.thread_rows * tiles.thread_columns
    moved = steps * tiles.depth * (tiles.rows + tiles.columns)
    loads = p.terms * (tiles.thread_rows + tiles.thread_columns)
    fetches = moved / (threads * tiles.lanes)
    sides = min(tiles.rows, p.rows) + min(tiles.columns, p.columns)  # what lies outside is not fetched
    return GridWork(
        groups=p.batch * ceil_div(p.rows, tiles.rows) * ceil_div(p.columns, tiles.columns),
        threads=threads,
        shared_bytes=tiles.depth * sides * p.itemsize,
        registers=OWN_REGISTERS + sums,
        memory_bytes=(moved + tiles.rows * tiles.columns) * p.itemsize,
        shared_passes=warps * loads + moved / WARP,
        operations=warps * (2 * p.terms * sums + loads + 2 * fetches),
        waits=steps,
        barriers=2 * steps,
    )


def _conv2d(p: Conv2dProblem, tiles: Conv2dTiles) -> GridWork:
    """Each step moves a window and weights to shared memory, and reads them for each term."""
    threads, steps = p.threads(tiles), p.channels // tiles.depth
    warps, pixels = ceil_div(threads, WARP), tiles.thread_rows * tiles.thread_columns
    sums, terms = pixels * tiles.thread_channels, p.channels * prod(p.taps)
    moved = steps * p.shared_bytes(tiles)
    results = tiles.rows * tiles.columns * tiles.blocks * p.lanes
    loads = terms * (pixels + tiles.thread_channels)
    parts = ceil_div(p.blocks, tiles.blocks), ceil_div(p.rows, tiles.rows), ceil_div(p.columns, tiles.columns)
    return GridWork(
        groups=p.images * prod(parts),
        threads=threads,
        shared_bytes=p.shared_bytes(tiles),
        registers=OWN_REGISTERS + sums,
        memory_bytes=moved + results * p.itemsize,
        shared_passes=warps * loads + moved / (4 * WARP),
        operations=warps * (2 * terms * sums + loads + 2 * moved / p.itemsize / threads),
        waits=steps,
        barriers=2 * steps,
    )


def _depthwise(p: DepthwiseProblem, tiles: DepthwiseTiles) -> GridWork:
    """A group fetches its part of the image once; each sum reads a window of that part."""
    batch, channels, rows, columns, *taps = p.extents
    threads, sums = p.threads(tiles), tiles.thread_rows * tiles.thread_columns
    warps, halo, terms = ceil_div(threads, WARP), p.halo_bytes(tiles), sums * prod(taps)
    parts = channels // tiles.channels, ceil_div(rows, tiles.rows), ceil_div(columns, tiles.columns)
    return GridWork(
        groups=batch * prod(parts),
        threads=threads,
        shared_bytes=halo,
        registers=OWN_REGISTERS + sums,
        memory_bytes=halo + tiles.channels * tiles.rows * tiles.columns * p.itemsize,
        shared_passes=warps * terms + halo / (4 * WARP),
        operations=warps * (3 * terms + 2 * halo / (4 * threads)),
        waits=ceil_div(halo, 4 * threads) + 1,
        barriers=1,
    )


def _rows(p: RowProblem, tiles: RowTiles) -> GridWork:
    """Each stage passes over the row; a tree of threads combines what they reduced."""
    threads, share = p.threads(tiles), ceil_div(p.length, tiles.threads)
    warps, levels, several = ceil_div(threads, WARP), log2(tiles.threads), tiles.threads > 1
    return GridWork(
        groups=ceil_div(p.rows, tiles.rows),
        threads=threads,
        shared_bytes=several * p.stages * tiles.rows * p.length * p.itemsize,
        registers=OWN_REGISTERS,
        memory_bytes=2 * tiles.rows * p.length * p.itemsize,
        shared_passes=several * p.stages * warps * (share + 2 * levels),
        operations=p.stages * warps * (3 * share + 2 * levels),
        waits=ceil_div(share, 4),
        barriers=several * p.stages * (levels + 1),
    )


def _reduction(p: ReductionProblem, tiles: ReductionTiles) -> GridWork:
    """Each thread reduces a part of the terms, and a tree what they leave."""
    share = ceil_div(p.terms, tiles.threads * tiles.groups)
    warps, levels = ceil_div(tiles.threads, WARP), log2(tiles.threads)
    return GridWork(
        groups=p.results * tiles.groups,
        threads=tiles.threads,
        shared_bytes=tiles.threads * p.itemsize,
        registers=OWN_REGISTERS,
        memory_bytes=share * tiles.threads * p.itemsize,
        shared_passes=3 * warps * levels,
        operations=warps * (2 * share + 4 * levels),
        waits=ceil_div(share, 4),
        barriers=levels,
    )


def _elements(p: ElementProblem, tiles: ElementTiles) -> GridWork:
    """Each thread reads the operands of its results and writes them."""
    terms = tiles.lanes * p.terms
    return GridWork(
        groups=ceil_div(p.elements, tiles.threads * tiles.lanes),
        threads=tiles.threads,
        shared_bytes=0,
        registers=OWN_REGISTERS + tiles.lanes,
        memory_bytes=tiles.threads * (terms * p.operands + tiles.lanes) * p.itemsize,
        shared_passes=0,
        operations=ceil_div(tiles.threads, WARP) * terms * (p.operands + 1),
        waits=ceil_div(p.terms, 4),
        barriers=0,
    )


def _tensor_cores(p: TensorCoreProblem, tiles: TensorCoreTiles) -> GridWork:
    """Each step moves two tiles to shared memory; warps load each fragment of it once."""
    warps, steps, sides = prod(tiles.warps), p.terms // tiles.depth, (tiles.rows, tiles.columns)
    (step_rows, step_terms), (_, step_columns) = p.fragment("a"), p.fragment("c")
    parts = tiles.warp_rows // step_rows, tiles.warp_columns // step_columns
    fetches = [ceil_div(side * tiles.depth * p.itemsize, VECTOR_BYTES * tiles.threads) for side in sides]
    moved = steps * tiles.depth * sum(sides) * p.itemsize
    loaded = p.terms * (tiles.warp_rows + tiles.warp_columns) * p.itemsize
    turns = p.terms // step_terms
    instructions = turns * (TENSOR_CORE_STEP * prod(parts) + sum(parts)) + 2 * steps * sum(fetches)
    # Fetches of one vector are under way together, and so are some iterations of a loop.
    waits = any(count == 1 for count in fetches) + sum(ceil_div(count, IN_FLIGHT) for count in fetches if count > 1)
    return GridWork(
        groups=p.batch * (p.rows // tiles.rows) * (p.columns // tiles.columns),
        threads=tiles.threads,
        shared_bytes=p.shared_bytes(tiles),
        registers=OWN_REGISTERS + p.sums(tiles),
        memory_bytes=moved + prod(sides) * _STORED_BYTES,
        shared_passes=(moved + warps * loaded) / (BANKS * BANK_BYTES),
        operations=warps * (instructions + p.sums(tiles)),
        waits=steps * waits,
        barriers=steps,
    )


_DRAFTS: dict[type[TileProblem], Callable[[Any, Any], GridWork]] = {
    MatmulProblem: _matmul,
    Conv2dProblem: _conv2d,
    DepthwiseProblem: _depthwise,
    RowProblem: _rows,
    ReductionProblem: _reduction,
    ElementProblem: _elements,
    TensorCoreProblem: _tensor_cores,
}
OPERATORS = tuple(problem.operator for problem in _DRAFTS)
"""The kinds of schedules, by name."""

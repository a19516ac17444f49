# SPDX-License-Identifier: Apache-2.0
"""Stages of rows, as those of a softmax, computed row by row: intermediate rows stay in the cache.

A stage without an operator takes along the stages before it that only it and they read, if all have
the same outer loops and read each other at the same outer indices. What they compute for one row
is then computed, and read, before the next row begins.
"""

from __future__ import annotations

from functools import partial
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import loads, stores, written_buffers
from vdla.compiler.operators.cpu.block_nest import (
    BlockNest,
    block_nest,
    block_nests,
    consumers,
    iteration_count,
    nominal_extent,
)
from vdla.compiler.operators.cpu.stage_schedule import PARALLEL_ITERATIONS, attempt
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.schedule import Schedule

_CACHE_BYTES = 1 << 14  # of intermediate results that stay in the cache without this schedule
_FEWEST_ELEMENTS = 16  # of a row


def fuse_rows(schedule: Schedule) -> list[str]:
    """Compute chains of stages row by row; the last stage of each.

    Functions with operators stay as they are: rows between two products of an attention were
    measured slower than its stages.
    """
    done, fused, nests = set[str](), list[str](), block_nests(schedule.fn)
    if any(OPERATOR in nest.leaf.block.annotations for nest in nests):
        return []
    for nest in reversed(nests):
        if nest.name in done or not _is_plain(nest) or not nest.loops_of("spatial"):
            continue
        chain = _chain(nest)
        done |= {nest.name, *chain}
        if chain and attempt(schedule, partial(_fuse, schedule, nest, chain)):
            fused.append(nest.name)
    return fused


def _fuse(schedule: Schedule, last: BlockNest, chain: list[str]) -> None:
    """Move the stages of a chain, each behind its readers, into the rows of the last one."""
    row = last.loops[-2].var
    for stage in chain:
        schedule.compute_at(stage, row)


def parallelize_rows(schedule: Schedule, last: str) -> None:
    """Run rows in parallel, when the stages of a chain have their lanes."""
    nest = block_nest(schedule.fn, last)
    loops = nest.leaf.loops
    if iteration_count(loops) < PARALLEL_ITERATIONS:
        return
    rows = [loop.var for loop in loops if loop not in nest.loops]
    attempt(schedule, lambda: schedule.parallel(schedule.fuse(*rows) if len(rows) > 1 else rows[0]))


def _chain(last: BlockNest) -> list[str]:
    """The stages before `last` that can be computed in its rows, each behind all that read it; none
    where their results are small, or no result is as long as a row.
    """
    if len(last.loops) < 2 or any(axis.kind is not ir.AxisKind.SPATIAL for axis in last.leaf.block.axes):
        return []
    rows = len(last.loops) - 1
    members, chain = {last.name}, list[str]()
    for nest in reversed(block_nests(last.fn)):
        readers = consumers(nest)
        if readers and {reader.name for reader in readers} <= members and _fits(nest, readers, last, rows):
            members.add(nest.name)
            chain.append(nest.name)
    sizes = [_elements(last, name) for name in chain]
    whole = [size for size in sizes if size == _elements(last, last.name)]
    bytes_of_rows = sum(sizes) * last.element_bytes
    is_long = nominal_extent(last.loops[-1].extent) >= _FEWEST_ELEMENTS
    return chain if whole and is_long and bytes_of_rows > _CACHE_BYTES else []


def _elements(nest: BlockNest, name: str) -> int:
    """The elements of the results of a stage."""
    (store, *_) = stores(block_nest(nest.fn, name).leaf.block)
    shape = nest.fn.buffers[store.buffer].shape
    return prod(map(nominal_extent, shape))


def _is_plain(nest: BlockNest) -> bool:
    """Whether a stage has no operator, and its loops belong to it alone."""
    return OPERATOR not in nest.leaf.block.annotations and nest.is_alone


def _fits(nest: BlockNest, readers: list[BlockNest], last: BlockNest, rows: int) -> bool:
    """Whether a stage is an intermediate one with the outer axes of `last`, read in place."""
    block = nest.leaf.block
    results = written_buffers(block)
    if not _is_plain(nest) or results & set(nest.fn.params) or len(block.axes) <= rows:
        return False
    outer = zip(block.axes[:rows], last.leaf.block.axes[:rows], strict=True)
    if any(mine.extent != theirs.extent or mine.kind is not ir.AxisKind.SPATIAL for mine, theirs in outer):
        return False
    return all(_reads_in_place(reader, buffer, rows) for reader in readers for buffer in results)


def _reads_in_place(reader: BlockNest, buffer: str, rows: int) -> bool:
    """Whether each outer index of a read is the axis of its dimension."""
    axes = reader.leaf.block.axes[:rows]
    reads = [load.indices[:rows] for load in loads(reader.leaf.block) if load.buffer == buffer]
    return all(
        axis.extent == 1 or index == ir.Var(axis.var)
        for indices in reads
        for index, axis in zip(indices, axes, strict=True)
    )

# SPDX-License-Identifier: Apache-2.0
"""The loops of a tile of sums: their order, unrolling, and prefetch of weights.

Order and unrolling are choices; by default channels are outside the taps of a window, and no step
is unrolled. A tile of channels reads its weights once for each tile of pixels. Small images with
many channels have few tiles of pixels, and loading new weights would take about as long as summing:
the weights of the next tile of channels are prefetched, unless steps are too short for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import loads
from vdla.compiler.codegen.llvm.intrinsics.dot import dot_for_layout
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, loops_inside, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.operators.cpu.register_tile import RegisterTile, has_short_steps, ordered_loops
from vdla.compiler.operators.roles import DATA
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import Target
from vdla.compiler.tensorize import Intrinsic

_UNROLLED = (1, 2, 4)
_SHORT_STEPS = 2  # unrolled
_MOST_BYTES = 1 << 18  # of a tile's weights; more would evict the data of the tile from the cache
_FEWEST_BYTES = 1 << 17  # of all weights; fewer stay in the second-level cache


def order_sums(
    schedule: Schedule, block: str, place: str, tile: RegisterTile, target: Target, choices: Choices
) -> tuple[str, str, tuple[str, ...]]:
    """The loops of a tile of a convolution: reductions outermost, pixels and blocks unrolled, lanes
    and the terms of a dot product innermost. The result is the loops of blocks, of lanes, and of
    reductions.
    """
    n, blocks, row, column, lane, channel, kh, kw, *terms = loops_inside(schedule, block, place)
    order = _reduction_order(schedule, block, channel, (kh, kw), choices)
    steps = unroll_steps(schedule, block, order, target, choices)
    schedule.reorder(n, *steps, *ordered_loops(target, tile, (row, column), blocks), lane, *terms)
    for loop in (row, column, blocks):
        schedule.unroll(loop)
    return blocks, lane, steps


def dot_of_sums(schedule: Schedule, block: str, target: Target) -> Intrinsic:
    """The dot product of the target for sums of products of its lanes and groups."""
    sums = block_nest(schedule.fn, block)
    lanes = [axis for axis in sums.leaf.block.axes if axis.kind is ir.AxisKind.SPATIAL][-1]
    data = schedule.fn.buffers[sums.stage(DATA)]
    return dot_for_layout(target, nominal_extent(lanes.extent), sums.extents[-1], data.dtype)


def _reduction_order(
    schedule: Schedule, block: str, channel: str, taps: Sequence[str], choices: Choices
) -> tuple[str, ...]:
    """The loops over channels and taps, outermost first."""
    extents = _extents(schedule, block)
    if extents[channel] == 1 or all(extents[tap] == 1 for tap in taps):
        return channel, *taps
    return (*taps, channel) if choices.value("taps_outside", False, (False, True)) else (channel, *taps)


def unroll_steps(
    schedule: Schedule, block: str, reduce: Sequence[str], target: Target, choices: Choices
) -> tuple[str, ...]:
    """Unroll steps of the innermost loop with several iterations; the loops after the split.

    By default, two where it is the only loop and a step is as short as the loop's own instructions.
    """
    extents = _extents(schedule, block)
    moving = [loop for loop in reduce if extents[loop] > 1]
    fewest = min((extents[loop] for loop in moving), default=1)
    legal = [steps for steps in _UNROLLED if steps <= fewest]
    pays = len(moving) == 1 and fewest % _SHORT_STEPS == 0 and has_short_steps(target)
    if not moving or (steps := choices.value("unrolled_steps", _SHORT_STEPS if pays else 1, legal)) == 1:
        return tuple(reduce)
    at = list(reduce).index(moving[-1])
    outer, inner = schedule.split(moving[-1], factor=steps)
    schedule.unroll(inner)
    return (*reduce[:at], outer, inner, *reduce[at + 1 :])


def _extents(schedule: Schedule, block: str) -> dict[str, int]:
    return {loop.var: nominal_extent(loop.extent) for loop in block_nest(schedule.fn, block).leaf.loops}


def prefetch_weights(
    schedule: Schedule, block: str, vectors: str, lane: str, reduce: Sequence[str], target: Target, choices: Choices
) -> None:
    """Prefetch, in each step of the `reduce` loops, the weight of the same step in the next tile.

    The weight is the operand that the lanes of `block` read contiguously in each step, for each of
    `vectors`.
    """
    nest, extents = block_nest(schedule.fn, block), _extents(schedule, block)
    moving = [var for var in reduce if extents[var] > 1]
    streams = [stream for stream in _streams(nest, moving[-1], lane) if _is_large(nest, stream[0])] if moving else []
    if not streams or not choices.value("prefetch", not has_short_steps(target), (False, True)):
        return
    steps = extents[vectors] * prod(extents[var] for var in moving)
    for name, stride in streams:
        if steps * stride * _item_bytes(nest, name) <= _MOST_BYTES:
            schedule.prefetch(block, name, moving[-1], steps)


def _streams(nest: BlockNest, step: str, lane: str) -> list[tuple[str, int]]:
    """The buffers read along lanes that advance with a step, and their strides."""
    strides = [(load, nest.stride(load, step)) for load in loads(nest.leaf.block) if nest.stride(load, lane)]
    return [(load.buffer, stride) for load, stride in strides if stride]


def _is_large(nest: BlockNest, name: str) -> bool:
    """Whether a buffer exceeds the second-level cache."""
    shape = nest.fn.buffers[name].shape
    return _item_bytes(nest, name) * prod(nominal_extent(extent) for extent in shape) >= _FEWEST_BYTES


def _item_bytes(nest: BlockNest, name: str) -> int:
    return storage_dtype(nest.fn.buffers[name].dtype).itemsize

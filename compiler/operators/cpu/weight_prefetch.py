"""Prefetch of weights: those of the next tile of channels, while the present one is summed.

A tile of channels reads its weights once for each tile of pixels. In small images with many
channels few tiles of pixels follow each other, and bringing new weights from memory would take
about as long as summing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vdla.compiler.analysis import loads
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import block_nest, nominal_extent
from vdla.compiler.schedule import Schedule

_MOST_BYTES = 1 << 18  # of a tile's weights; more would drive out of the cache what the tile itself reads
_FEWEST_BYTES = 1 << 17  # of all weights; fewer stay in the second-level cache


def prefetch_weights(schedule: Schedule, block: str, vectors: str, lane: str, reduce: Sequence[str]) -> None:
    """Prefetch, in each step of the `reduce` loops, the weight of the same step in the next tile.

    The weight is what the lanes of `block` read contiguously, step by step, for each of `vectors`.
    """
    nest = block_nest(schedule.fn, block)
    extents = {loop.var: nominal_extent(loop.extent) for loop in nest.leaf.loops}
    moving = [var for var in reduce if extents[var] > 1]
    if not moving:
        return
    steps = extents[vectors] * prod(extents[var] for var in moving)
    for load in loads(nest.leaf.block):
        buffer = schedule.fn.buffers[load.buffer]
        itemsize, stride = storage_dtype(buffer.dtype).itemsize, nest.stride(load, moving[-1])
        if not stride or not nest.stride(load, lane):
            continue
        whole = itemsize * prod(nominal_extent(extent) for extent in buffer.shape)
        if whole >= _FEWEST_BYTES and steps * stride * itemsize <= _MOST_BYTES:
            schedule.prefetch(block, load.buffer, moving[-1], steps)

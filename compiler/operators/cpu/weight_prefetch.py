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
from vdla.compiler.operators.cpu.block_nest import BlockNest, block_nest, nominal_extent
from vdla.compiler.operators.cpu.choices import Choices
from vdla.compiler.schedule import Schedule

_MOST_BYTES = 1 << 18  # of a tile's weights; more would drive out of the cache what the tile itself reads
_FEWEST_BYTES = 1 << 17  # of all weights; fewer stay in the second-level cache


def prefetch_weights(
    schedule: Schedule, block: str, vectors: str, lane: str, reduce: Sequence[str], choices: Choices
) -> None:
    """Prefetch, in each step of the `reduce` loops, the weight of the same step in the next tile.

    The weight is what the lanes of `block` read contiguously, step by step, for each of `vectors`.
    """
    nest = block_nest(schedule.fn, block)
    extents = {loop.var: nominal_extent(loop.extent) for loop in nest.leaf.loops}
    moving = [var for var in reduce if extents[var] > 1]
    large = [name for name, stride in _streams(nest, moving[-1], lane) if _is_large(nest, name)] if moving else []
    if not large or not choices.value("prefetch", True, (False, True)):
        return
    steps = extents[vectors] * prod(extents[var] for var in moving)
    for name, stride in _streams(nest, moving[-1], lane):
        if name in large and steps * stride * _item_bytes(nest, name) <= _MOST_BYTES:
            schedule.prefetch(block, name, moving[-1], steps)


def _streams(nest: BlockNest, step: str, lane: str) -> list[tuple[str, int]]:
    """What is read in lanes and moves with a step: buffers and strides."""
    strides = [(load, nest.stride(load, step)) for load in loads(nest.leaf.block) if nest.stride(load, lane)]
    return [(load.buffer, stride) for load, stride in strides if stride]


def _is_large(nest: BlockNest, name: str) -> bool:
    """Whether a buffer would not stay in the second-level cache."""
    shape = nest.fn.buffers[name].shape
    return _item_bytes(nest, name) * prod(nominal_extent(extent) for extent in shape) >= _FEWEST_BYTES


def _item_bytes(nest: BlockNest, name: str) -> int:
    return storage_dtype(nest.fn.buffers[name].dtype).itemsize

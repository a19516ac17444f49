# SPDX-License-Identifier: Apache-2.0
"""Blocks of an image as channels, and as images of the batch; quantised ones keep their scale."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.movement import check_same_scale, integers

_MOST = 1 << 16  # the extent of a block, a padding, a crop


def _blocks(op: str) -> Callable[[OperatorContext], None]:
    def convert(at: OperatorContext) -> None:
        check_same_scale(at, 0)
        size = at.option("BlockSize")
        if size < 1:
            decline(f"have blocks of at least 1, got {size}")
        x = at.read_image(0)
        batch, channels, height, width = at.builder.type_of(x).extents
        if op == "SpaceToDepth":
            if height % size or width % size:
                decline(f"have an image of whole blocks of {size}, got {height} x {width}")
            shape = (batch, channels * size * size, height // size, width // size)
        else:
            if channels % (size * size):
                decline(f"have channels of whole blocks of {size * size}, got {channels}")
            shape = (batch, channels // (size * size), height * size, width * size)
        at.define(at.add(op, [x], {"blocksize": size}, TensorType(at.output.dtype, shape)), is_image=True)

    return convert


space_to_depth, depth_to_space = _blocks("SpaceToDepth"), _blocks("DepthToSpace")


# --- blocks and the batch -------------------------------------------------------------------------


def space_to_batch(at: OperatorContext) -> None:
    """SPACE_TO_BATCH_ND: the elements at one place of every block are an image of the batch."""
    check_same_scale(at, 0)
    sizes, pads = _sizes(at), _sides(at, "paddings")
    batch, *plane = at.tensor(0).shape
    count, rank = len(sizes), len(at.tensor(0).shape)
    padded = [n + sum(sides) for n, sides in zip(plane, pads.tolist(), strict=False)]
    if any(n % size for n, size in zip(padded, sizes, strict=True)):
        decline(f"have padded extents of whole blocks of {list(sizes)}, got {padded}")
    name = _padded(at, pads) if pads.any() else at.read(0)
    tail = plane[count:]
    parted = [side for n, size in zip(padded, sizes, strict=True) for side in (n // size, size)]
    name = at.builder.reshape(name, (batch, *parted, *tail))
    places, blocks = range(1, 2 * count, 2), range(2, 2 * count + 1, 2)
    name = at.builder.moved(name, (*blocks, 0, *places, *range(2 * count + 1, rank + count)))
    at.define(at.builder.reshape(name, (batch * prod(sizes), *parted[::2], *tail)))


def batch_to_space(at: OperatorContext) -> None:
    """BATCH_TO_SPACE_ND: the reverse, less what is cropped from the plane."""
    check_same_scale(at, 0)
    sizes, crops = _sizes(at), _sides(at, "crops")
    batch, *plane = at.tensor(0).shape
    count, rank = len(sizes), len(at.tensor(0).shape)
    if batch % prod(sizes):
        decline(f"have a batch of whole blocks of {list(sizes)}, got {batch}")
    batch //= prod(sizes)
    tail, whole = plane[count:], [n * size for n, size in zip(plane, sizes, strict=False)]
    if any(sum(sides) > n for n, sides in zip(whole, crops.tolist(), strict=True)):
        decline(f"have crops within {whole}, got {crops.tolist()}")
    name = at.builder.reshape(at.read(0), (*sizes, batch, *plane))
    order = [d for pair in zip(range(count + 1, 2 * count + 1), range(count), strict=True) for d in pair]
    name = at.builder.moved(name, (count, *order, *range(2 * count + 1, rank + count)))
    name = at.builder.reshape(name, (batch, *whole, *tail))
    at.define(_cropped(at, name, whole, crops) if crops.any() else name)


def _sizes(at: OperatorContext) -> tuple[int, ...]:
    """The extents of a block in the dimensions behind the batch."""
    sizes, rank = at.integers(1, "block"), len(at.tensor(0).shape)
    if not 1 <= len(sizes) < rank or not all(1 <= size <= _MOST for size in sizes):
        decline(f"have a block of 1 to {rank - 1} extents from 1 to {_MOST}, got {list(sizes)}")
    return sizes


def _sides(at: OperatorContext, what: str) -> Array:
    """[sizes, 2]: what is added or removed before and after the dimensions of a block."""
    sides, count = at.constant(2, what), len(at.integers(1, "block"))
    if sides.dtype.kind != "i" or sides.shape != (count, 2) or sides.min() < 0 or sides.max() > _MOST:
        decline(f"have {what} from 0 to {_MOST} before and after {count} dimensions, got {sides.tolist()}")
    return sides


def _padded(at: OperatorContext, pads: Array) -> str:
    """The image with zeros around it."""
    rank = len(at.tensor(0).shape)
    widths = np.zeros((rank, 2), np.int64)
    widths[1 : len(pads) + 1] = pads
    zero = at.result.zero_point if at.output.dtype == "int8" else 0
    value = at.builder.constant(np.array(zero, at.output.dtype), f"{at.builder.label}_padding")
    return at.add("Pad", [at.read(0), integers(at, widths.T.reshape(-1), "widths"), value], {"mode": "constant"})


def _cropped(at: OperatorContext, name: str, whole: list[int], crops: Array) -> str:
    ends = [n - after for n, (_, after) in zip(whole, crops.tolist(), strict=True)]
    parts = ((crops[:, 0], "begins"), (ends, "ends"), (range(1, len(whole) + 1), "axes"))
    return at.add("Slice", [name, *(integers(at, list(values), what) for values, what in parts)])

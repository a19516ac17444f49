# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements; quantised ones keep scale and zero point."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np

from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.tflite.builder import FROM_IMAGE, IMAGE, TO_IMAGE
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import activated
from vdla.compiler.graph.tflite.functions import elementwise

_MOST_EXTENT = 1 << 16  # of a resized image
_IMAGE_AXES = tuple(TO_IMAGE.index(d) for d in range(IMAGE))  # of an image, by the axis in the file


def check_same_scale(at: OperatorContext, *positions: int) -> None:
    """Refuses quantised inputs of other scales than the result's."""
    y = at.output.quantisation
    for position in positions:
        x = at.tensor(position).quantisation
        if x is None or y is None or at.output.dtype == "float32":
            continue
        if not (np.array_equal(x.scale, y.scale) and np.array_equal(x.zero_point, y.zero_point)):
            decline(f"keep the scale and zero point of its inputs, got others for {at.tensor(position).name}")


def integers(at: OperatorContext, values: Sequence[int] | Array, what: str) -> str:
    """A constant of int64."""
    return at.builder.constant(np.array(values, np.int64), f"{at.builder.label}_{what}")


def reshape(at: OperatorContext) -> None:
    """RESHAPE, SQUEEZE and EXPAND_DIMS: the shape is that which the file says of the result."""
    check_same_scale(at, 0)
    at.define(at.builder.reshape(at.read(0), at.output.shape))


def transpose(at: OperatorContext) -> None:
    """TRANSPOSE by constant dimensions."""
    check_same_scale(at, 0)
    order, rank = at.integers(1, "dimensions"), len(at.tensor(0).shape)
    if sorted(order) != list(range(rank)):
        decline(f"have each of {rank} dimensions once, got {list(order)}")
    at.define(at.builder.moved(at.read(0), order))


def concatenate(at: OperatorContext) -> None:
    """CONCATENATION of any number of tensors."""
    positions = range(len(at.operator.inputs))
    check_same_scale(at, *positions)
    if not positions:
        decline("have inputs")
    axis = at.axis(at.option("Axis"))
    is_image = any(at.builder.has_image(at.index(n)) for n in positions) and len(at.tensor(0).shape) == IMAGE
    names = [at.read_image(n) if is_image else at.read(n) for n in positions]
    made = at.add("Concat", names, {"axis": _IMAGE_AXES[axis] if is_image else axis})
    at.define(activated(at, made) if at.output.dtype == "float32" else made, is_image=is_image)


# --- padding --------------------------------------------------------------------------------------


def pad(at: OperatorContext) -> None:
    """PAD with zeros, PADV2 with a constant, of any rank."""
    check_same_scale(at, 0)
    _pad(at, _padding(at))


def mirror_pad(at: OperatorContext) -> None:
    """MIRROR_PAD: without the elements at the edges (REFLECT) or with them (SYMMETRIC)."""
    check_same_scale(at, 0)
    widths, name = _widths(at), at.read(0)
    mode: Literal["reflect", "symmetric"] = "symmetric" if at.option("Mode") else "reflect"
    for axis, (extent, sides) in enumerate(zip(at.tensor(0).shape, widths.tolist(), strict=True)):
        if max(sides) > (extent if at.option("Mode") else extent - 1):
            decline(f"have widths of at most the extents that are mirrored, got {sides} for {extent}")
        if any(sides):
            index = integers(at, np.pad(np.arange(extent), sides, mode), "mirrored")
            name = at.add("Gather", [name, index], {"axis": axis})
    at.define(name)


def reverse(at: OperatorContext) -> None:
    """REVERSE_V2 along constant axes."""
    check_same_scale(at, 0)
    name = at.read(0)
    for axis in sorted({at.axis(axis) for axis in at.integers(1, "axes")}):
        index = integers(at, range(at.tensor(0).shape[axis])[::-1], "reversed")
        name = at.add("Gather", [name, index], {"axis": axis})
    at.define(name)


def _padding(at: OperatorContext) -> Array:
    if at.has(2):
        return at.constant(2, "padding").reshape(())
    zero = at.result.zero_point if at.output.dtype == "int8" else 0
    return np.array(zero, at.output.dtype)


def _widths(at: OperatorContext) -> Array:
    """[rank, 2]: the widths before and after each dimension."""
    widths, rank = at.constant(1, "widths of padding"), len(at.tensor(0).shape)
    if widths.dtype.kind != "i" or widths.shape != (rank, 2) or widths.min(initial=0) < 0:
        decline(f"have widths of at least 0 before and after {rank} dimensions, got {widths.tolist()}")
    return widths


def _pad(at: OperatorContext, value: Array) -> None:
    widths = _widths(at)
    is_image = at.builder.has_image(at.index(0))
    name = at.read_image(0) if is_image else at.read(0)
    ordered = widths[list(TO_IMAGE)] if is_image else widths
    padding = at.builder.constant(value, f"{at.builder.label}_padding")
    inputs = [name, integers(at, ordered.T.reshape(-1), "widths"), padding]
    at.define(at.add("Pad", inputs, {"mode": "constant"}), is_image=is_image)


# --- parts ----------------------------------------------------------------------------------------


def slice_part(at: OperatorContext) -> None:
    """SLICE: a begin and a size in every dimension; -1 is all that follows."""
    check_same_scale(at, 0)
    begins, sizes, shape = at.integers(1, "begins"), at.integers(2, "sizes"), at.tensor(0).shape
    if not len(begins) == len(sizes) == len(shape):
        decline(f"have a begin and a size for {len(shape)} dimensions, got {list(begins)} and {list(sizes)}")
    ends = [n if size == -1 else begin + size for begin, size, n in zip(begins, sizes, shape, strict=True)]
    if any(not 0 <= begin <= end <= n for begin, end, n in zip(begins, ends, shape, strict=True)):
        decline(f"have parts within {list(shape)}, got {list(begins)} to {ends}")
    at.define(_slice(at, begins, ends, [1] * len(shape)))


def _slice(at: OperatorContext, begins: Sequence[int], ends: Sequence[int], steps: Sequence[int]) -> str:
    parts = [(values, what) for values, what in ((begins, "begins"), (ends, "ends"), (range(len(ends)), "axes"))]
    names = [integers(at, list(values), what) for values, what in (*parts, (steps, "steps"))]
    return at.add("Slice", [at.read(0), *names])


_MASKS = ("EllipsisMask", "NewAxisMask")


def strided_slice(at: OperatorContext) -> None:
    """STRIDED_SLICE; masks name dimensions without a begin or an end, or of one index."""
    check_same_scale(at, 0)
    for mask in _MASKS:
        if at.option(mask):
            decline(f"have no {mask}, got {at.option(mask)}")
    begins, ends, steps = (list(at.integers(n, what)) for n, what in ((1, "begins"), (2, "ends"), (3, "steps")))
    shape, count = at.tensor(0).shape, len(begins)
    if not len(ends) == len(steps) == count <= len(shape) or 0 in steps:
        decline(f"have begins, ends and steps of up to {len(shape)} dimensions, got {begins}, {ends}, {steps}")
    for d, extent in enumerate(shape[:count]):
        offset = ends[d] - begins[d] if at.option("Offset") else None
        begins[d], ends[d] = _range(at, d, extent, begins[d], ends[d], steps[d])
        if offset is not None:
            ends[d] = begins[d] + offset
    tail = shape[count:]
    far = [-extent - 1 if step < 0 and end < 0 else end for extent, step, end in zip(shape, steps, ends, strict=False)]
    made = _slice(at, [*begins, *(0 for _ in tail)], [*far, *tail], [*steps, *(1 for _ in tail)])
    at.define(at.builder.reshape(made, at.output.shape) if at.option("ShrinkAxisMask") else made)


def _range(at: OperatorContext, d: int, extent: int, begin: int, end: int, step: int) -> tuple[int, int]:
    """Where a dimension begins and ends, from 0 up; -1 is the end of one that runs backwards."""
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    begin = begin + extent if begin < 0 else begin
    end = end + extent if end < 0 else end
    begin = (0 if step > 0 else extent - 1) if at.option("BeginMask") >> d & 1 else min(max(begin, low), high)
    end = (extent if step > 0 else -1) if at.option("EndMask") >> d & 1 else min(max(end, low), high)
    if at.option("ShrinkAxisMask") >> d & 1:
        end = begin + 1
    return begin, end


def split(at: OperatorContext) -> None:
    """SPLIT into equal parts along a constant axis, which is the first input."""
    parts = at.option("NumSplits")
    _split(at, 1, at.axis(_one(at, 0), 1), None if parts < 1 else parts, None)


def split_by_sizes(at: OperatorContext) -> None:
    """SPLIT_V: sizes as the second input, the axis as the third."""
    _split(at, 0, at.axis(_one(at, 2), 0), None, at.integers(1, "sizes"))


def _one(at: OperatorContext, position: int) -> int:
    values = at.integers(position, "axis")
    if len(values) != 1:
        decline(f"have one axis, got {list(values)}")
    return values[0]


def select(at: OperatorContext) -> None:
    """SELECT and SELECT_V2: of two tensors the elements of the first where a condition holds."""
    check_same_scale(at, 1, 2)
    shapes = [at.tensor(position).shape for position in range(3)]
    if at.operator.name == "SELECT" and shapes[0] not in ((), shapes[1]):
        decline(f"have a condition of one element or of {list(shapes[1])}, got {list(shapes[0])}")
    at.define(at.add("Where", [at.read(position) for position in range(3)]))


def gather_nd(at: OperatorContext) -> None:
    """GATHER_ND: the parts that rows of indices name."""
    check_same_scale(at, 0)
    at.define(at.add("GatherND", [at.read(0), at.add("Cast", [at.read(1)], {"to": "int64"})]))


def _split(at: OperatorContext, position: int, axis: int, parts: int | None, sizes: Sequence[int] | None) -> None:
    check_same_scale(at, position)
    extent, count = at.tensor(position).shape[axis], len(at.operator.outputs)
    if sizes is not None and -1 in sizes:
        sizes = [extent - sum(n for n in sizes if n >= 0) if n == -1 else n for n in sizes]
    if sizes is None:
        if parts != count or extent % count:
            decline(f"have {count} equal parts of {extent}, got {parts}")
        sizes = [extent // count] * count
    if len(sizes) != count or sum(sizes) != extent or min(sizes) < 0:
        decline(f"have {count} parts of {extent} together, got {list(sizes)}")
    name, rank = at.read(position), len(at.tensor(position).shape)
    start = 0
    for number, size in enumerate(sizes):
        begins, ends = [0] * rank, list(at.tensor(position).shape)
        begins[axis], ends[axis] = start, start + size
        steps = [1] * rank
        parts_of = ((begins, "begins"), (ends, "ends"), (list(range(rank)), "axes"), (steps, "steps"))
        at.define(at.add("Slice", [name, *(integers(at, v, what) for v, what in parts_of)]), number)
        start += size


def pack(at: OperatorContext) -> None:
    """PACK: tensors along a new axis."""
    positions = range(len(at.operator.inputs))
    check_same_scale(at, *positions)
    shape = at.tensor(0).shape
    axis = at.option("Axis")
    if not -len(shape) - 1 <= axis <= len(shape):
        decline(f"have an axis of {len(shape) + 1} dimensions, got {axis}")
    axis %= len(shape) + 1
    unsqueezed = (*shape[:axis], 1, *shape[axis:])
    at.define(at.add("Concat", [at.builder.reshape(at.read(n), unsqueezed) for n in positions], {"axis": axis}))


def unpack(at: OperatorContext) -> None:
    """UNPACK: the parts of one axis, which they lose."""
    check_same_scale(at, 0)
    axis, shape, name = at.axis(at.option("Axis")), at.tensor(0).shape, at.read(0)
    if len(at.operator.outputs) != shape[axis]:
        decline(f"have {shape[axis]} results, got {len(at.operator.outputs)}")
    for number in range(shape[axis]):
        index = at.builder.constant(np.array(number, np.int64), f"{at.builder.label}_index")
        at.define(at.add("Gather", [name, index], {"axis": axis}), number)


def gather(at: OperatorContext) -> None:
    """GATHER along an axis."""
    check_same_scale(at, 0)
    if at.option("BatchDims"):
        decline(f"have no batch dimensions, got {at.option('BatchDims')}; gather from a tensor without a batch")
    at.define(at.add("Gather", [at.read(0), at.read(1)], {"axis": at.axis(at.option("Axis"))}))


def tile(at: OperatorContext) -> None:
    """TILE by constant numbers."""
    check_same_scale(at, 0)
    repeats = at.integers(1, "numbers")
    if len(repeats) != len(at.tensor(0).shape) or min(repeats, default=1) < 0:
        decline(f"have a number for each dimension, got {list(repeats)}")
    at.define(at.add("Tile", [at.read(0), integers(at, repeats, "repeats")]))


def broadcast_to(at: OperatorContext) -> None:
    """BROADCAST_TO a constant shape."""
    check_same_scale(at, 0)
    at.define(at.add("Expand", [at.read(0), integers(at, at.integers(1, "shape"), "shape")]))


def resize_nearest(at: OperatorContext) -> None:
    """RESIZE_NEAREST_NEIGHBOR of an image to a constant size."""
    check_same_scale(at, 0)
    corners, centres = at.option("AlignCorners"), at.option("HalfPixelCenters")
    x, size = resized_image(at)
    source = at.builder.type_of(x).extents
    name = x
    for axis, (before, after) in enumerate(zip(source[2:], size, strict=True), start=2):
        index = nearest(before, after, corners=bool(corners), centres=bool(centres))
        if before != after or not np.array_equal(index, np.arange(before)):
            name = at.add("Gather", [name, integers(at, index, "nearest")], {"axis": axis})
    at.define(name, is_image=True)


def resized_image(at: OperatorContext) -> tuple[str, tuple[int, ...]]:
    """The image that a resize reads, and the extents of its result."""
    x, size = at.read_image(0), at.integers(1, "size")
    if len(size) != 2 or not all(1 <= extent <= _MOST_EXTENT for extent in size):
        decline(f"have a size of two numbers from 1 to {_MOST_EXTENT}, got {list(size)}")
    plane = at.builder.type_of(x).extents[2:]
    if min(plane) < 1:
        decline(f"have an image with elements, got {list(plane)}")
    return x, size


def nearest(before: int, after: int, *, corners: bool, centres: bool) -> Array:
    """The source's index for each index of the result, in the reference kernel's float32."""
    aligned = corners and after > 1
    scale = np.float32(before - 1) / np.float32(after - 1) if aligned else np.float32(before) / np.float32(after)
    place = (np.arange(after).astype(np.float32) + np.float32(0.5 if centres else 0)) * scale
    chosen = np.trunc(place + np.float32(0.5)) if corners else np.floor(place)
    return np.asarray(np.clip(chosen.astype(np.int64), 0, before - 1))


def shape_of(at: OperatorContext) -> None:
    """SHAPE of a tensor, whose extents are known."""
    at.define(at.builder.constant(np.array(at.tensor(0).shape, at.output.dtype), f"{at.builder.label}_value"))


def copy(at: OperatorContext) -> None:
    """Operators that leave the tensor as it is."""
    elementwise(at, "Identity", {})


__all__ = ["FROM_IMAGE", "check_same_scale", "integers", "nearest", "prod"]

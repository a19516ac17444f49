# SPDX-License-Identifier: Apache-2.0
"""The reference kernels that only move elements."""

from __future__ import annotations

from itertools import product

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.rounding import round_half_away
from vdla.verification.tflite_models.step import Kernels, OperatorStep


def _pad(s: OperatorStep) -> Array:
    return np.pad(s[0], s[1].tolist(), constant_values=s.y_zero)


def _mirror_pad(s: OperatorStep) -> Array:
    return np.pad(s[0], s[1].tolist(), mode="symmetric" if s.options["Mode"] else "reflect")


def _slice(s: OperatorStep) -> Array:
    ends = [None if size == -1 else begin + size for begin, size in zip(s[1], s[2], strict=True)]
    return np.asarray(
        s[0][tuple(slice(int(b), None if e is None else int(e)) for b, e in zip(s[1], ends, strict=True))]
    )


def _strided_slice(s: OperatorStep) -> Array:
    parts: list[slice | int] = []
    for d, (begin, end, step) in enumerate(zip(s[1].tolist(), s[2].tolist(), s[3].tolist(), strict=True)):
        if s.options.get("ShrinkAxisMask", 0) >> d & 1:
            parts.append(begin)
            continue
        free = [s.options.get(mask, 0) >> d & 1 for mask in ("BeginMask", "EndMask")]
        parts.append(slice(None if free[0] else begin, None if free[1] else end, step))
    return np.asarray(s[0][tuple(parts)])


def _space_to_depth(s: OperatorStep) -> Array:
    n, h, w, c = s[0].shape
    b = s.options["BlockSize"]
    return s[0].reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)


def _depth_to_space(s: OperatorStep) -> Array:
    n, h, w, c = s[0].shape
    b = s.options["BlockSize"]
    return s[0].reshape(n, h, w, b, b, c // b // b).transpose(0, 1, 3, 2, 4, 5)


def _nearest(s: OperatorStep) -> Array:
    image = s[0]
    for axis, after in enumerate(s[1].tolist(), start=1):
        before = image.shape[axis]
        image = image.take([_nearest_place(s, i, before, after) for i in range(after)], axis)
    return image


def _nearest_place(s: OperatorStep, place: int, before: int, after: int) -> int:
    half = np.float32(0.5 if s.options.get("HalfPixelCenters") else 0)
    if s.options.get("AlignCorners") and after > 1:
        return round_half_away(float((np.float32(place) + half) * (np.float32(before - 1) / np.float32(after - 1))))
    return min(int(np.floor((np.float32(place) + half) * (np.float32(before) / np.float32(after)))), before - 1)


def _bilinear(s: OperatorStep) -> Array:
    sides = [_between(s, before, after) for before, after in zip(s[0].shape[1:3], s[1].tolist(), strict=True)]
    result = np.zeros((s[0].shape[0], *s[1].tolist(), s[0].shape[3]), np.int8)
    for (i, (y, y0, y1)), (j, (x, x0, x1)) in product(enumerate(sides[0]), enumerate(sides[1])):
        total = np.zeros((s[0].shape[0], s[0].shape[3]), np.int64)
        for row, column, weight in (
            (y0, x0, (1024 - y) * (1024 - x)), (y1, x0, y * (1024 - x)), (y0, x1, (1024 - y) * x), (y1, x1, y * x)
        ):  # fmt: skip
            total += s[0][:, row, column].astype(np.int64) * weight
        nudged = total + np.where(total > 0, 2**19, -(2**19))
        result[:, i, j] = np.where(nudged >= 0, nudged // 2**20, -(-nudged // 2**20))
    return result


def _between(s: OperatorStep, before: int, after: int) -> list[tuple[int, int, int]]:
    """For each place: how far in 1/1024 it is from the element below; the elements around it."""
    corners = s.options.get("AlignCorners") and after > 1
    top, bottom = (before - 1, after - 1) if corners else (before, after)
    scale, places = (1024 * top + bottom // 2) // bottom, []
    for n in range(after):
        place = n * scale + (scale // 2 - 512 if s.options.get("HalfPixelCenters") else 0)
        lower, upper = max(int(place / 1024), 0), min(int((place + 1023) / 1024), before - 1)
        places.append((place - 1024 * lower, lower, upper))
    return places


def _space_to_batch(s: OperatorStep) -> Array:
    """The elements of a block become images of the batch, one kind after the other."""
    blocks, image = (
        s[1].tolist(),
        np.pad(s[0], [(0, 0), *s[2].tolist(), *[(0, 0)] * (s[0].ndim - 1 - len(s[1]))], constant_values=s.y_zero),
    )
    steps = [image[(slice(None), *map(_every, place, blocks))] for place in np.ndindex(*blocks)]
    return np.concatenate(steps)


def _every(start: int, step: int) -> slice:
    return slice(start, None, step)


def _batch_to_space(s: OperatorStep) -> Array:
    blocks, (batch, *rest) = s[1].tolist(), s[0].shape
    batch //= int(np.prod(blocks))
    plane = [n * b for n, b in zip(rest, blocks, strict=False)]
    image = np.empty((batch, *plane, *rest[len(blocks) :]), s[0].dtype)
    for number, place in enumerate(np.ndindex(*blocks)):
        image[(slice(None), *map(_every, place, blocks))] = s[0][number * batch : (number + 1) * batch]
    kept = [slice(before, n - after) for n, (before, after) in zip(plane, s[2].tolist(), strict=True)]
    return image[(slice(None), *kept)]


def _reversed(s: OperatorStep) -> Array:
    return np.asarray(np.flip(s[0], tuple(int(axis) for axis in s[1])))


def _split(s: OperatorStep) -> list[Array]:
    return list(np.split(s[1], len(s.written), int(s[0])))


def _split_by_sizes(s: OperatorStep) -> list[Array]:
    axis, sizes = int(s[2]), s[1].tolist()
    rest = s[0].shape[axis] - sum(n for n in sizes if n >= 0)
    ends = np.cumsum([rest if n < 0 else n for n in sizes])
    return list(np.split(s[0], ends[:-1], axis))


def _unpack(s: OperatorStep) -> list[Array]:
    return [s[0].take(n, s.options["Axis"]) for n in range(len(s.written))]


MOVEMENTS: Kernels = {
    "ARG_MIN": lambda s: s[0].argmin(int(s[1])).astype(np.int64),
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "BROADCAST_TO": lambda s: np.broadcast_to(s[0], s[1].tolist()),
    "ARG_MAX": lambda s: s[0].argmax(int(s[1])).astype(np.int32),
    "CONCATENATION": lambda s: np.concatenate([s[n] for n in range(len(s.x))], s.options["Axis"]),
    "DEPTH_TO_SPACE": _depth_to_space,
    "EXPAND_DIMS": lambda s: s[0],
    "GATHER": lambda s: s[0].take(s[1], s.options["Axis"]),
    "GATHER_ND": lambda s: s[0][tuple(np.moveaxis(s[1], -1, 0))],
    "MIRROR_PAD": _mirror_pad,
    "PACK": lambda s: np.stack([s[n] for n in range(len(s.x))], s.options["Axis"]),
    "PAD": _pad,
    "PADV2": lambda s: np.pad(s[0], s[1].tolist(), constant_values=int(s[2].item())),
    "RESHAPE": lambda s: s[0],
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "REVERSE_V2": _reversed,
    "SELECT": lambda s: np.where(s[0], s[1], s[2]),
    "SELECT_V2": lambda s: np.where(s[0], s[1], s[2]),
    "SHAPE": lambda s: np.array(s[0].shape, np.int32),
    "SLICE": _slice,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPLIT_V": _split_by_sizes,
    "SPLIT": _split,
    "SQUEEZE": lambda s: s[0],
    "STRIDED_SLICE": _strided_slice,
    "TILE": lambda s: np.tile(s[0], s[1].tolist()),
    "TRANSPOSE": lambda s: s[0].transpose(s[1].tolist()),
    "UNPACK": _unpack,
}

# SPDX-License-Identifier: Apache-2.0
"""Models of one operator that moves elements each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from vdla.support.arrays import Array
from vdla.verification.tflite_models.draft import CaseDraft, Maker, OperatorCase, ints


def _moving(
    operator: str,
    shape: Sequence[int],
    result: Sequence[int],
    *constants: Array,
    **options: Any,  # noqa: ANN401
) -> Maker:
    def make(d: CaseDraft) -> OperatorCase:
        x = d.input(*shape)
        more = [d.writer.constant(value) for value in constants]
        return d.case(operator, (x, *more), (d.like(x, *result),), **options)

    return make


def _concatenation(d: CaseDraft) -> OperatorCase:
    axis, shape = int(d.random.integers(0, 4)), [2, 3, 4, 5]
    a = d.input(*shape)
    of = d.writer.tensors[a]
    b = d.input(*shape, scale=of.scale[0], zero_point=of.zero_point)
    shape[axis] *= 2
    return d.case("CONCATENATION", (a, b), (d.like(a, *shape),), Axis=axis)


def _pack(d: CaseDraft) -> OperatorCase:
    a = d.input(3, 4)
    of = d.writer.tensors[a]
    b = d.input(3, 4, scale=of.scale[0], zero_point=of.zero_point)
    return d.case("PACK", (a, b), (d.like(a, 3, 2, 4),), Axis=1, ValuesCount=2)


def _unpack(d: CaseDraft) -> OperatorCase:
    x = d.input(3, 2, 4)
    return d.case("UNPACK", (x,), (d.like(x, 3, 4, name="y0"), d.like(x, 3, 4, name="y1")), Axis=1, Num=2)


def _split(d: CaseDraft) -> OperatorCase:
    x = d.input(2, 6, 4)
    axis = d.writer.constant(np.array(1, np.int32))
    results = [d.like(x, 2, 2, 4, name=f"y{n}") for n in range(3)]
    return d.case("SPLIT", (axis, x), results, NumSplits=3)


def _split_by_sizes(d: CaseDraft) -> OperatorCase:
    x = d.input(2, 7, 4)
    sizes, axis = d.writer.constant(ints(3, -1, 2)), d.writer.constant(np.array(1, np.int32))
    results = [d.like(x, 2, n, 4, name=f"y{i}") for i, n in enumerate((3, 2, 2))]
    return d.case("SPLIT_V", (x, sizes, axis), results, NumSplits=3)


def _padded(d: CaseDraft) -> OperatorCase:
    x = d.input(1, 3, 4, 2)
    of = d.writer.tensors[x]
    widths = d.writer.constant(ints((0, 0), (1, 2), (0, 1), (1, 1)))
    value = d.writer.constant(d.data((1,)), scale=of.scale[0], zero_point=of.zero_point)
    return d.case("PADV2", (x, widths, value), (d.like(x, 1, 6, 5, 4),))


def _mirrored(d: CaseDraft) -> OperatorCase:
    mode, x = d.pick(0, 1), d.input(2, 4, 3, 2)
    return d.case(
        "MIRROR_PAD", (x, d.writer.constant(ints((0, 1), (2, 3), (1, 2), (0, 0)))), (d.like(x, 3, 9, 6, 2),), Mode=mode
    )


def _selected(operator: str, *shapes: tuple[int, ...]) -> Maker:
    """Of two tensors, the second of one of the shapes, by a condition of one of them."""

    def make(d: CaseDraft) -> OperatorCase:
        choice = d.given(d.random.integers(0, 2, d.pick(*shapes)).astype(bool))
        a = d.input(*shapes[0])
        of = d.writer.tensors[a]
        b = d.input(*d.pick(*shapes), scale=of.scale[0], zero_point=of.zero_point)
        return d.case(operator, (choice, a, b), (d.like(a, *shapes[0]),))

    return make


def _space_to_batch(d: CaseDraft) -> OperatorCase:
    """Images, and rows of one spatial dimension."""
    sides = d.pick(1, 2)
    batch, *plane, channels = d.random.integers(1, 7, sides + 2).tolist()
    blocks, before = d.random.integers(1, 4, sides).tolist(), d.random.integers(0, 3, sides).tolist()
    after = [-(n + p) % b for n, p, b in zip(plane, before, blocks, strict=True)]
    x = d.input(batch, *plane, channels)
    pads = d.writer.constant(np.array([*zip(before, after, strict=True)], np.int32))
    extents = [sum(sizes) // b for b, *sizes in zip(blocks, plane, before, after, strict=True)]
    y = d.like(x, batch * prod(blocks), *extents, channels)
    return d.case("SPACE_TO_BATCH_ND", (x, d.writer.constant(ints(*blocks)), pads), (y,))


def _batch_to_space(d: CaseDraft) -> OperatorCase:
    sides = d.pick(1, 2)
    batch, *plane, channels = d.random.integers(2, 5, sides + 2).tolist()
    blocks, crops = d.random.integers(1, 4, sides).tolist(), d.random.integers(0, 2, (sides, 2))
    crops[np.array(plane) * blocks <= crops.sum(axis=1)] = 0
    x = d.input(batch * prod(blocks), *plane, channels)
    extents = [n * b - sum(c) for n, b, c in zip(plane, blocks, crops.tolist(), strict=True)]
    cut = d.writer.constant(crops.astype(np.int32))
    y = d.like(x, batch, *extents, channels)
    return d.case("BATCH_TO_SPACE_ND", (x, d.writer.constant(ints(*blocks)), cut), (y,))


def _shape(d: CaseDraft) -> OperatorCase:
    return d.case("SHAPE", (d.input(2, 3, 4),), (d.writer.tensor((3,), "int32", name="y"),), OutType=2)


MOVEMENTS: tuple[Maker, ...] = (
    _concatenation,
    _pack,
    _unpack,
    _split,
    _split_by_sizes,
    _padded,
    _mirrored,
    _selected("SELECT", (2, 3, 4)),
    _selected("SELECT_V2", (2, 3, 4), (3, 1), (1, 1, 4)),
    _space_to_batch,
    _batch_to_space,
    _shape,
    _moving("REVERSE_V2", (3, 4, 5), (3, 4, 5), ints(1, 2)),
    _moving("BROADCAST_TO", (3, 1, 5), (2, 3, 4, 5), ints(2, 3, 4, 5)),
    _moving("GATHER_ND", (4, 5, 2), (3, 2), ints((0, 4), (3, 1), (2, 2))),
    _moving("PAD", (1, 3, 4, 2), (1, 6, 5, 4), ints((0, 0), (1, 2), (0, 1), (1, 1))),
    _moving("TRANSPOSE", (2, 3, 4, 5), (5, 2, 4, 3), ints(3, 0, 2, 1)),
    _moving("RESHAPE", (2, 6, 4), (4, 12), ints(4, 12)),
    _moving("SQUEEZE", (2, 1, 4, 1), (2, 4)),
    _moving("EXPAND_DIMS", (2, 4), (2, 1, 4), np.array(1, np.int32)),
    _moving("SLICE", (3, 8, 5), (2, 4, 5), ints(1, 2, 0), ints(2, 4, -1)),
    _moving(
        "STRIDED_SLICE",
        (3, 8, 5),
        (3, 3),
        ints(0, 6, 1),
        ints(3, 0, 2),
        ints(1, -2, 1),
        BeginMask=1,
        ShrinkAxisMask=4,
    ),
    _moving("GATHER", (4, 5, 2), (4, 3, 2), ints(4, 0, 2), Axis=1),
    _moving("SPACE_TO_DEPTH", (1, 4, 6, 3), (1, 2, 3, 12), BlockSize=2),
    _moving("DEPTH_TO_SPACE", (1, 2, 3, 12), (1, 4, 6, 3), BlockSize=2),
    _moving("RESIZE_NEAREST_NEIGHBOR", (1, 4, 5, 3), (1, 7, 10, 3), ints(7, 10)),
    _moving("RESIZE_NEAREST_NEIGHBOR", (1, 4, 5, 3), (1, 7, 3, 3), ints(7, 3), HalfPixelCenters=True),
    _moving("RESIZE_NEAREST_NEIGHBOR", (1, 4, 5, 3), (1, 7, 10, 3), ints(7, 10), AlignCorners=True),
    _moving("TILE", (2, 3), (4, 9), ints(2, 3)),
)

# SPDX-License-Identifier: Apache-2.0
"""Models of one operator that moves elements each."""

from __future__ import annotations

from collections.abc import Sequence
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


MOVEMENTS: tuple[Maker, ...] = (
    _concatenation,
    _pack,
    _unpack,
    _split,
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
    _moving("TILE", (2, 3), (4, 9), ints(2, 3)),
)

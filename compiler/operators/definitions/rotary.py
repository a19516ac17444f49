# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of rows in integers, as the plug-in `rotary` computes it.

Cosines and sines are integers of 8 bits, `UNIT` for 1, each off by at most half a step. So a
rotated element is off by at most 1/180 of the length of its pair before it is rounded to 8 bits.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import DefinitionError, Sums, definition, product, requantised_by

UNIT = 127
"""The integer that stands for a cosine of 1."""


@definition
def rotary(
    *, matrices: int, rows: int, heads: int, size: int, turned: int, interleaved: bool = False, low: int = -128,
    high: int = 127, zero_point: int = 0,
) -> Sums:  # fmt: skip
    """[matrices, rows, heads * size]: pairs of the first `turned` elements of each head, rotated.

    A pair has two neighbours if `interleaved`, else element i and element i + turned / 2.
    `turns` [matrices, rows, 2 * size] has a factor for each element of a head, its cosine, and one
    for the other element of its pair, its sine with a sign. Elements without a pair have the factor
    `UNIT`, and no sine.
    """
    if turned < 2 or turned % 2 or turned > size:
        raise DefinitionError(f"rotary: turned must be an even number from 2 to the {size} elements, got {turned}")
    data = te.placeholder((matrices, rows, heads * size), "int8", "data")
    turns = te.placeholder((matrices, rows, 2 * size), "int8", "turns")
    sums = te.compute(data.shape, lambda *i: rotated(data, turns, i, size, turned, interleaved), "rotated")
    scale, result = requantised_by(sums, (1,), lambda i: (i[-1] * 0,), "int8", zero_point, (low, high))
    return [data, turns, scale], result


def rotated(
    data: te.Tensor, turns: te.Tensor, at: tuple[te.Value, ...], size: int, turned: int, interleaved: bool
) -> te.Value:
    """An element of a row, times its cosine, plus the other one of its pair, times its sine."""
    *row, feature = at
    place = feature % size
    partner = feature + distance(place, turned, interleaved)
    straight = product(data[at], turns[(*row, place)])
    return straight + te.select(place < turned, product(data[(*row, partner)], turns[(*row, size + place)]), 0)


def distance(place: te.Value, turned: int, interleaved: bool) -> te.Value:
    """How far the other element of a pair is from the one in a place of its head; 0 without one."""
    half = 1 if interleaved else turned // 2
    is_second = place % 2 if interleaved else _is_positive(place - (half - 1))
    return (half - is_second * (2 * half)) * _is_positive(turned - place)


def _is_positive(value: te.Value) -> te.Value:
    """1 or 0, in terms that an index may have."""
    return te.minimum(te.maximum(value, 0), 1)

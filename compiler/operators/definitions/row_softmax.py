# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows in integers, as the plug-in `softmax` computes it.

A share is `2**-(t + log2(sum of 2**-t))`, where `t` is the distance of an element from the largest
one of its row as an exponent of two. Powers and logarithms are polynomials of ten bits, so that a
share is off by at most 0.8 % of itself before it is requantised to 8 bits. The factor of `t` is
rounded to 1/65,536 of an exponent a step.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import DefinitionError, Sums, definition, requantised_by

EXPONENT_BITS = 16
"""The fractional bits of an exponent."""
FACTOR_BITS = 18
"""The bits of the exponent of one step of an element."""
SHARE_BITS = 24
"""A share of 1 is two to the power of so many."""
TERM_BITS = 15
"""So is 1 among the terms of a sum."""
_MOST_SHIFT = 31
MOST_KEYS = 1 << (_MOST_SHIFT - TERM_BITS - 1)
"""The longest row, whose terms have a sum of less than 31 bits."""
_PART = (1 << 10) - 1


def softmax_factor(scale: float) -> int:
    """The exponent of one step of an element, of elements that have a scale."""
    return round(scale * math.log2(math.e) * (1 << EXPONENT_BITS))


@definition
def row_softmax(
    *, matrices: int, rows: int, keys: int, factor: int, low: int = -128, high: int = 127, zero_point: int = 0
) -> Sums:
    """[matrices, rows, keys]: the shares of the elements of each row in 8 bits.

    `factor` is the `softmax_factor` of the scale of elements; the scale of results has one element.
    """
    if not 0 < factor < 1 << FACTOR_BITS:
        raise DefinitionError(f"row_softmax: factor must be from 1 to {(1 << FACTOR_BITS) - 1}, got {factor}")
    if keys > MOST_KEYS:
        raise DefinitionError(f"row_softmax: keys must be at most {MOST_KEYS}, got {keys}")
    data = te.placeholder((matrices, rows, keys), "int8", "data")
    one = te.const(0, "int32")
    scale, result = requantised_by(row_shares(data, factor), (1,), lambda _: (one,), "int8", zero_point, (low, high))
    return [data, scale], result


def row_shares(data: te.Tensor, factor: int) -> te.Tensor:
    """The shares of the elements of rows along the last dimension, in `SHARE_BITS`."""
    *outer, keys = data.shape
    k, j = te.reduce_axis(keys, "k"), te.reduce_axis(keys, "j")
    most = te.compute(tuple(outer), lambda *i: te.max(te.cast("int32", data[(*i, k)]), axis=k), "most")
    steps = te.compute(data.shape, lambda *i: distance(most[i[:-1]], data[i]) * factor, "steps")
    total = te.compute(tuple(outer), lambda *i: te.sum(term(steps[(*i, j)]), axis=j), "total")
    scale = te.compute(tuple(outer), lambda *i: logarithm(total[i]), "logarithm")
    return te.compute(data.shape, lambda *i: share(steps[i] + scale[i[:-1]]), "shares")


# --- of one element, as a step of the machine has it ----------------------------------------------


def distance(most: te.Value, element: te.Value) -> te.Value:
    """How far an element of 8 bits is below the largest one of its row, which has 8 bits too."""
    return (most - te.cast("int32", element)) & 255


def term(exponent: te.Value) -> te.Value:
    """2**-exponent, with `TERM_BITS`."""
    return _power(exponent) >> _whole(exponent)


def share(exponent: te.Value) -> te.Value:
    """2**-exponent, with `SHARE_BITS`."""
    return (_power(exponent) << (SHARE_BITS - TERM_BITS)) >> _whole(exponent)


def _power(exponent: te.Value) -> te.Value:
    """2**-part of the fractional part of an exponent: a parabola."""
    part = (exponent >> (EXPONENT_BITS - 10)) & _PART
    return (1 << TERM_BITS) - ((part * (1374 - ((part * 11) >> 5))) >> 6)


def _whole(exponent: te.Value) -> te.Value:
    return te.clip(exponent >> EXPONENT_BITS, 0, _MOST_SHIFT)


def logarithm(total: te.Value) -> te.Value:
    """log2 of a sum of terms, 0 where the largest element has the only one: a cubic."""
    places = [te.cast("int32", total >= (1 << k)) for k in range(TERM_BITS + 1, _MOST_SHIFT)]
    bits = reduce(add, places)
    part = (total >> (bits + (TERM_BITS - 10))) & _PART
    bend = ((part * (_PART + 1 - part)) >> 8) * (432 - ((part * 162) >> 10))
    return (bits << EXPONENT_BITS) + (part << (EXPONENT_BITS - 10)) + (bend >> 6)

# SPDX-License-Identifier: Apache-2.0
"""LayerNorm and RMSNorm of rows in integers, as the plug-in `norm` computes them.

The mean of a row has 6 fractional bits, its variance 12. One over the deviation comes from two
steps of Newton's method and is used in 12 bits: it is off by at most 0.07 % of itself, and a mean
by at most 1/64 of a step of the input. Scale and shift of a feature are those of the
requantisation.
"""

from __future__ import annotations

from functools import reduce
from operator import add

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import DefinitionError, Sums, definition, requantised_by

MEAN_BITS = 6
"""The fractional bits of a mean; a variance has twice as many."""
NORMAL_BITS = 12
"""A normal number of 1 is two to the power of so many."""
LEAST_BITS = 16
"""The bits of epsilon as a variance."""
MOST_FEATURES = 1 << 16
"""The longest row, whose squares have a sum of 31 bits."""
_ROOT_BITS = 14  # of one over a root
COUNT_BITS = 20
"""The bits of one over the number of features, without its zeros."""


def over_features(features: int) -> tuple[int, int]:
    """(multiplier, shift) of a division by the number of features."""
    shift = features.bit_length() - 1 + COUNT_BITS
    return round((1 << shift) / features), shift


@definition
def row_norm(
    *, matrices: int, rows: int, features: int, centred: bool = True, least: int = 0, low: int = -128,
    high: int = 127, zero_point: int = 0,
) -> Sums:  # fmt: skip
    """[matrices, rows, features]: the elements of each row, over their deviation.

    The mean is subtracted first if they are `centred`.

    `least` is added to the variance, in 1/4,096 of a squared step. `sign` is negative for features
    whose numbers change their sign; the scale has an element for each feature.
    """
    if not 0 <= least < 1 << LEAST_BITS:
        raise DefinitionError(f"row_norm: least must be from 0 to {(1 << LEAST_BITS) - 1}, got {least}")
    if features > MOST_FEATURES:
        raise DefinitionError(f"row_norm: features must be at most {MOST_FEATURES}, got {features}")
    data, sign = te.placeholder((matrices, rows, features), "int8", "data"), te.placeholder((features,), "int8", "sign")
    normal = normal_numbers(data, centred, least)
    signed = te.compute(data.shape, lambda *i: of_sign(normal[i], sign[i[-1]]), "signed")
    lane = (low, high)
    scale, result = requantised_by(signed, (features,), lambda i: (i[-1],), "int8", zero_point, lane)
    return [data, sign, scale], result


def normal_numbers(data: te.Tensor, centred: bool, least: int) -> te.Tensor:
    """The normal numbers of rows along the last dimension, with `NORMAL_BITS`."""
    *outer, features = data.shape
    shape = tuple(outer)
    k, j = te.reduce_axis(features, "k"), te.reduce_axis(features, "j")
    multiplier, shift = over_features(features)

    def wide(*i: te.Operand) -> te.Value:
        return te.cast("int32", data[i])

    total = te.compute(shape, lambda *i: te.sum(wide(*i, k), axis=k), "total")
    squares = te.compute(shape, lambda *i: te.sum(wide(*i, j) * wide(*i, j), axis=j), "squares")
    centre = int(centred)
    mean = te.compute(shape, lambda *i: mean_of(total[i], multiplier, shift) * centre, "mean")
    square = te.compute(shape, lambda *i: mean_square_of(squares[i], multiplier, shift), "square")
    spread = te.compute(shape, lambda *i: variance_of(square[i], mean[i], least), "spread")
    root = te.compute(shape, lambda *i: first_root(spread[i]), "root0")
    for number in (1, 2):
        root = te.compute(shape, lambda *i, last=root: next_root(spread[i], last[i]), f"root{number}")
    return te.compute(
        data.shape, lambda *i: normal_number(wide(*i), mean[i[:-1]], root[i[:-1]], places_of(spread[i[:-1]])), "normal"
    )


# --- of one row or element, as a step of the machine has it ---------------------------------------


def mean_of(total: te.Value, multiplier: te.Value | int, shift: te.Value | int) -> te.Value:
    """A sum over the number of features, with `MEAN_BITS`."""
    return te.cast("int32", (te.cast("int64", total) * multiplier) >> (shift - MEAN_BITS))


def mean_square_of(squares: te.Value, multiplier: te.Value | int, shift: te.Value | int) -> te.Value:
    """A sum of squares over the number of features, with twice `MEAN_BITS`."""
    return te.cast("int32", (te.cast("int64", squares) * multiplier) >> (shift - 2 * MEAN_BITS))


def variance_of(mean_square: te.Value, mean: te.Value, least: te.Operand) -> te.Value:
    """The variance and epsilon, at least the smallest number."""
    middle = _mean(mean)
    return te.maximum(mean_square - middle * middle + least, 1)


def _mean(mean: te.Value) -> te.Value:
    """A mean in the range of means of 8 bits."""
    return te.clip(mean, -128 << MEAN_BITS, (128 << MEAN_BITS) - 1)


def _root(root: te.Value) -> te.Value:
    """One over a root, which has a bit before its fraction."""
    return root & ((2 << _ROOT_BITS) - 1)


def places_of(spread: te.Value) -> te.Value:
    """The whole part of log4 of a variance."""
    return reduce(add, [te.cast("int32", spread >= (1 << k)) for k in range(2, 31, 2)])


def _mantissa(spread: te.Value) -> te.Value:
    """A variance over a power of four: from 1 to less than 4, with `_ROOT_BITS`."""
    bits = places_of(spread)
    up, down = te.maximum(_ROOT_BITS // 2 - bits, 0), te.maximum(bits - _ROOT_BITS // 2, 0)
    return ((spread << (up * 2)) >> (down * 2)) & ((4 << _ROOT_BITS) - 1)


def first_root(spread: te.Value) -> te.Value:
    """One over the root of the mantissa, with `_ROOT_BITS`, off by up to 3 %: two lines."""
    mantissa = _mantissa(spread)
    low = 20600 - ((mantissa * 18) >> 6)
    high = 14320 - ((mantissa * 6) >> 6)
    return te.select(mantissa < (2 << _ROOT_BITS), low, high)


def next_root(spread: te.Value, root: te.Value) -> te.Value:
    """root * (3 - mantissa * root**2) / 2."""
    last = _root(root)
    square = (last * last) >> _ROOT_BITS
    return (last * ((3 << _ROOT_BITS) - ((_mantissa(spread) * square) >> _ROOT_BITS))) >> (_ROOT_BITS + 1)


def normal_number(element: te.Value, mean: te.Value, root: te.Value, bits: te.Value) -> te.Value:
    """An element less the mean, over the deviation, with `NORMAL_BITS`."""
    return (((element << MEAN_BITS) - _mean(mean)) * (_root(root) >> (_ROOT_BITS - NORMAL_BITS))) >> bits


def of_sign(number: te.Value, sign: te.Value) -> te.Value:
    """A number, negated where the sign is negative."""
    return te.select(sign < 0, 0 - number, number)

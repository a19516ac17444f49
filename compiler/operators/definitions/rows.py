# SPDX-License-Identifier: Apache-2.0
"""Operators of rows: reductions, of each row of a matrix one number of 32 bits, distances of rows
from others, and rows as the second factor of a product.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import DefinitionError, Sums, definition

PLACES = 1 << 16
"""The longest row whose places fit a key."""
_KINDS: dict[str, tuple[Callable[..., te.Value], Callable[[te.Value, te.Operand], te.Value]]] = {
    "max": (te.max, lambda value, place: value),
    "place": (te.max, lambda value, place: (value << 16) - place),
    "squares": (te.sum, lambda value, place: value * value),
}


@definition
def row_reduction(*, kind: str, matrices: int, rows: int, features: int, dtype: str = "int8") -> Sums:
    """[matrices, rows] of [matrices, rows, features]: the largest element of each row, `max`; its
    key, `place`; or the sum of the `squares`.

    The key is the largest element times 2**16, less the place of the first one that is as large.
    """
    if kind not in _KINDS:
        raise DefinitionError(f"row_reduction: kind must be {', '.join(_KINDS)}, got {kind}")
    if kind == "place" and features > PLACES:
        raise DefinitionError(f"row_reduction: features must be at most {PLACES} for places, got {features}")
    data = te.placeholder((matrices, rows, features), dtype, "data")
    k = te.reduce_axis(features, "k")
    reduce, term = _KINDS[kind]

    def value(m: te.Value, n: te.Value) -> te.Value:
        return reduce(term(te.cast("int32", data[m, n, k]), k), axis=k)

    return [data], te.compute((matrices, rows), value, "reduced")


@definition
def distances(*, rows: int, features: int, codes: int, dtype: str = "int8") -> Sums:
    """[rows, codes], in 32 bits: the sums of absolute differences of each row of `data`,
    [rows, features], and each one of `code`, [codes, features].
    """
    data, code = te.placeholder((rows, features), dtype, "data"), te.placeholder((codes, features), dtype, "code")
    k = te.reduce_axis(features, "k")

    def value(n: te.Value, m: te.Value) -> te.Value:
        return te.sum(te.abs(te.cast("int32", data[n, k]) - te.cast("int32", code[m, k])), axis=k)

    return [data, code], te.compute((rows, codes), value, "distances")


@definition
def second_factor(*, matrices: int, rows: int, columns: int, transposed: bool, dtype: str = "int8") -> Sums:
    """[matrices, depth, columns of a product] from [matrices, rows, columns]: their transpose if
    `transposed`, else themselves. Programs lay it out as weights; the scale, for these, is one.
    """
    data, scale = te.placeholder((matrices, rows, columns), dtype, "data"), te.placeholder((1,), "int64", "scale")
    if transposed:
        return [data, scale], te.compute((matrices, columns, rows), lambda m, k, n: data[m, n, k], "factor")
    return [data, scale], te.compute((matrices, rows, columns), lambda m, k, n: data[m, k, n], "factor")

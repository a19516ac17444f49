# SPDX-License-Identifier: Apache-2.0
"""Code that LLVM's SLP and loop vectorizers miscompile, as reduced from the fuzzer's findings."""

import numpy as np

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.runtime.native import build


def test_unsigned_conversions_of_negative_numbers_stay_large() -> None:
    a = te.placeholder((3,), "int16", "a")
    b = te.compute((3,), lambda i: te.cast("float32", te.cast("uint64", a[i])), "b")
    kernel = build(te.create_function([a], [b], "unsigned"), cached=False)
    given = np.array([-1, -2, 3], np.int16)
    np.testing.assert_array_equal(kernel(given), given.astype(np.uint64).astype(np.float32))


def test_conditions_of_neighbouring_elements_stay_apart() -> None:
    a = te.placeholder((11,), "int8", "a")

    def chosen(i: te.Value, j: te.Value) -> te.Value:
        place = te.cast("int64", te.select((i + 1 >= 0) & (i + 1 < 11), a[i + 1], 1)) % 11
        return te.cast("float16", a[te.cast("int32", place)])

    def largest(i: te.Value, j: te.Value, k: te.Value) -> te.Value:
        return te.cast("int64", te.maximum(te.cast("float32", a[10 - i]), te.cast("float32", a[j + 8])))

    rows = te.compute((9, 8), chosen, "rows")
    table = te.compute((4, 3, 8), largest, "table")
    at = te.reduce_axis(1, "at")

    def picked(i: te.Value, j: te.Value) -> te.Value:
        place = te.cast("int32", table[te.minimum(j, 3), at * 2, at] % 4)
        return te.sum(te.maximum(te.cast("int64", a[i * 2]), table[place, i, i * 2]), axis=at)

    fn = te.create_function([a], [rows, te.compute((3, 6), picked, "picked")], "neighbours")
    given = np.array([-3, -4, -3, 1, -2, 5, 2, -5, 5, -3, -4], np.int8)
    found, _ = build(fn, contract=False, cached=False)(given)
    np.testing.assert_array_equal(found[:, 0], given[given[1:10].astype(int) % 11])
    np.testing.assert_array_equal(found, found[:, :1].repeat(8, axis=1))


def test_conditional_divisions_are_done_for_every_lane_that_needs_them() -> None:
    n = te.var("n")
    a, c = te.placeholder((9,), "int64", "a"), te.placeholder((n,), "int64", "c")
    k = te.reduce_axis(5, "k")

    def chosen(i: te.Value) -> te.Value:
        other = te.select((i >= 1) & (i < 2), a[i - 1], te.const(-2, "int64"))
        least = te.minimum(te.cast("float64", c[k % n]), te.cast("float64", other))  # c matters only if other is not -2
        return te.sum(te.select(least == te.cast("float64", k), te.const(0, "int64"), a[te.minimum(i, 2)]), axis=k)

    fn = te.create_function([a, c], [te.compute((n,), chosen, "t")], "divided")
    arrays = {"a": np.arange(1, 10), "c": np.arange(16)}
    kernel = build(fn, contract=False, cached=False)
    np.testing.assert_array_equal(kernel(*arrays.values()), interpret(fn, arrays)["t"])

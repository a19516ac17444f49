# SPDX-License-Identifier: Apache-2.0
"""Several tensors from one block: tuple reducers, argmax and argmin, several outputs."""

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.interpret import interpret
from vdla.compiler.te import TeError

A = te.placeholder((4, 3), "int32", "a")
K = te.reduce_axis(3, "k")


def best_of(array, reduction, axis_extents):
    """(elements, positions) of the first dimension, by `reduction` over the others."""
    dtype = str(array.dtype)
    x = te.placeholder(array.shape, dtype, "x")
    axes = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(axis_extents)]
    best = te.compute(array.shape[:1], lambda i: reduction(x[(i, *axes)], axis=axes), ("best", "place"))
    got = interpret(te.create_function([x], list(best), "f"), {"x": array})
    return got["best"], got["place"]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32"])
@pytest.mark.parametrize(("reduction", "model"), [(te.argmax, np.argmax), (te.argmin, np.argmin)], ids=["max", "min"])
def test_the_first_of_equal_elements_wins(reduction, model, dtype):
    x = np.random.default_rng(0).integers(0, 4, (6, 20)).astype(dtype)
    best, place = best_of(x, reduction, (20,))
    np.testing.assert_array_equal(place, model(x, axis=1))
    np.testing.assert_array_equal(best, x[np.arange(6), model(x, axis=1)])


def test_positions_along_several_axes_are_row_major():
    x = np.random.default_rng(0).permutation(60).astype(np.int32).reshape(2, 5, 6)
    np.testing.assert_array_equal(best_of(x, te.argmax, (5, 6))[1], x.reshape(2, 30).argmax(1))


def test_positions_of_infinities_and_nan_equal_numpy():
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, -inf, -inf], [1, nan, nan], [nan, inf, 1], [-inf, -inf, 5]], np.float32)
    assert best_of(x, te.argmax, (3,))[1].tolist() == x.argmax(1).tolist() == [0, 1, 0, 2]
    assert best_of(x, te.argmin, (3,))[1].tolist() == x.argmin(1).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("order", [lambda n: range(n), lambda n: reversed(range(n)), lambda n: (2, 0, 3, 1)])
def test_the_first_wins_in_any_order_of_reduction(order):
    x = np.array([7, 9, 9, 9], np.int32)
    k = te.reduce_axis(4, "k")
    t = te.placeholder((4,), "int32", "x")
    best = te.compute((1,), lambda i: te.argmax(t[k], axis=k), "b")
    fn = te.create_function([t], list(best), "f")
    block = next(stmt for stmt in ir.walk(fn.body) if isinstance(stmt, ir.Block))
    here = (ir.Const(0),)
    substituted = [{"vi": ir.Const(0), "vk": ir.Const(at)} for at in order(4)]
    start = ir.MultiStore(tuple(ir.Store(s.buffer, here, s.value) for s in block.init.stores))
    updates = [
        ir.MultiStore(tuple(ir.Store(s.buffer, here, ir.substitute(s.value, env)) for s in block.body.stores))
        for env in substituted
    ]
    got = interpret(ir.Function("f", fn.params, fn.buffers, ir.seq(start, *updates)), {"x": x})
    assert (got["b_0"].tolist(), got["b_1"].tolist()) == ([9], [1])


def test_one_block_stores_both_tensors():
    low, high = te.compute((4,), lambda i: (te.minimum(A[i, 0], A[i, 1]), te.maximum(A[i, 0], A[i, 1])), "sorted")
    fn = te.create_function([A], [low, high], "f")
    assert str(fn) == (
        "f(a: int32[4, 3], sorted_0: int32[4], sorted_1: int32[4]):\n"
        "    for i in range(4):\n"
        "        block sorted(vi=i):\n"
        "            sorted_0[vi], sorted_1[vi] = min(a[vi, 0], a[vi, 1]), max(a[vi, 0], a[vi, 1])"
    )
    x = np.random.default_rng(0).integers(-9, 9, (4, 3)).astype(np.int32)
    got = interpret(fn, {"a": x})
    np.testing.assert_array_equal([got["sorted_0"], got["sorted_1"]], [x[:, :2].min(1), x[:, :2].max(1)])


def test_a_reducer_of_tuples_mean_and_variance():
    """Welford's combination of (count, mean, sum of squares about the mean)."""

    def combine(a, b):
        count = a[0] + b[0]
        whole = te.maximum(count, 1)
        delta = b[1] - a[1]
        return count, a[1] + delta * b[0] / whole, a[2] + b[2] + delta * delta * a[0] * b[0] / whole

    welford = te.reducer(combine, (0, 0, 0), "welford")
    x = np.random.default_rng(0).standard_normal((3, 50))
    t, k = te.placeholder(x.shape, "float64", "x"), te.reduce_axis(50, "k")
    one, zero = te.const(1, "float64"), te.const(0, "float64")
    parts = te.compute((3,), lambda i: welford((one, t[i, k], zero), axis=k), "part")
    mean = te.compute((3,), lambda i: parts[1][i] + zero, "mean")
    got = interpret(te.create_function([t], [mean, parts[2]], "f"), {"x": x})
    np.testing.assert_allclose(got["mean"], x.mean(1))
    np.testing.assert_allclose(got["part_2"] / 50, x.var(1))


def test_an_unused_result_is_an_intermediate_buffer():
    best, place = te.compute((4,), lambda i: te.argmax(A[i, K], axis=K), ("best", "place"))
    fn = te.create_function([A], [place], "f")
    assert fn.params == ("a", "place")
    assert set(fn.buffers) == {"a", "place", "best"}
    x = np.array([[1, 5, 2], [9, 5, 2], [1, 1, 1], [0, 1, 2]], np.int32)
    assert interpret(fn, {"a": x})["place"].tolist() == [1, 0, 0, 2]
    assert best.shape == (4,)


def test_several_outputs_that_read_each_other():
    b = te.compute((4, 3), lambda i, j: A[i, j] + 1, "b")
    c = te.compute((4,), lambda i: te.sum(b[i, K], axis=K), "c")
    x = np.arange(12, dtype=np.int32).reshape(4, 3)
    got = interpret(te.create_function([A], [c, b], "f"), {"a": x})
    np.testing.assert_array_equal(got["b"], x + 1)
    np.testing.assert_array_equal(got["c"], (x + 1).sum(1))


PAIR = te.reducer(lambda a, b: (a[0] + b[0], a[1] * b[1]), (0, 1), "pair")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda i: PAIR(A[i, K], axis=K), "te.pair: the value must be a tuple of 2 elements, got 1"),
        (lambda i: PAIR((A[i, K], 1, 2), axis=K), "te.pair: the value must be a tuple of 2 elements, got 3"),
        (lambda i: PAIR((A[i, K], A[i, K]), axis=K)[1],
         "te.compute c: a reduction must be returned with all of its 2 parts in order, got 1"),
        (lambda i: PAIR((A[i, K], A[i, K]), axis=K)[::-1],
         "te.compute c: a reduction must be returned with all of its 2 parts in order, got 1, 0"),
        (lambda i: (te.sum(A[i, K], axis=K), te.max(A[i, K], axis=K)),
         "te.compute c: a tuple must be one reduction or none, got parts of several"),
        (lambda i: (A[i, 0], A[i, K]),
         "te.compute c: a reduce axis must be used inside a reduction over it, got k outside of one"),
        (lambda i: (), "te.compute c: the value must be an element or a tuple of elements, got ()"),
    ],
)  # fmt: skip
def test_invalid_tuples_are_rejected(build, message):
    with pytest.raises(TeError) as error:
        te.compute((4,), build, "c")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("combine", "message"),
    [
        (lambda a, b: (a[0], b[1], b[1]), "te.odd: combine must return 2 elements, got 3"),
        (lambda a, b: (a[0] < b[0], b[1]), "te.odd: combine must keep the dtype int32, got bool"),
        (lambda a, b: a[0], "te.odd: combine must return 2 elements, got <Value c_0[vi]: int32>"),
        (lambda a, b: (a[0] + A[0, 0], b[1]), "te.odd: combine must use its arguments and constants only, got a"),
        (lambda a, b: (a[0] * te.var("n"), b[1]),
         "te.odd: combine must use its arguments and constants only, got n"),
    ],
)  # fmt: skip
def test_invalid_combinations_are_rejected(combine, message):
    odd = te.reducer(combine, (0, 0), "odd")
    parts = te.compute((4,), lambda i: odd((A[i, K], A[i, K]), axis=K), "c")
    with pytest.raises(TeError) as error:
        te.create_function([A], list(parts), "f")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (("x", "y", "z"), "te.compute x, y, z: there must be one name for each element, got 3 for 2"),
        (("x", "for"), "te.compute: the name must be a Python identifier, got 'for'"),
        ((), "te.compute: the names must be at least one, got ()"),
    ],
)
def test_invalid_names_are_rejected(name, message):
    with pytest.raises(TeError) as error:
        te.compute((4,), lambda i: (A[i, 0], A[i, 1]), name)
    assert str(error.value) == message


def test_annotations_go_to_the_block():
    notes = {"operator": "copy", "tile": (4, 8), "limit": None}
    fn = te.create_function([A], [te.compute((4, 3), lambda i, j: A[i, j], "b", annotations=notes)], "f")
    block = next(stmt for stmt in ir.walk(fn.body) if isinstance(stmt, ir.Block))
    assert block.annotations == notes
    assert "block b(vi=i, vj=j):  # operator=copy, tile=(4, 8), limit=None" in str(fn)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"a b": 1}, "te.compute b: the name of an annotation must be a Python identifier, got 'a b'"),
        ({"x": [1]}, "te.compute b: annotation x must be a number, a string, None or a tuple, got [1]"),
        ({"x": ({},)}, "te.compute b: annotation x must be a number, a string, None or a tuple, got ({},)"),
        ([1], "te.compute b: annotations must be a mapping, got [1]"),
        (
            {"intrinsic": "x"},
            "te.compute b: the name of an annotation must not be reserved, got intrinsic",
        ),
        ({"starts": 1}, "te.compute b: the name of an annotation must not be reserved, got starts"),
    ],
)
def test_invalid_annotations_are_rejected(annotations, message):
    with pytest.raises(TeError) as error:
        te.compute((4, 3), lambda i, j: A[i, j], "b", annotations=annotations)
    assert str(error.value) == message


@pytest.mark.parametrize("dtype", ["int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_gather_by_an_index_of_any_type(dtype):
    x, places = np.arange(10, 50, 10, dtype=np.float32), np.array([3, 0, 2], dtype)
    a, p = te.placeholder((4,), "float32", "a"), te.placeholder((3,), dtype, "p")
    fn = te.create_function([a, p], [te.compute((3,), lambda i: a[te.cast("int32", p[i])], "y")], "f")
    assert interpret(fn, {"a": x, "p": places})["y"].tolist() == [40, 10, 30]
    with pytest.raises(TeError, match="a: index 0 must be int32, got"):
        a[p[0]]


def test_the_predicate_of_a_select_guards_an_indirect_index():
    x, places = np.arange(4, dtype=np.int32), np.array([3, -1, 9], np.int32)
    a, p = te.placeholder((4,), "int32", "a"), te.placeholder((3,), "int32", "p")
    inside = te.compute((3,), lambda i: te.select((p[i] >= 0) & (p[i] < 4), a[p[i]], -7), "y")
    assert interpret(te.create_function([a, p], [inside], "f"), {"a": x, "p": places})["y"].tolist() == [3, -7, -7]

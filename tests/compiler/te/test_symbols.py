# SPDX-License-Identifier: Apache-2.0
"""Symbolic extents: functions with them, how calls bind them, errors."""

from functools import reduce

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.arith import SpecialiseError, specialise
from vdla.compiler.interpret import interpret
from vdla.compiler.te import TeError

N, M = te.var("n"), te.var("m")


def matmul():
    k_extent = te.var("k")
    a, b = te.placeholder((N, k_extent), "int32", "a"), te.placeholder((k_extent, M), "int32", "b")
    k = te.reduce_axis(k_extent, "r")
    c = te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    return te.create_function([a, b], [c], "matmul")


def test_extents_are_symbols_in_the_text():
    fn = matmul()
    assert fn.scalars == ("n", "k", "m")
    assert str(fn) == (
        "matmul(a: int32[n, k], b: int32[k, m], c: int32[n, m]):\n"
        "    for i in range(n):\n"
        "        for j in range(m):\n"
        "            for r in range(k):\n"
        "                block c(vi=i, vj=j, vr=reduce r):\n"
        "                    init:\n"
        "                        c[vi, vj] = 0\n"
        "                    c[vi, vj] = c[vi, vj] + a[vi, vr] * b[vr, vj]"
    )


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 5), (7, 1, 2)])
def test_one_function_runs_at_every_shape(shape):
    n, k, m = shape
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, s).astype(np.int32) for s in ((n, k), (k, m)))
    np.testing.assert_array_equal(interpret(matmul(), {"a": a, "b": b})["c"], a @ b)


def test_symbols_in_arithmetic_in_extents_and_elements():
    a = te.placeholder((N, 3), "int32", "a")
    padded = te.pad(a, (1, 0), (2, 0), 0)
    assert te.compute((N - N + 3,), lambda i: a[0, i], "row").shape == (3,)
    flat = te.compute((a.shape[0] * 3 + 2,), lambda i: te.select(i < N * 3, a[i // 3 % N, i % 3] + N, -1), "flat")
    fn = te.create_function([a], [padded, flat], "f")
    assert [str(buffer) for buffer in fn.scalars] == ["n"]
    assert "a_pad: int32[n + 3, 3], flat: int32[n * 3 + 2]" in str(fn)
    x = np.arange(12, dtype=np.int32).reshape(4, 3)
    got = interpret(fn, {"a": x})
    np.testing.assert_array_equal(got["a_pad"], np.pad(x, ((1, 2), (0, 0))))
    np.testing.assert_array_equal(got["flat"], [*(x.ravel() + 4), -1, -1])


def test_specialised_functions_equal_those_built_with_constants():
    k = te.reduce_axis(4, "r")
    a, b = te.placeholder((2, 4), "int32", "a"), te.placeholder((4, 3), "int32", "b")
    c = te.compute((2, 3), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "c")
    assert specialise(matmul(), {"n": 2, "k": 4, "m": 3}) == te.create_function([a, b], [c], "matmul")


def test_specialise_covers_lowered_statements():
    n = ir.Var("n")
    store = ir.Store("y", (ir.Var("i"),), ir.Binary("add", n, ir.Var("i")))
    body = ir.For("i", n, ir.If(ir.Binary("lt", ir.Var("i"), n), ir.Alloc(("t",), store)))
    buffers = {"y": ir.Buffer("y", (n,), "int32"), "t": ir.Buffer("t", (ir.Binary("sub", n, ir.Const(1)),), "int32")}
    fn = ir.Function("f", ("y",), buffers, body, ("n",))
    special = specialise(fn, {"n": 3})
    assert str(special) == (
        "f(y: int32[3]):\n"
        "    t: int32[2]\n"
        "    for i in range(3):\n"
        "        if i < 3:\n"
        "            with alloc(t):\n"
        "                y[i] = 3 + i"
    )
    assert interpret(special, {})["y"].tolist() == [3, 4, 5]


def sizes(**shapes):
    return {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: interpret(matmul(), sizes(a=(2, 3), b=(4, 5))),
         "matmul: k must be the same everywhere, got 3 in a and 4 in b"),
        (lambda: interpret(te.create_function([W], [te.compute((N,), lambda i: W[0], "y")], "f"), sizes(w=(4,))),
         "f: n must be a dimension of an array that is given, got none; call specialise(fn, {'n': ...}) first"),
        (lambda: interpret(matmul(), sizes(a=(2, 0), b=(0, 5))),
         "specialise matmul: k must be an integer from 1 to 2147483647, got 0"),
        (lambda: specialise(matmul(), {"n": 1, "k": 2}),
         "specialise matmul: values must be given for n, k, m, got n, k"),
        (lambda: specialise(matmul(), {"n": 1, "k": 2, "m": 0}),
         "specialise matmul: m must be an integer from 1 to 2147483647, got 0"),
        (lambda: specialise(shorter(), {"n": 1 << 31}),
         "specialise f: n must be an integer from 1 to 2147483647, got 2147483648"),
        (lambda: specialise(te.create_function([X, V], [te.compute((1,), lambda i: X[i], "y")], "f"), {"n": 1 << 30}),
         "specialise f: dimension 0 of x must be from 1 to 2147483647, got 2147483648"),
        (lambda: specialise(3, {"n": 3}), "specialise: fn must be a Function, as of schedule.fn, got int"),
        (lambda: specialise(shorter(), 3), "specialise f: values must be a mapping of symbols to numbers, got 3"),
        (lambda: specialise(shorter(), {"n": 3}), "specialise f: dimension 0 of y must be from 1 to 2147483647, got 0"),
    ],
)  # fmt: skip
def test_invalid_values_are_rejected(run, message):
    with pytest.raises(SpecialiseError) as error:
        run()
    assert str(error.value) == message


def shorter():
    x = te.placeholder((N,), "int32", "x")
    return te.create_function([x], [te.compute((N - 3,), lambda i: x[i + 3], "y")], "f")


X = te.placeholder((N * 2,), "int32", "x")
V = te.placeholder((N,), "int32", "v")
W = te.placeholder((4,), "int32", "w")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: te.var("if"), "te.var: the name must be a Python identifier, got 'if'"),
        (lambda: te.create_function([X], [te.compute((N * 2,), lambda i: X[i], "y")], "f"),
         "te.create_function f: symbol n must be a whole dimension of an input or output, got none"),
        (lambda: te.create_function([W], [te.compute((te.var("vi"),), lambda i: W[i], "y")], "f"),
         "te.create_function f: symbol vi must have a unique name, got a tensor or block axis of that name"),
        (lambda: te.create_function([W], [te.compute((te.var("w"),), lambda i: W[i], "y")], "f"),
         "te.create_function f: symbol w must have a unique name, got a tensor or block axis of that name"),
        (lambda: te.compute((W[0],), lambda i: W[i], "y"),
         "te.compute y: extent 0 of the shape must consist of integers and te.var, got w[0]"),
        (lambda: te.reduce_axis(te.abs(N), "k"),
         "te.reduce_axis k: the extent must be made with add, sub, mul, floordiv, mod, min, max, got abs(n)"),
        (lambda: te.reduce_axis(reduce(lambda e, _: e // 2 + e % 3, range(60), N), "k"),
         "te.reduce_axis k: the extent must have at most 65536 operations, got 6917529027641081851"),
        (lambda: te.compute((te.cast("int64", N),), lambda i: W[i], "y"),
         "te.compute y: extent 0 of the shape must be int32, got int64"),
        (lambda: te.compute((2,), lambda i: te.sum(W[i], axis=te.reduce_axis(i, "k")), "y"),
         "te.reduce_axis k: the extent must consist of integers and te.var, got vi"),
    ],
)  # fmt: skip
def test_invalid_symbols_are_rejected(build, message):
    with pytest.raises(TeError) as error:
        build()
    assert str(error.value) == message


def test_a_symbol_of_an_output_alone_needs_specialise():
    fn = te.create_function([W], [te.compute((N,), lambda i: i + W[0], "y")], "f")
    assert interpret(specialise(fn, {"n": 3}), {"w": np.ones(4, np.int32)})["y"].tolist() == [1, 2, 3]

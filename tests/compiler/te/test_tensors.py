# SPDX-License-Identifier: Apache-2.0
"""The tensor-expression language: the functions it builds and its errors."""

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.te import TeError


def run(outputs, **arrays):
    tensors = [te.placeholder(a.shape, str(a.dtype), name) for name, a in arrays.items()]
    result = outputs(*tensors)
    return interpret(te.create_function(tensors, [result], "f"), arrays)[result.name]


def test_matmul_prints_as_python():
    a, b = te.placeholder((4, 3), "int8", "a"), te.placeholder((2, 3), "int8", "b")
    k = te.reduce_axis(3, "k")

    def product(i, j):
        return te.sum(te.cast("int32", a[i, k]) * te.cast("int32", b[j, k]), axis=k)

    fn = te.create_function([a, b], [te.compute((4, 2), product, "c")], "matmul")
    assert str(fn) == (
        "matmul(a: int8[4, 3], b: int8[2, 3], c: int32[4, 2]):\n"
        "    for i in range(4):\n"
        "        for j in range(2):\n"
        "            for k in range(3):\n"
        "                block c(vi=i, vj=j, vk=reduce k):\n"
        "                    init:\n"
        "                        c[vi, vj] = 0\n"
        "                    c[vi, vj] = c[vi, vj] + int32(a[vi, vk]) * int32(b[vj, vk])"
    )


def test_stages_follow_dependence_order_with_unique_loop_names():
    a = te.placeholder((4,), "int32", "a")
    b = te.compute((4,), lambda i: a[i] + 1, "b")
    c = te.compute((4,), lambda i: a[i] * 2, "c")
    d = te.compute((4,), lambda i: c[i] - b[i], "d")
    text = str(te.create_function([a], [d], "f"))
    assert [line.strip() for line in text.splitlines() if "for" in line] == [
        "for i in range(4):",
        "for b_i in range(4):",
        "for d_i in range(4):",
    ]
    assert text.index("block c") < text.index("block b") < text.index("block d")


@pytest.mark.parametrize(
    ("reduction", "model"), [(te.sum, np.sum), (te.max, np.max), (te.min, np.min)], ids=["sum", "max", "min"]
)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "float32"])
def test_reductions_equal_numpy(reduction, model, dtype):
    x = np.random.default_rng(1).integers(0, 100, (5, 7)).astype(dtype)
    k = te.reduce_axis(7, "k")
    got = run(lambda x: te.compute((5,), lambda i: reduction(x[i, k], axis=k), "y"), x=x)
    expected = model(x, axis=1, **({"dtype": dtype} if model is np.sum else {}))
    np.testing.assert_array_equal(got, expected)


def test_a_user_defined_reducer_reduces_elements():
    product = te.reducer(lambda x, y: x * y, 1, "product")
    x = np.arange(1, 7, dtype=np.int32).reshape(2, 3)
    k = te.reduce_axis(3, "k")
    got = run(lambda x: te.compute((2,), lambda i: product(x[i, k], axis=k), "y"), x=x)
    np.testing.assert_array_equal(got, [6, 120])


def test_pad_equals_numpy():
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    got = run(lambda x: te.pad(x, (1, 0), (0, 2), 7), x=x)
    np.testing.assert_array_equal(got, np.pad(x, ((1, 0), (0, 2)), constant_values=7))


def test_floor_division_and_remainder_match_python():
    x = np.array([-7, -1, 0, 5], np.int32)
    got = run(lambda x: te.compute((4,), lambda i: x[i] // 3 * 100 + x[i] % 3, "y"), x=x)
    np.testing.assert_array_equal(got, x // 3 * 100 + x % 3)


def test_select_evaluates_only_the_selected_operand():
    x = np.arange(4, dtype=np.int32)
    got = run(lambda x: te.compute((6,), lambda i: te.select((i >= 1) & (i < 5), x[i - 1], -1), "y"), x=x)
    np.testing.assert_array_equal(got, [-1, 0, 1, 2, 3, -1])


def test_operations_with_an_identity_are_folded():
    a = te.placeholder((4,), "int32", "a")
    fn = te.create_function([a], [te.compute((4,), lambda i: a[i * 1 + 0] - 0, "b")], "f")
    assert "b[vi] = a[vi]" in str(fn)


A = te.placeholder((4, 3), "int8", "a")
W = te.placeholder((4,), "int32", "w")
K = te.reduce_axis(3, "k")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: A[0], "a: the number of indices must be its rank 2, got 1"),
        (lambda: list(A), "a: a tensor must be indexed, got a loop over it"),
        (lambda: A[0, 3], "a: index 1 must satisfy 0 <= index < 3, got 3"),
        (lambda: A[A[0, 0], 0], 'a: index 0 must be int32, got int8; write te.cast("int32", ...)'),
        (
            lambda: A[0, 0] + W[0],
            "te: operator +: both sides must have one dtype, got int8 and int32; "
            'write te.cast("int8", ...) or te.cast("int32", ...) on one side',
        ),
        (lambda: A[0, 0] + 128, "te.const: a value of type int8 must be in -128..127, got 128"),
        (lambda: W[0] * 1.5, "te.const: a value of type int32 must be an integer, got 1.5"),
        (lambda: W[0] / 2, "te: operator /: operands must be floats, got int32; write // for floor division"),
        (lambda: (W[0] < 1) + (W[1] < 1),
         'te: operator +: operands must be numbers, got bool; write te.cast("int32", ...)'),
        (lambda: te.cast("float32", W[0]) % 2, "te: operator %: operands must be integers, got float32"),
        (lambda: te.cast("int7", W[0]),
         "te.cast: the dtype must be one of int2, int4, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
         "float16, bfloat16, float32, float64, bool, got int7"),
        (lambda: te.select(W[0], 1, 2), "te.select: the condition must be bool, got int32"),
        (lambda: bool(W[0] < 1),
         "te: a condition on elements must not be used as a Python truth value; write &, |, te.select"),
        (lambda: te.sum(A[0, K], axis=K) + 1,
         "te: operator +: a reduction must be the whole value of a te.compute, got te.sum inside an expression"),
        (lambda: te.sum(A[0, K], axis=[]), "te.sum: axis must name at least one reduce axis, got none"),
        (lambda: te.sum(A[0, K], axis=[K, K]), "te.sum: reduce axes must have different names, got k, k"),
        (lambda: te.compute((4,), lambda i: A[i, K], "c"),
         "te.compute c: a reduce axis must be used inside a reduction over it, got k outside of one"),
        (lambda: te.compute((4,), lambda k: te.sum(A[k, K], axis=K), "c"),
         "te.compute c: its axes must have different names, got k twice"),
        (lambda: te.compute((4, 3), lambda i: A[i, 0], "c"),
         "te.compute c: the function must take one index for each of 2 dimensions, got 1"),
        (lambda: te.compute((4,), lambda i: 0, "c"),
         "te.compute c: the value must have a dtype, got the number 0; write te.const(0, dtype)"),
        (lambda: te.compute((4,), lambda i: W, "c"),
         "te.compute c: an operand must be an element, got the tensor w; write w[...]"),
        (lambda: te.compute((0,), lambda i: W[i], "c"),
         "te.compute c: extent 0 of the shape must be a positive integer, got 0"),
        (lambda: te.compute(4, lambda i: W[i], "c"),
         "te.compute c: the shape must be a sequence of at least one extent, got 4"),
        (lambda: te.reduce_axis(-1, "k"), "te.reduce_axis k: the extent must be a positive integer, got -1"),
        (lambda: te.placeholder((1,), "int8", "for"),
         "te.placeholder: the name must be a Python identifier, got 'for'"),
        (lambda: te.pad(A, (1,), (0, 0), 0), "te.pad a: padding must be 2 integers >= 0, got [1]"),
        (lambda: te.call("gamma", W[0]),
         "te.call: the function must be one of exp, log, sqrt, rsqrt, tanh, sigmoid, erf, sin, cos, pow, divide, "
         "floor, ceil, round, trunc, round_product, abs, popcount, isnan, got gamma"),
        (lambda: te.call("pow", W[0]), "te.call pow: the number of arguments must be 2, got 1"),
        (lambda: te.exp(W[0]), 'te.call exp: the operand must be a float, got int32; write te.cast("float32", ...)'),
        (lambda: ~te.cast("float32", W[0]),
         "te: operator ~: the operand must be bool or an integer, got float32"),
        (lambda: te.reducer(3, 0), "te.reducer reducer: combine must be a function of two values, got 3"),
        (lambda: te.reducer(lambda x: x, 0, "r"),
         "te.reducer r: combine must be a function of two values, got one of 1"),
        (lambda: te.reducer(lambda x, y: x, lambda: 0, "r"),
         "te.reducer r: identity must be a number or a function of a dtype, got one of 0"),
        (lambda: te.argmax(W[K] > 0, axis=K),
         'te.argmax: the value must be a number, got bool; write te.cast("int32", ...)'),
        (lambda: te.all_of(W[0]), "te.all_of: the condition must be bool, got int32"),
        (lambda: te.pad(3, (1,), (1,), 0), "te.pad: the operand must be a tensor, got 3"),
        (lambda: te.compute((4,), max, "c"),
         "te.compute c: the body must be a function of the indices, got <built-in function max>"),
        (lambda: te.compute((4,), lambda i, *, key: W[i], "c"),
         "te.compute c: the body must be a function of the indices, got one that needs the keyword key"),
        (lambda: te.compute((4,), lambda i: np.float32(1), "c"),
         "te.compute c: the value must have a dtype, got the number 1.0; write te.const(1.0, dtype)"),
        (lambda: te.compute((4,), lambda i: [W[i]], "c"),
         "te.compute c: the value must be an element, got [<Value w[vi]: int32>]"),
        (lambda: te.placeholder((1,) * 33, "int8", "x"),
         "te.placeholder x: the shape must be of at most 32 extents, got 33"),
        (lambda: te.compute((4,), lambda i: te.sum(W[i], axis=[te.reduce_axis(1, f"k{n}") for n in range(32)]), "c"),
         "te.compute c: it must have at most 32 axes, got 33"),
        (lambda: te.popcount(te.cast("int4", W[0])),
         "te.call popcount: the operand must be an integer of whole bytes, got int4"),
        (lambda: te.abs(W[0] < 1), "te.call abs: the operand must be a number, got bool"),
        (lambda: te.pow(te.cast("float32", W[0]), te.cast("float64", W[0])),
         'te.call pow: both sides must have one dtype, got float32 and float64; '
         'write te.cast("float32", ...) or te.cast("float64", ...) on one side'),
    ],
)  # fmt: skip
def test_invalid_expressions_are_refused(build, message):
    with pytest.raises(TeError) as error:
        build()
    assert str(error.value) == message


def doubled(name="c", source=W):
    return te.compute((4,), lambda i: source[i] * 2, name)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([], [doubled()], "te.create_function f: inputs must include every placeholder that is read, got none named w"),
        ([doubled()], [W], "te.create_function f: every input must be a placeholder, got the computed c"),
        ([W], [W], "te.create_function f: every output must be computed, got the placeholder w"),
        ([W], [], "te.create_function f: outputs must name at least one tensor, got none"),
        (W, [doubled()], "te.create_function f: inputs must be a list of tensors, got <Tensor w>"),
        ([W], [doubled("w")], "te.create_function f: tensors must have different names, got w twice"),
    ],
)
def test_invalid_function_arguments_are_refused(inputs, outputs, message):
    with pytest.raises(TeError) as error:
        te.create_function(inputs, outputs, "f")
    assert str(error.value) == message


def test_an_index_of_another_stage_is_rejected():
    kept = []
    te.compute((4,), lambda i: kept.append(i) or W[i], "first")
    second = te.compute((3,), lambda j: W[kept[0]] + j, "second")
    with pytest.raises(TeError) as error:
        te.create_function([W], [second], "f")
    message = "te.compute second: its elements must use its own indices, got vi of another stage"
    assert str(error.value) == message


def test_messages_abbreviate_large_expressions():
    stage = W
    for number in range(2000):
        stage = te.compute((4,), lambda i, last=stage: last[i] + 1, f"t{number}")
    long = W[0]
    for _ in range(40):
        long = long * long
    shown = [stage, stage.stage, stage[0] * 2, long, K, te.scan(2, lambda t, s: doubled("s", s), W).stage]
    assert list(map(repr, shown)) == [
        "<Tensor t1999>", "<Stage t1999>", "<Value t1999[0] * 2: int32>", "<Value ...: int32>", "<ReduceAxis k>",
        "<Scan over t>",
    ]  # fmt: skip


def test_annotations_print_on_one_line():
    noted = te.compute((4,), lambda i: W[i], "c", {"note": "one\ntwo", "plain": "x y"})
    assert r"block c(vi=i):  # note='one\ntwo', plain=x y" in str(te.create_function([W], [noted], "f"))


def test_with_axes_names_the_axes_of_a_function_of_any_number_of_indices():
    x = te.placeholder((2, 3), "int32", "x")
    y = te.compute((2, 3), te.with_axes(["row", "column"], lambda *i: x[i]), "y")
    assert y.stage.axes == ("row", "column")
    with pytest.raises(TeError, match="the function must take one index for each of 2 dimensions, got 1"):
        te.compute((2, 3), te.with_axes(["row"], lambda *i: x[i]), "z")

# SPDX-License-Identifier: Apache-2.0
"""Matrix products against NumPy, for several CPUs and as machine code."""

import numpy as np
import pytest
from helpers.run_operator import floats, function_of, integers, run

from vdla.compiler import ir, operators, te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import OperatorError, dense, matmul, pack_dense
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build

SHAPES = {
    "square": ((32, 32), (32, 32)),
    "odd": ((33, 17), (17, 45)),
    "one_row": ((1, 40), (40, 70)),
    "one_column": ((20, 9), (9, 1)),
    "one_term": ((5, 1), (1, 6)),
    "batch": ((3, 18, 7), (3, 7, 35)),
    "broadcast": ((2, 1, 9, 8), (3, 8, 18)),
    "shared": ((2, 24, 8), (8, 40)),
}


def operands(name):
    one, other = SHAPES[name]
    return integers(one, "float32", 1, -5, 5), integers(other, "float32", 2, -5, 5)


@pytest.mark.parametrize("name", SHAPES)
def test_matmul_equals_numpy(name):
    a, b = operands(name)
    np.testing.assert_array_equal(run(matmul, a, b), a @ b)


@pytest.mark.parametrize("name", SHAPES)
def test_scheduled_matmul_equals_numpy(name):
    a, b = operands(name)
    fn, (output,) = function_of(matmul, a, b)
    for target in ("x86-64-avx512", "x86-64-avx2", "cortex-a9"):
        scheduled = default_schedule(fn, target).fn
        np.testing.assert_array_equal(interpret(scheduled, {"a": a, "b": b})[output.name], a @ b)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(a, b), a @ b)


def test_a_panel_is_packed_where_many_rows_read_it():
    fn, _ = function_of(matmul, floats((96, 40)), floats((40, 192)))
    schedule = default_schedule(fn, "x86-64-avx512")
    assert "b_heap" in schedule.fn.buffers
    few, _ = function_of(matmul, floats((4, 40)), floats((40, 192)))
    assert "b_heap" not in default_schedule(few, "x86-64-avx512").fn.buffers


def test_element_wise_stages_fuse_with_matmul_tiles():
    a, b, bias = integers((24, 9), "float32", 1), integers((9, 40), "float32", 2), integers(40, "float32", 3)
    fn, _ = function_of(lambda x, y, z: operators.relu(matmul(x, y, z)), a, b, bias)
    schedule = default_schedule(fn, "host")
    blocks = [s.name for s in ir.walk(schedule.fn.body) if isinstance(s, ir.Block) and "heap" not in s.name]
    assert len(blocks) == 2
    np.testing.assert_array_equal(build(schedule.fn)(a, b, bias), np.maximum(a @ b + bias, 0))


@pytest.mark.parametrize("features", [16, 37])
def test_dense_with_plain_and_packed_weights_equals_numpy(features):
    x, weight = integers((5, 12), "float32", 1, -5, 5), integers((features, 12), "float32", 2, -5, 5)
    bias = integers(features, "float32", 3)
    expected = x @ weight.T + bias
    np.testing.assert_array_equal(run(dense, x, weight, bias), expected)
    weights = pack_dense(weight)
    fn, (output,) = function_of(lambda a, w, c: dense(a, w, c, features, f"OI{weights.shape[-1]}o"), x, weights, bias)
    np.testing.assert_array_equal(interpret(fn, {"a": x, "b": weights, "c": bias})[output.name], expected)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(x, weights, bias), expected)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_matmul_computes_in_other_dtypes(dtype):
    a, b = (array.astype(dtype) for array in operands("odd"))
    fn, _ = function_of(matmul, a, b)
    expected = (a.astype(float) @ b.astype(float)).astype(dtype)
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(a, b), expected)


X, W = te.placeholder((4, 5), "float32", "x"), te.placeholder((6, 4), "float32", "w")
V, B = te.placeholder((2, 3, 5), "float32", "v"), te.placeholder((3,), "float32", "b")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: matmul(X, W), "matmul: both operands must have the same K, got 5 and 6"),
        (lambda: matmul(W, X, B), "matmul: bias must be of shape [5], got [3]"),
        (
            lambda: matmul(te.placeholder((3, 1, 3), "float32", "u"), V),
            "matmul of batches: shapes must broadcast to one another, got [3] and [2]",
        ),
        (lambda: dense(X, W), "dense: both operands must have the same K, got 5 and 4"),
        (
            lambda: dense(X, te.placeholder((2, 5, 8), "float32", "p"), None, 17, "OI8o"),
            "dense: out_features must be at most 16, those of weight, got 17",
        ),
        (lambda: dense(X, V), "dense: weight must have 2 dimensions in layout OI, got 3"),
        (lambda: dense(X, V, weight_layout="OI4o"), "dense: weight must have 4 lanes in layout OI4o, got 5"),
        (lambda: dense(X, V, weight_layout="IO"), "dense: weight_layout must be OI or OI<lanes>o, got 'IO'"),
        (lambda: pack_dense(np.zeros(3)), "pack_dense: weight must be an array [N, K] of numbers, got float64[3]"),
        (lambda: matmul(5, X), "matmul: a must be a te.Tensor, got 5"),
        (lambda: dense(5, X), "dense: x must be a te.Tensor, got 5"),
    ],
)
def test_invalid_matmul_arguments_are_refused(call, message):
    with pytest.raises(OperatorError) as failure:
        call()
    assert str(failure.value) == message

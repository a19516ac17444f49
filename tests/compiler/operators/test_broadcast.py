# SPDX-License-Identifier: Apache-2.0
"""Element-wise operators on several tensors, against NumPy's broadcasting."""

import numpy as np
import pytest
from helpers.run_operator import floats, integers, run

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.operators import OperatorError

SHAPES = [((4,), (4,)), ((3, 4), (4,)), ((3, 4), (3, 1)), ((2, 1, 4), (3, 1)), ((1,), (2, 3)), ((5, 1), (1, 6))]
NUMBERS = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "equal": np.equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", NUMBERS)
def test_shapes_broadcast_as_in_numpy(name, shapes):
    a, b = integers(shapes[0], "int8", 1, -128, 127), integers(shapes[1], "int8", 2, -128, 127)
    got = run(lambda x, y: getattr(ops, name)(x, y), a, b)
    np.testing.assert_array_equal(got, NUMBERS[name](a, b))
    assert got.dtype == NUMBERS[name](a, b).dtype


@pytest.mark.parametrize("name", NUMBERS)
def test_binary_operators_propagate_nan_as_numpy(name):
    a, b = floats((3, 5), seed=1), floats((5,), seed=2)
    a[1, 2], b[3] = np.nan, a[0, 3]
    np.testing.assert_array_equal(run(lambda x, y: getattr(ops, name)(x, y), a, b), NUMBERS[name](a, b))


def test_integer_division_truncates():
    a, b = floats((4, 5), seed=1), floats((5,), seed=2, low=1)
    np.testing.assert_array_equal(run(ops.divide, a, b), a / b)
    x, y = np.meshgrid(np.arange(-7, 8, dtype=np.int32), np.array([-3, -1, 2, 5], np.int32))
    np.testing.assert_array_equal(run(ops.divide, x, y), np.trunc(x / y).astype(np.int32))
    np.testing.assert_array_equal(run(ops.remainder, x, y), x % y)


def test_powers_equal_numpy():
    a, b = floats((4, 5), seed=1, low=0.1), floats((5,), seed=2)
    np.testing.assert_allclose(run(ops.power, a, b), a.astype(float) ** b, rtol=1e-5)


def test_logical_operators_and_where_equal_numpy():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal(run(ops.logical_and, a, b), a & b)
    np.testing.assert_array_equal(run(ops.logical_or, a, b), a | b)
    np.testing.assert_array_equal(run(ops.logical_xor, a, b), a ^ b)
    x, y = floats((3, 4), seed=1), floats((1,), seed=2)
    np.testing.assert_array_equal(run(ops.where, a, x, y), np.where(a, x, y))


def test_prelu_and_broadcast_to_equal_numpy():
    x, slope = floats((2, 3, 4)), floats((3, 1), seed=3)
    np.testing.assert_array_equal(run(ops.prelu, x, slope), np.where(x < 0, x * slope, x))
    row = integers((3, 1))
    np.testing.assert_array_equal(run(lambda t: ops.broadcast_to(t, (2, 1, 5)), row), np.broadcast_to(row, (2, 3, 5)))


A, B = te.placeholder((3, 4), "int32", "a"), te.placeholder((5,), "int32", "b")
F, M = te.placeholder((4,), "float32", "f"), te.placeholder((4,), "bool", "m")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ops.add(A, B), "add: shapes must broadcast to one another, got [3, 4] and [5]"),
        (lambda: ops.add(A, F), "add: all operands must have one dtype, got int32, float32"),
        (lambda: ops.add(M, M), "add: a must be of a number dtype, got bool"),
        (lambda: ops.remainder(F, F), "remainder: a must be of an integer dtype, got float32"),
        (lambda: ops.logical_and(A, A), "logical_and: operands must be of dtype bool, got int32"),
        (lambda: ops.where(A, F, F), "where: condition must be of dtype bool, got int32"),
        (lambda: ops.add(A, 1), "add: every operand must be a te.Tensor, got 1"),
        (lambda: ops.broadcast_to(A, 5), "broadcast_to: shape must be a sequence, got 5"),
        (lambda: ops.broadcast_to(A, (3, -4)), "broadcast_to: every extent must be at least 1, got -4"),
        (lambda: ops.broadcast_to(A, (3, "n")), "broadcast_to: every extent must be an integer, got 'n'"),
        (lambda: ops.broadcast_to(A, (7,)), "broadcast_to: shapes must broadcast to one another, got [3, 4] and [7]"),
    ],
)
def test_invalid_broadcast_arguments_are_refused(build, message):
    with pytest.raises(OperatorError) as error:
        build()
    assert str(error.value) == message

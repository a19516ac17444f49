# SPDX-License-Identifier: Apache-2.0
"""Index arithmetic compiled to Python functions, and the expressions it rejects."""

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.arith import INT32, exact_function, index_function
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule
from vdla.runtime.native import build

I = ir.Var("i")  # noqa: E741  as in the loops
RANGES = {"i": (0, 7)}
INF, NAN = float("inf"), float("nan")


def op(name, a, b):
    return ir.Binary(name, a, b if not isinstance(b, int) else ir.Const(b))


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (op("shl", I, 3), 40), (op("shr", I, 1), 2), (op("mod", I, 3), 2), (op("max", I, 6), 6),
        (op("and", op("lt", I, 6), op("ne", I, 2)), True), (op("mul", I, (1 << 31) // 8), 5 << 28),
    ],
)  # fmt: skip
def test_compiled_indices_accept_ints_and_arrays(expr, value):
    assert exact_function(expr, RANGES)({"i": 5}) == value
    assert exact_function(expr, RANGES)({"i": np.array([5, 5])}).tolist() == [value, value]


@pytest.mark.parametrize(
    "expr",
    [
        op("mod", I, -3), op("floordiv", I, 0), op("mod", ir.Const(7), I), op("shl", I, -1), op("shr", ir.Const(1), I),
        op("lt", ir.Const(INF, "float32"), ir.Const(0.5, "float32")),
        op("add", ir.Const(9, "int8"), ir.Const(1, "int8")), ir.Load("x", (I,)), ir.Cast("int8", I),
    ],
)  # fmt: skip
def test_operations_that_differ_in_python_are_rejected(expr):
    assert index_function(expr) is None


def test_arithmetic_that_may_wrap_is_rejected():
    assert exact_function(op("mul", I, 1 << 29), RANGES) is None
    assert exact_function(op("floordiv", op("mul", I, 1 << 29), 1 << 29), RANGES) is None
    assert exact_function(op("add", I, 1), {}) is None
    assert exact_function(op("sub", I, 7), {"i": (INT32[0] + 7, 7)}) is not None


@pytest.mark.parametrize("extent", [5, 20])  # one by one, and all at once
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (lambda i: te.const(INF, "float32") > 1.0 * te.const(1, "float32"), lambda i: True),
        (lambda i: te.const(NAN, "float32") == te.const(NAN, "float32"), lambda i: False),
        (lambda i: te.const(100, "int8") + te.const(100, "int8") < 0, lambda i: True),
        (lambda i: te.const(0.1, "float32") + te.const(0.2, "float32") == np.float32(0.1) + np.float32(0.2),
         lambda i: True),
        (lambda i: i * 2000000000 > 0, lambda i: (i * 2000000000 + (1 << 31)) % (1 << 32) > 1 << 31),
        (lambda i: (i > 2) == (i < 4), lambda i: i == 3),
    ],
)  # fmt: skip
def test_conditions_agree_in_scalar_batched_and_native_execution(condition, holds, extent):
    fn = te.create_function([], [te.compute((extent,), lambda i: te.select(condition(i), i + 1, -i), "y")], "f")
    expected = [i + 1 if holds(i) else -i for i in range(extent)]
    assert interpret(fn, {})["y"].tolist() == expected
    assert build(fn)().tolist() == expected


@pytest.mark.parametrize("index", [lambda i: i >> 1, lambda i: (i << 1) % 16, lambda i: (i >> 2) * 4 + i % 4])
def test_shifted_indices_vectorize_correctly(index):
    x = te.placeholder((16,), "float32", "x")
    s = Schedule(te.create_function([x], [te.compute((16,), lambda i: x[index(i)], "y")], "f"))
    s.vectorize("i")
    array = np.arange(16, dtype=np.float32)
    expected = array[[index(i) for i in range(16)]]
    np.testing.assert_array_equal(interpret(s.fn, {"x": array})["y"], expected)
    np.testing.assert_array_equal(build(s.fn)(array), expected)

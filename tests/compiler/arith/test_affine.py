# SPDX-License-Identifier: Apache-2.0
"""Linear forms, bounds and simplification against evaluation at every point."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdla.compiler import ir
from vdla.compiler.arith import AffineError, affine, bounds, conjuncts, evaluate, linear, simplify
from vdla.compiler.ir import expr_text

RANGES = {"a": (0, 3), "b": (0, 5), "c": (-2, 2)}
GRID = product(*(range(low, high + 1) for low, high in RANGES.values()))
POINTS = [dict(zip(RANGES, point, strict=True)) for point in GRID]
LEAVES = st.one_of(st.sampled_from([ir.Var(name) for name in RANGES]), st.integers(-3, 9).map(ir.Const))


def combined(inner):
    constants, divisors = st.integers(-3, 6).map(ir.Const), st.integers(-2, 7).map(ir.Const)
    return st.one_of(
        st.builds(ir.Binary, st.sampled_from(["add", "sub", "min", "max"]), inner, inner),
        st.builds(ir.Binary, st.just("mul"), inner, constants),
        st.builds(ir.Binary, st.sampled_from(["floordiv", "mod"]), inner, st.one_of(divisors, inner)),
    )


EXPRESSIONS = st.recursive(LEAVES, combined, max_leaves=8)
COMPARISONS = st.builds(ir.Binary, st.sampled_from(ir.COMPARE_OPS), EXPRESSIONS, st.integers(-5, 20).map(ir.Const))
CONDITIONS = st.one_of(
    COMPARISONS, st.builds(ir.Binary, st.sampled_from(["and", "or", "xor"]), COMPARISONS, COMPARISONS)
)


@given(st.one_of(EXPRESSIONS, CONDITIONS))
def test_simplify_and_bounds_hold_at_every_point(expr):
    simple, (low, high) = simplify(expr, RANGES), bounds(expr, RANGES)
    for point in POINTS:
        value = evaluate(expr, point)
        assert evaluate(simple, point) == value
        assert low <= value <= high


def v(name):
    return ir.Var(name)


def op(name, a, b):
    return ir.Binary(name, a, b if not isinstance(b, int) else ir.Const(b))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (op("floordiv", op("add", op("mul", v("a"), 6), v("b")), 6), "a"),
        (op("mod", op("add", op("mul", v("a"), 6), v("b")), 6), "b"),
        (op("add", op("mul", op("floordiv", v("f"), 4), 4), op("mod", v("f"), 4)), "f"),
        (op("eq", op("add", op("mul", v("a"), 6), v("b")), 17), "a == 2 and b == 5"),
        (op("eq", op("mul", v("a"), 3), 7), "False"),
        (op("lt", op("add", v("a"), v("b")), 9), "True"),
        (op("and", op("lt", v("a"), 9), op("lt", v("b"), 2)), "b < 2"),
        (op("max", op("add", v("a"), 1), 0), "a + 1"),
        (op("sub", op("add", v("a"), 3), v("a")), "3"),
    ],
)
def test_expressions_simplify_within_their_ranges(expr, text):
    assert expr_text(simplify(expr, RANGES)) == text


def test_affine_gives_coefficients_and_a_constant_or_none():
    assert affine(op("sub", op("add", op("mul", v("a"), 3), 4), v("b"))) == ({"a": 3, "b": -1}, 4)
    assert affine(op("floordiv", v("a"), 2)) is None
    assert affine(op("sub", v("a"), v("a"))) == ({}, 0)


def test_terms_of_a_linear_form_keep_their_order():
    assert expr_text(linear(op("sub", op("add", v("b"), op("mul", v("a"), 2)), 3)).expr()) == "b + a * 2 - 3"


def test_an_absent_condition_has_no_conjuncts():
    assert conjuncts(None) == []


def test_evaluate_needs_every_variable():
    with pytest.raises(AffineError) as error:
        evaluate(v("z"), {})
    assert str(error.value) == "evaluate: an index must be arithmetic on known variables, got z"


def test_evaluate_accepts_ints_and_arrays():
    expr = op("add", op("shl", v("x"), ir.Const(1)), op("min", v("y"), ir.Const(3)))
    assert evaluate(expr, {"x": 5, "y": 7}) == 13
    assert evaluate(expr, {"x": np.arange(3)}, default=2).tolist() == [2, 4, 6]


def test_evaluate_rejects_narrowing_casts():
    with pytest.raises(AffineError) as error:
        evaluate(ir.Cast("int8", v("x")), {"x": 300})
    assert str(error.value) == "evaluate: an index must be arithmetic on known variables, got int8(x)"


def test_float_constants_are_opaque_terms():
    infinite, half = ir.Const(float("inf"), "float32"), ir.Const(0.5, "float32")
    assert linear(op("add", infinite, half)).terms == {infinite: 1, half: 1}
    assert bounds(half, {}) == bounds(v("z"), {})


def test_equality_of_conditions_is_not_simplified_away():
    expr = op("eq", op("gt", v("a"), 2), op("lt", v("b"), 4))
    assert expr_text(simplify(expr, RANGES)) == "(a > 2) == (b < 4)"
    assert expr_text(simplify(op("ne", op("lt", v("a"), 9), op("lt", v("b"), 4)), RANGES)) == "True != (b < 4)"

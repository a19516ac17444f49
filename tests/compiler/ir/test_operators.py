# SPDX-License-Identifier: Apache-2.0
"""The table of operators against Python, NumPy, the code generator and the ABI."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from vdla.compiler import ir
from vdla.compiler.abi.signature import EXTENT_OPERATORS
from vdla.compiler.arith import evaluate
from vdla.compiler.codegen.llvm.arithmetic import EMITTERS

NUMBERS = (-9, -2, -1, 0, 1, 3, 7)
A, B = ir.Var("a"), ir.Var("b")


def pairs(op: str) -> list[tuple[int, int]]:
    amounts = (0, 1, 3) if op in ("shl", "shr") else NUMBERS
    return list(product(NUMBERS, amounts))


@pytest.mark.parametrize("op", ir.OPERATORS)
def test_operators_agree_on_ints_and_arrays(op: str) -> None:
    expr, (left, right) = ir.Binary(op, A, B), np.array(pairs(op)).T
    one_by_one = [evaluate(expr, {"a": a, "b": b}) for a, b in pairs(op)]
    assert evaluate(expr, {"a": left, "b": right}).tolist() == one_by_one


@pytest.mark.parametrize("op", [op for op, entry in ir.OPERATORS.items() if entry.symbol is not None])
def test_the_symbol_means_the_same_in_python(op: str) -> None:
    text, entry = ir.expr_text(ir.Binary(op, A, B)), ir.OPERATORS[op]
    for a, b in pairs(op):
        if b or op not in ("floordiv", "mod"):
            assert eval(text, {"a": a, "b": b}) == entry.on_ints(a, b)


def nestings() -> list[tuple[str, str]]:
    """The pairs of operators that print with symbols of Python: conditions print `and` and `or`."""
    pairs = product(ir.OPERATORS, repeat=2)
    return [(outer, inner) for outer, inner in pairs if outer not in ir.LOGIC_OPS or not is_condition(inner)]


def is_condition(op: str) -> bool:
    return ir.is_condition(ir.Binary(op, A, B))


@pytest.mark.parametrize(("outer", "inner"), nestings())
def test_the_printed_precedence_is_that_of_python(outer: str, inner: str) -> None:
    names = {"a": 5, "b": 3, "min": min, "max": max}
    compared = 0
    for expr in (ir.Binary(outer, ir.Binary(inner, A, B), B), ir.Binary(outer, A, ir.Binary(inner, A, B))):
        if outer in ("floordiv", "mod", "shl", "shr") and not 0 < evaluate(expr.b, names) < 64:
            continue  # Python raises, where the toolkit defines a result
        assert eval(ir.expr_text(expr), names) == evaluate(expr, {"a": 5, "b": 3})
        compared += 1
    assert compared


@pytest.mark.parametrize("op", ir.COMMUTATIVE_OPS)
def test_commutative_operators_commute(op: str) -> None:
    value = ir.OPERATORS[op].on_ints
    assert all(value(a, b) == value(b, a) for a, b in pairs(op))


@pytest.mark.parametrize(("op", "identity"), list(ir.RIGHT_IDENTITY.items()))
def test_a_right_identity_changes_nothing(op: str, identity: int) -> None:
    assert all(ir.OPERATORS[op].on_ints(a, identity) == a for a in NUMBERS)


def test_division_by_zero_gives_zero() -> None:
    assert [ir.OPERATORS[op].on_ints(7, 0) for op in ("floordiv", "mod")] == [0, 0]


def test_code_is_generated_for_exactly_these_operators() -> None:
    assert set(EMITTERS) == set(ir.OPERATORS)


@pytest.mark.parametrize("op", EXTENT_OPERATORS)
def test_the_abi_evaluates_extents_as_the_compiler_does(op: str) -> None:
    assert set(EXTENT_OPERATORS) == set(ir.INDEX_OPS)
    assert all(EXTENT_OPERATORS[op](a, b) == ir.OPERATORS[op].on_ints(a, b) for a, b in pairs(op))


@pytest.mark.parametrize("op", ir.COMPARE_OPS)
def test_comparisons_have_a_negation_and_a_mirror_image(op: str) -> None:
    value = ir.OPERATORS[op].on_ints
    negated, mirrored = ir.OPERATORS[ir.NEGATED[op]].on_ints, ir.OPERATORS[ir.MIRRORED[op]].on_ints
    assert all(negated(a, b) == (not value(a, b)) and mirrored(b, a) == value(a, b) for a, b in pairs(op))

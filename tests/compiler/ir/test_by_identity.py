# SPDX-License-Identifier: Apache-2.0
"""Results of analyses are kept by identity, for some of the nodes."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.ir.by_identity import by_identity


def test_an_object_is_asked_about_once_and_its_equal_again() -> None:
    asked: list[ir.Expr] = []

    @by_identity(most=2)
    def name(node: ir.Var) -> str:
        asked.append(node)
        return node.name

    one, equal = ir.Var("x"), ir.Var("x")
    assert [name(node) for node in (one, equal, one, equal)] == ["x"] * 4
    assert len(asked) == 2
    assert asked[0] is one
    assert asked[1] is equal


def test_the_results_that_were_used_longest_ago_are_forgotten() -> None:
    asked: list[str] = []

    @by_identity(most=2)
    def name(node: ir.Var) -> str:
        asked.append(node.name)
        return node.name

    a, b, c = map(ir.Var, "abc")
    for node in (a, b, a, c, a, b):
        assert name(node) == node.name
    assert asked == ["a", "b", "c", "b"]

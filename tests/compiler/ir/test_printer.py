# SPDX-License-Identifier: Apache-2.0
"""Functions, loops and expressions as text."""

import pytest
from helpers.packed_convolution import convolution, schedule

from vdla.compiler import ir
from vdla.compiler.ir import expr_text, function_lines, line_numbers


def v(name):
    return ir.Var(name)


def op(name, a, b):
    return ir.Binary(name, a, b)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (op("mul", op("add", v("a"), v("b")), v("c")), "(a + b) * c"),
        (op("sub", v("a"), op("sub", v("b"), v("c"))), "a - (b - c)"),
        (op("sub", op("sub", v("a"), v("b")), v("c")), "a - b - c"),
        (op("floordiv", v("a"), op("mul", v("b"), v("c"))), "a // (b * c)"),
        (op("and", op("lt", v("a"), v("b")), op("eq", v("b"), v("c"))), "a < b and b == c"),
        (op("and", op("shr", v("a"), v("b")), v("c")), "a >> b & c"),
        (op("lt", op("lt", v("a"), v("b")), v("c")), "(a < b) < c"),
        (op("max", v("a"), ir.Const(0)), "max(a, 0)"),
        (ir.Select(op("lt", v("a"), ir.Const(2)), v("a"), ir.Cast("int8", v("b"))), "select(a < 2, a, int8(b))"),
        (ir.Call("exp", (ir.Const(1, "float32"),), "float32"), "exp(1.0)"),
        (ir.Const(True, "bool"), "True"),
    ],
)
def test_expressions_print_with_minimal_parentheses(expr, text):
    assert expr_text(expr) == text


def test_a_scheduled_convolution_prints_as_recorded(golden):
    s = schedule(convolution(), 3, 2, 1, check=lambda s, step: None)
    s.annotate("yo", "note", 1)
    golden("scheduled_convolution.txt", str(s.fn) + "\n")


def test_lines_name_their_loop_or_block():
    fn = schedule(convolution(), 3, 2, 1, check=lambda s, step: None).fn
    lines, numbers = function_lines(fn), line_numbers(fn)
    assert lines[numbers["vt"]].text.strip() == "for vt in vthread(2):"
    assert lines[numbers["acc"]].text.strip().startswith("block acc(")
    names = [s.var if isinstance(s, ir.For) else s.name for s in ir.walk(fn.body) if isinstance(s, (ir.For, ir.Block))]
    assert sorted(names) == sorted(numbers)

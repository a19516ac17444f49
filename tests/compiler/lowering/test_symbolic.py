# SPDX-License-Identifier: Apache-2.0
"""Functions with symbolic extents, lowered once and run at many sizes."""

import numpy as np
import pytest
from helpers.loop_nests import VECTORIZE, at, expr, function, load, loop, op, store, text

from vdla.compiler import ir
from vdla.compiler.arith import specialise
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import lower
from vdla.compiler.lowering.storage import place_storage
from vdla.compiler.target import TARGETS

TARGET = TARGETS["x86-64"]
N = ir.Var("n")
TILES = op("floordiv", at("n", 7), 8)


def block(name, value, body, predicate=None):
    return ir.Block(name=name, axes=(ir.Axis("vi", N),), values=(value,), body=body, init=None, predicate=predicate)


def tiled():
    """c = a * 2 + 1 in tiles of 8 lanes, with a temporary inside of the tile."""
    parts = []
    for buffer, source, change in (("t", "a", ("mul", 2)), ("c", "t", ("add", 1))):
        index = at(("io", 8), f"{buffer}_i")
        value = op(change[0], load(source, "vi"), change[1])
        nest = block(buffer, index, store(buffer, "vi", value=value), op("lt", index, "n"))
        parts.append(loop(f"{buffer}_i", 8, nest, kind=VECTORIZE))
    body = loop("io", TILES, *parts)
    return function(body, ("n",), ("t",), a=(N,), c=(N,), t=(N,))


def test_a_tile_of_a_symbolic_extent_has_a_static_buffer():
    assert place_storage(tiled()).buffers["t"].shape == (8,)


def test_the_main_part_has_no_condition():
    assert (
        text(lower(tiled(), TARGET))
        == """
for io in range(n // 8):
    with alloc(t):
        for t_i in vectorize(8):
            t[t_i] = a[io * 8 + t_i] * 2
        for c_i in vectorize(8):
            c[io * 8 + c_i] = t[c_i] + 1
for io in range((n + 7) // 8 + n // 8 * -1):
    with alloc(t):
        for t_i in vectorize(8):
            if n // 8 * 8 + io * 8 + t_i < n:
                t[t_i] = a[n // 8 * 8 + io * 8 + t_i] * 2
        for c_i in vectorize(8):
            if n // 8 * 8 + io * 8 + c_i < n:
                c[n // 8 * 8 + io * 8 + c_i] = t[c_i] + 1
"""
    )


@pytest.mark.parametrize("n", [1, 7, 8, 9, 15, 16, 17, 40])
def test_every_size_gives_the_right_result(n):
    a = np.arange(n, dtype="int32")
    lowered = specialise(lower(tiled(), TARGET), {"n": n})
    np.testing.assert_array_equal(interpret(lowered, {"a": a})["c"], a * 2 + 1)


def shifted(by):
    """c[i] = a[i - by] + a[i + by], 0 outside."""
    left = ir.Select(op("ge", "vi", by), load("a", at("vi", -by)), expr(0))
    right = ir.Select(op("lt", at("vi", by), "n"), load("a", at("vi", by)), expr(0))
    body = loop("i", N, block("c", expr("i"), store("c", "vi", value=op("add", left, right))))
    return function(body, ("n",), a=(N,), c=(N,))


@pytest.mark.parametrize("by", [1, 3])
def test_padding_is_split_off_on_both_sides(by):
    first, main, last = lower(shifted(by), TARGET).body.stmts
    assert "select" in str(function(last, a=(1,), c=(1,)))
    assert "select" not in str(function(main, a=(1,), c=(1,)))
    assert first != main


@pytest.mark.parametrize("by", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 9])
def test_padding_of_every_size_gives_the_right_result(n, by):
    a = np.arange(1, n + 1, dtype="int32")
    full = np.pad(a, by)
    lowered = specialise(lower(shifted(by), TARGET), {"n": n})
    np.testing.assert_array_equal(interpret(lowered, {"a": a})["c"], full[: -2 * by] + full[2 * by :])

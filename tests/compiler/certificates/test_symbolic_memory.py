# SPDX-License-Identifier: Apache-2.0
"""Buffers of symbols take a whole value as it is, and never share it."""

from __future__ import annotations

import numpy as np

from vdla.compiler import ir
from vdla.compiler.certificates.elementwise import numbers, unknowns
from vdla.compiler.certificates.evaluate import SymbolicMemory
from vdla.compiler.certificates.symbols import Symbols
from vdla.compiler.interpret.memory import EVERYWHERE, Points

AT = Points({}, EVERYWHERE, "b")
WHOLE = [np.arange(4)[:, None], np.arange(3)[None, :]]
FIRST = [np.zeros((1, 1), np.int64)] * 2


def memory() -> SymbolicMemory:
    return SymbolicMemory({name: ir.Buffer(name, (4, 3), "int8") for name in "ab"}, {})


def value() -> Symbols:
    return unknowns("x", (4, 3), "int8", 0)


def test_a_whole_value_is_taken_as_it_is() -> None:
    buffers, x = memory(), value()
    buffers.store("a", WHOLE, x, AT)
    assert np.shares_memory(buffers.arrays["a"], x)
    assert buffers.written["a"].all()


def test_two_buffers_of_one_value_differ() -> None:
    buffers, x = memory(), value()
    for name in "ab":
        buffers.store(name, WHOLE, x, AT)
    buffers.store("a", FIRST, numbers([[7]]), AT)
    assert np.array_equal(buffers.arrays["b"]["value"], value()["value"])
    assert buffers.arrays["a"]["low"][0, 0] == 7


def test_a_value_that_is_repeated_or_read_only_is_copied() -> None:
    for x in (np.broadcast_to(value()[:1], (4, 3)), value()[:1]):
        buffers = memory()
        buffers.store("a", WHOLE, x, AT)
        buffers.store("a", FIRST, numbers([[7]]), AT)
        assert np.array_equal(buffers.arrays["a"]["value"][1:], np.repeat(value()[:1], 3, axis=0)["value"])

# SPDX-License-Identifier: Apache-2.0
"""Prefetching cache lines of later iterations keeps results and never loads out of bounds."""

import re

import numpy as np
import pytest
from helpers.loop_nests import text

from vdla.compiler import te
from vdla.compiler.arith import specialise
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import lower
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS
from vdla.runtime.native import build

INSTRUCTIONS = {"x86-64-avx2": r"prefetcht0\s", "cortex-a9": r"pld\s", "aarch64": r"prfm\s+pldl1keep"}


def rows(count=7, width=40, dtype="float32"):
    """y = 2 x, by rows."""
    a = te.placeholder((count, width), dtype, "a")
    return Schedule(te.create_function([a], [te.compute((count, width), lambda i, j: a[i, j] * 2, "c")], "rows"))


def lowered(s):
    return lower(s.fn, TARGETS["x86-64-avx2"])


def test_every_line_of_a_later_row_is_prefetched():
    s = rows()
    s.prefetch("c", "a", "i", 2)
    assert (
        text(lowered(s))
        == """
for i in range(7):  # prefetch=(('a', 'c', 2),)
    for ahead in range(3):
        prefetch a[i + 2, ahead * 16]
    for j in range(40):
        c[i, j] = a[i, j] * 2.0
"""
    )


def test_short_rows_share_a_prefetch():
    s = rows(count=16, width=4)
    s.split("i", 4)
    s.prefetch("c", "a", "i_o")
    assert "prefetch a[i_o * 4 + 4, 0]" in text(lowered(s))
    assert "ahead" not in text(lowered(s))


def test_one_loop_may_prefetch_two_buffers():
    a, b = te.placeholder((8, 4), "float32", "a"), te.placeholder((8, 4), "float32", "b")
    s = Schedule(te.create_function([a, b], [te.compute((8, 4), lambda i, j: a[i, j] + b[i, j], "c")], "f"))
    s.prefetch("c", "a", "i", 1)
    s.prefetch("c", "b", "i", 3)
    assert "    prefetch a[i + 1, 0]\n    prefetch b[i + 3, 0]\n" in text(lowered(s))


def test_loads_in_prefetch_indices_are_clipped():
    table, rows = te.placeholder((64, 4), "float32", "table"), te.placeholder((8,), "int32", "rows")
    s = Schedule(te.create_function([table, rows], [te.compute((8, 4), lambda i, j: table[rows[i], j], "c")], "f"))
    s.prefetch("c", "table", "i", 2)
    assert "prefetch table[rows[min(i + 2, 7)], 0]" in text(lowered(s))


def test_guarded_loads_in_prefetch_indices_are_clipped():
    n = te.var("n")
    table, rows = te.placeholder((64, 4), "float32", "table"), te.placeholder((n,), "int32", "rows")
    value = lambda i, j: te.select((i >= 3) & (i < n + 3), table[rows[i - 3], j], 0.0)  # noqa: E731
    s = Schedule(te.create_function([table, rows], [te.compute((8, 4), value, "c")], "f"))
    s.prefetch("c", "table", "i", 2)
    requests = re.findall(r"prefetch (.*)", text(lower(specialise(s.fn, {"n": 2}), TARGETS["x86-64"])))
    assert requests == ["table[rows[max(i - 1, 0)], 0]", "table[rows[1], 0]", "table[rows[1], 0]"]
    for size in (1, 2, 5):
        arrays = {"table": np.arange(256, dtype=np.float32).reshape(64, 4), "rows": np.arange(size, dtype=np.int32)}
        np.testing.assert_array_equal(build(s.fn)(*arrays.values()), interpret(s.fn, arrays)["c"])


def test_invariant_and_local_regions_are_not_prefetched():
    x, w = te.placeholder((6, 8), "float32", "x"), te.placeholder((8,), "float32", "w")
    k = te.reduce_axis(8, "k")
    wide = te.compute((6, 8), lambda i, j: x[i, j] * 2, "wide")
    s = Schedule(te.create_function([x, w], [te.compute((6,), lambda j: te.sum(wide[j, k] * w[k], axis=k), "c")], "f"))
    outer, _ = s.loops("c")
    s.compute_at("wide", outer)
    s.prefetch("c", "w", outer)
    s.prefetch("c", "wide", outer)
    s.prefetch("wide", "x", outer)
    assert [line.split()[1] for line in text(lowered(s)).splitlines() if "  prefetch" in line] == ["x[c_j"]


def test_vector_loops_prefetch_once_and_tails_not_at_all():
    s = rows(count=10)
    s.split("i", 4)
    s.prefetch("c", "a", "i_i", 1)
    s.reorder("j", "i_o", "i_i")
    s.vectorize("i_i")
    found = text(lowered(s))
    assert found.count("\n    prefetch") + found.count("\n        prefetch") == 2  # of whole vectors and of the rest
    array = np.arange(400, dtype=np.float32).reshape(10, 40)
    np.testing.assert_array_equal(build(s.fn)(array), array * 2)


@pytest.mark.parametrize("target", INSTRUCTIONS)
def test_prefetch_instructions_are_emitted(target):
    s = rows(width=16)
    assert not re.search(INSTRUCTIONS[target], compile_native(s.fn, target).assembly)
    s.prefetch("c", "a", "i", 2)
    assert re.search(INSTRUCTIONS[target], compile_native(s.fn, target).assembly)


def test_prefetches_do_not_change_results():
    n = te.var("n")
    b = te.placeholder((n, n), "float32", "b")
    s = Schedule(te.create_function([b], [te.compute((n, n), lambda i, j: b[j, i] * 3, "d")], "transposed"))
    s.prefetch("d", "b", "j", 4)
    s.prefetch("d", "b", "i", 4)
    s.parallel("i")
    array = np.arange(81, dtype=np.float32).reshape(9, 9)
    np.testing.assert_array_equal(build(s.fn)(array), array.T * 3)
    np.testing.assert_array_equal(interpret(lowered(s), {"b": array})["d"], array.T * 3)

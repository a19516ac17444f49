# SPDX-License-Identifier: Apache-2.0
"""Shuffles: what lanes exchange at fixed distances stays in registers, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.codegen.ptx import emit_ptx
from vdla.compiler.interpret import InterpretError, interpret_kernels
from vdla.compiler.ir import GridKernel
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.verification.grid.cooperative import row_sums, stencil

WARPS = GridLimits("with warps", warp=32)


def kernel_of(s: Schedule, limits: GridLimits = WARPS) -> GridKernel:
    (kernel,) = lower_kernels(s.fn, limits)
    return kernel


def distances(kernel: GridKernel) -> list[int]:
    return [stmt.distance for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.Shuffle)]


def count(kernel: GridKernel, kind: type[ir.Stmt]) -> int:
    return sum(isinstance(stmt, kind) for stmt in ir.walk(kernel.body))


def row_norms(threads: int, rows_of_block: int = 1) -> Schedule:
    """y[i] = sum of row i of x, in float32: `rows_of_block` rows a block, one for each
    threadIdx.y."""
    x, k = te.placeholder((4, 2 * threads), "float32", "x"), te.reduce_axis(2 * threads, "k")
    s = Schedule(te.create_function([x], [te.compute((4,), lambda i: te.sum(x[i, k], axis=k), "y")], "rows"))
    i, term = s.loops("y")
    part, _ = s.split(term, nparts=threads)
    block, row = s.split(i, factor=rows_of_block)
    s.bind(block, "blockIdx.x")
    s.bind(row, "threadIdx.y")
    s.thread_reduce(part, "threadIdx.x")
    return s


def test_a_warp_reduces_without_memory_or_barriers() -> None:
    kernel = kernel_of(row_sums(6, 64, 32, tree=True))
    assert (kernel.shared_bytes, count(kernel, ir.Barrier)) == (0, 0)
    assert distances(kernel) == [16, 8, 4, 2, 1]
    assert """\
        shuffle 16:
            y_rf_from[0] = y_rf[0]
        if threadIdx.x < 16:
            y_y_rf[0] = y_y_rf[0] + y_rf[0]
            y_y_rf[0] = y_y_rf[0] + y_rf_from[0]
""" in str(kernel)
    x = np.arange(384, dtype=np.int32).reshape(6, 64)
    np.testing.assert_array_equal(interpret_kernels([kernel], {"x": x})["y"], x.sum(axis=1))


@pytest.mark.parametrize(("threads", "rows"), [(32, 2), (64, 1)])
def test_the_order_of_sums_is_that_of_the_tree(threads: int, rows: int) -> None:
    """Bit for bit; only the last five steps of the tree are within a warp."""
    s = row_norms(threads, rows)
    x = np.random.default_rng(0).standard_normal((4, 2 * threads), np.float32)
    kernel, tree = kernel_of(s), kernel_of(s, GridLimits("without warps"))
    assert (distances(kernel), count(kernel, ir.Barrier)) == ([16, 8, 4, 2, 1], threads // 64)
    assert distances(tree) == []
    found = [interpret_kernels([each], {"x": x})["y"].tobytes() for each in (kernel, tree)]
    assert found[0] == found[1]


@pytest.mark.parametrize("s", [stencil(64, 32), row_sums(6, 32, 8, tree=True), row_sums(6, 64, 32)])
def test_other_exchanges_stay_in_shared_memory(s: Schedule) -> None:
    """Elements of other warps, parts of a warp, and sums of more lanes than a few by one thread."""
    kernel = kernel_of(s)
    assert distances(kernel) == []
    assert kernel.shared_bytes > 0


def test_lanes_that_part_at_a_shuffle_are_an_error() -> None:
    kernel = kernel_of(row_sums(6, 64, 32, tree=True))

    def conditional(stmt: ir.Stmt) -> ir.Stmt:
        below = ir.Binary("lt", ir.Var("threadIdx.x"), ir.Const(16))
        return ir.If(below, stmt) if isinstance(stmt, ir.Shuffle) else ir.map_children(stmt, conditional)

    broken = replace(kernel, body=conditional(kernel.body))
    with pytest.raises(InterpretError, match=r"^sums: all threads of a block must come to a barrier"):
        interpret_kernels([broken], {"x": np.zeros((6, 64), np.int32)})


@pytest.mark.parametrize(("dtype", "words"), [("float16", 1), ("float32", 1), ("float64", 2)])
def test_ptx_shuffles_words_of_four_bytes(dtype: str, words: int) -> None:
    x, k = te.placeholder((4, 64), dtype, "x"), te.reduce_axis(64, "k")
    s = Schedule(te.create_function([x], [te.compute((4,), lambda i: te.max(x[i, k], axis=k), "y")], "most"))
    i, term = s.loops("y")
    part, _ = s.split(term, nparts=32)
    s.bind(i, "blockIdx.x")
    s.thread_reduce(part, "threadIdx.x")
    text = emit_ptx(s.fn, WARPS).text
    assert text.count("shfl.sync.down.b32") == 5 * words
    assert "bar" not in text

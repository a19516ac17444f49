# SPDX-License-Identifier: Apache-2.0
"""Fragments: each lane of a warp computes the elements that it holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from helpers.warp_product import placed_product, small_integers, warp_product

from vdla.compiler import ir, te
from vdla.compiler.analysis.thread_accesses import ThreadProgram
from vdla.compiler.codegen.llvm.intrinsics.mma import RowsOfB, mma
from vdla.compiler.interpret import interpret, interpret_kernels
from vdla.compiler.lowering.check import PassError
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import GridLimits
from vdla.compiler.tensorize import TensorizeError

LIMITS = GridLimits("test", threads=64, warp=32)
OTHERS = [("float16", RowsOfB.COLUMNS), ("int8", RowsOfB.TERMS), *product(["bfloat16"], RowsOfB)]


@pytest.mark.parametrize(
    ("dtype", "rows"),
    [
        ("float16", RowsOfB.TERMS),
        ("int8", RowsOfB.COLUMNS),
        *(pytest.param(*form, marks=pytest.mark.long) for form in OTHERS),
    ],
)
def test_the_lanes_together_compute_the_product(dtype: str, rows: RowsOfB) -> None:
    s = warp_product(dtype, rows)
    arrays, wanted = small_integers(dtype, rows)
    np.testing.assert_array_equal(interpret(s.fn, arrays)["c"], wanted)
    np.testing.assert_array_equal(interpret_kernels(lower_kernels(s.fn, LIMITS), arrays)["c"], wanted)


def test_a_lane_runs_its_part_of_each_statement() -> None:
    (kernel,) = lower_kernels(warp_product().fn, LIMITS)
    text = str(kernel)
    assert kernel.buffers["c_warp"] == ir.Buffer("c_warp", (1, 2, 4), "float32", "local")
    assert "for j_i_init_own in vectorize(2):\n" in text
    step = text[text.index("step mma_float16") :]
    assert (
        "c_warp[0, j_o, i_block * 2 + j_i_own] = c_warp[0, j_o, i_block * 2 + j_i_own] + "
        "float32(a_shared[threadIdx.x // 4 + threadIdx.y * 16 + i_block * 8, k_i]) * "
        "float32(b_shared[k_i, threadIdx.x % 4 * 2 + j_o * 8 + j_i_own])"
    ) in step
    (call,) = (stmt for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.IntrinsicCall))
    texts = {name: [ir.expr_text(index) for index in entry] for name, entry in call.match.entries.items()}
    assert texts == {"a": ["threadIdx.y * 16", "0"], "b": ["0", "j_o * 8"], "c": ["0", "j_o", "0"]}


def test_a_copy_may_be_dealt_out_by_hand() -> None:
    s = warp_product()
    row, column = s.loops("c_copy")[-2:]
    block, line = s.split(row, factor=8)
    group, own = s.split(column, factor=2)
    s.reorder(block, line, group, own)
    s.bind(s.fuse(line, group), "threadIdx.x")
    arrays, wanted = small_integers()
    kernels = lower_kernels(s.fn, LIMITS)
    assert "if" not in str(kernels[0])
    np.testing.assert_array_equal(interpret_kernels(kernels, arrays)["c"], wanted)


def test_a_copy_dealt_out_otherwise_is_held_by_some_lane_at_a_time() -> None:
    s = warp_product()
    row, column = s.loops("c_copy")[-2:]
    s.fuse(row, column)
    arrays, wanted = small_integers()
    kernels = lower_kernels(s.fn, LIMITS)
    np.testing.assert_array_equal(interpret_kernels(kernels, arrays)["c"], wanted)


def test_a_step_reads_whole_tiles() -> None:
    """Whichever elements a lane multiplies, so the others must have been written."""
    (kernel,) = lower_kernels(warp_product().fn, LIMITS)
    texts = [str(access) for access in ThreadProgram.of(kernel).accesses if access.buffer == "a_shared"]
    assert texts[1:] == ["the read of a_shared[threadIdx.y * 16 + row of a_shared, 0 + column of a_shared]"]
    assert str(kernel).count("barrier of block") == 2


def message(s: Schedule) -> str:
    with pytest.raises(PassError) as error:
        lower_kernels(s.fn, LIMITS)
    return str(error.value)


def test_lanes_must_be_bound() -> None:
    s = placed_product(lanes=16)
    s.tensorize("c", mma())
    rule = "a warp holds c_warp, so the loops bound to threadIdx.x, its lanes, must have extent 32"
    assert message(s) == f"product: {rule}, got 16 for {s.loops('a_shared')[-1]}"


def test_registers_of_a_warp_need_a_step() -> None:
    rule = "must be the operand of a tensorized step, which says which lane holds what, got none"
    assert message(placed_product()) == f"product: the buffer c_warp in warp {rule}"


def test_what_lanes_do_not_hold_together_is_refused() -> None:
    fn = warp_product().fn
    (copy,) = (stmt for stmt in ir.walk(fn.body) if isinstance(stmt, ir.Block) and stmt.name == "c_copy")
    row, column = (ir.Var(axis.var) for axis in copy.axes)
    mirrored = ir.Load("c_warp", (row, ir.Binary("sub", ir.Const(15), column)))
    both = ir.Store("c", (row, column), ir.Binary("add", ir.Load("c_warp", (row, column)), mirrored))

    def changed(stmt: ir.Stmt) -> ir.Stmt:
        return replace(copy, body=both) if stmt is copy else ir.map_children(stmt, changed)

    with pytest.raises(PassError) as error:
        lower_kernels(replace(fn, body=changed(fn.body)), LIMITS)
    rule = "a statement must access elements of fragments that one lane holds"
    assert str(error.value).startswith(f"product: {rule}, got c_warp[")


def test_operands_of_other_types_are_refused() -> None:
    with pytest.raises(TensorizeError, match=r"operand a must be float16, got a_shared of bfloat16"):
        placed_product("bfloat16").tensorize("c", mma())


def test_lanes_must_not_part_around_a_step() -> None:
    """A batch of products, of which each lane would compute one."""
    a, b = te.placeholder((32, 16, 16), "float16", "a"), te.placeholder((32, 16, 8), "float16", "b")
    k = te.reduce_axis(16, "k")

    def value(n: te.Value, i: te.Value, j: te.Value) -> te.Value:
        return te.sum(te.cast("float32", a[n, i, k]) * te.cast("float32", b[n, k, j]), axis=k)

    s = Schedule(te.create_function([a, b], [te.compute((32, 16, 8), value, "c")], "products"))
    batch = s.loops(s.cache_write("c", "warp"))[0]
    s.bind(batch, "threadIdx.x")
    s.compute_at("c", batch)
    for operand in ("a", "b"):
        s.cache_read("c", operand, "shared")
    s.tensorize("c", mma())
    rule = "all lanes of a warp hold c_warp together, so its accesses must not all lie in one loop"
    assert message(s) == f"products: {rule} bound to threadIdx.x, got {batch}"

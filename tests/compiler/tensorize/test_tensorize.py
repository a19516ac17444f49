# SPDX-License-Identifier: Apache-2.0
"""Every way in which a nest can fail to match an intrinsic: the exact message, and that its remedy
works."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from helpers.tensorized_matmul import CONFIG, GEMM, matmul, ordered, placed, ready, step

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm.intrinsics.window_dot import vnni_channel_windows
from vdla.compiler.codegen.vdla.intrinsics import dma, requantise, vector
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import Match
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import TensorizeError
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, VectorOp


def match_of(s: Schedule, block: str) -> Match:
    """What the tensorized block is annotated with."""
    found = next(b for b in ir.walk(s.fn.body) if isinstance(b, ir.Block) and b.name == block)
    match = found.annotations["intrinsic"]
    assert isinstance(match, Match)
    return match


def refused(message: str, run: Callable[[], None]) -> None:
    """`run` raises exactly this."""
    with pytest.raises(TensorizeError, match=f"^{re.escape(message)}$"):
        run()


def test_a_matching_nest_is_annotated_and_preserves_results() -> None:
    s = ready()
    before = str(s.fn)
    step(s)
    match = match_of(s, "c")
    assert match.buffers == {"acc": "c_acc", "inp": "a_inp", "wgt": "b_wgt"}
    assert match.entries["wgt"] == (ir.Var("vn"), ir.Var("vk"))
    assert re.sub(r"  # (tensorize|intrinsic)=gemm", "", str(s.fn)) == before


def test_factors_may_be_in_either_order() -> None:
    s = ready(swapped=True)
    step(s)
    assert match_of(s, "c").buffers["inp"] == "a_inp"


# --- by the name of the block ---------------------------------------------------------------------


def test_a_block_name_tensorizes_the_loops_of_its_entry() -> None:
    by_loop, by_block = ready(), ready()
    step(by_loop)
    by_block.tensorize("c", GEMM)
    assert str(by_block.fn) == str(by_loop.fn)
    by_block.tensorize("a_inp", dma.load(CONFIG, Buffer.INP))
    assert "for a_inp_r in range(1):  # tensorize=load_inp" in str(by_block.fn)
    assert str(by_block.trace).splitlines()[-2:] == [
        's.tensorize("c", intrinsics["gemm"])',
        's.tensorize("a_inp", intrinsics["load_inp"])',
    ]
    again = Schedule.replay(matmul().fn, by_block.python(), by_block.trace.intrinsics)
    assert str(again.fn) == str(by_block.fn)


def test_an_entry_that_lacks_an_axis_of_extent_one_is_found() -> None:
    x = te.placeholder((4, 16), "int8", "x")
    rows = te.compute((4, 1, 16), lambda p, b, o: x[p, o], "rows")
    packed = te.compute((4, 1, 16), lambda p, b, o: te.cast("int32", rows[p, 0, o]), "packed")
    s = Schedule(te.create_function([x], [packed], "narrow"))
    s.set_scope("rows", "inp")
    s.cache_write("packed", "acc")
    s.fuse(*s.loops("packed")[:2])  # the loop over b, of extent 1, is gone
    s.tensorize("packed", vector.move(CONFIG, Operand.SRC))
    assert match_of(s, "packed").buffers == {"acc": "packed_acc", "x": "rows"}


def test_a_block_without_a_match_reports_the_nest_with_all_axes() -> None:
    s = placed(matmul())  # k lies between the loops of the entry
    with pytest.raises(TensorizeError) as by_loop:
        s.tensorize("r", GEMM)
    with pytest.raises(TensorizeError) as by_block:
        s.tensorize("c", GEMM)
    assert str(by_block.value) == str(by_loop.value)


def test_a_name_of_a_block_and_a_loop_is_refused() -> None:
    s = ready()
    fn = replace(s.fn, body=renamed_loop(s.fn.body, "k", "c"))
    with pytest.raises(TensorizeError) as error:
        Schedule(fn).tensorize("c", GEMM)
    assert str(error.value) == ("tensorize of c: name must be that of one block or loop, got 1 blocks and 1 loops")


def renamed_loop(stmt: ir.Stmt, old: str, new: str) -> ir.Stmt:
    """`stmt` with a loop renamed, but not its uses."""
    if isinstance(stmt, ir.For) and stmt.var == old:
        return replace(stmt, var=new)
    return ir.with_children(stmt, tuple(renamed_loop(child, old, new) for child in ir.children(stmt)))


def test_a_block_in_no_loop_has_no_entry() -> None:
    s = ready()
    s.blockize("n")
    refused(
        "tensorize gemm at block c_o: the loops of one entry must lie around it, got none",
        lambda: s.tensorize("c_o", GEMM),
    )


# --- each mismatch, and its remedy ----------------------------------------------------------------

AT = "tensorize gemm at block c: "


def test_a_wrong_scope_is_refused_with_its_remedy() -> None:
    s = ordered(matmul())
    refused(
        AT + "operand acc must be in scope 'acc', got c in 'global'; cache_write('c', 'acc') puts it there",
        lambda: step(s),
    )
    s.cache_write("c", "acc")
    refused(
        AT + "operand inp must be in scope 'inp', got a in 'global'; cache_read('c', 'a', 'inp') puts it there",
        lambda: step(s),
    )
    s.cache_read("c", "a", "inp")
    s.cache_read("c", "b", "inp")
    refused(
        AT + "operand wgt must be in scope 'wgt', got b_inp in 'inp'; set_scope('b_inp', 'wgt') puts it there",
        lambda: step(s),
    )
    s.set_scope("b_inp", "wgt")
    step(s)


def test_a_wrong_extent_is_refused() -> None:
    refused(AT + "axis vi must have extent 16, got 8; pad that dimension to 16", lambda: step(ready(inner=8)))
    step(ready(inner=16))


def test_a_transposed_operand_is_refused() -> None:
    refused(
        AT + "index vo of operand wgt must be axis vo as elsewhere, got vi in b_wgt; "
        "swap the last dimensions of that tensor",
        lambda: step(ready(transposed=True)),
    )


def test_a_wrong_dtype_is_refused() -> None:
    refused(
        AT + "operand inp must be int8, got a_inp of int16; the machine has no int16 operand, "
        "so declare placeholder a as int8",
        lambda: step(ready(dtype="int16")),
    )


def test_a_split_inner_axis_is_refused() -> None:
    s = ready()
    s.split(s.loops("c")[-1], factor=4)
    refused(
        AT + "axis vi must be one whole loop of extent 16 inside the tensorized loop, got i_o * 4 + i_i with i_o of 4, "
        "i_i of 4; fuse('i_o', 'i_i') undoes its split",
        lambda: step(s, 4),
    )


def test_an_axis_that_the_intrinsic_lacks_is_refused() -> None:
    s = placed(matmul())
    refused(
        AT + "operand inp must be one entry of a_inp, got index vk, which depends on axis vk inside the tensorized "
        "loop; reorder('k', 'r', 'o', 'i') puts it outside",
        lambda: step(s, 4),
    )
    ordered(s)
    step(s)


def test_a_loop_too_far_in_is_refused() -> None:
    s = ready()
    refused(
        AT + "index vb of operand acc must be an axis inside the tensorized loop, got vr outside of it; "
        "tensorize from loop r inwards",
        lambda: step(s, 2),
    )
    step(s, 3)


def test_a_name_of_neither_block_nor_loop_is_refused() -> None:
    s = ready()
    names = ", ".join(loop.var for loop in ir.walk(s.fn.body) if isinstance(loop, ir.For))
    refused(
        f"tensorize: name must be that of a block (a_inp, b_wgt, c, c_copy) or a loop ({names}), got 'j'",
        lambda: s.tensorize("j", GEMM),
    )


def test_a_nest_with_several_blocks_is_refused() -> None:
    s = placed(matmul())
    n, m, r, o, k, i = s.loops("c")
    s.reorder(n, m, k, r, o, i)
    s.compute_at("a_inp", k)
    refused(
        f"tensorize gemm at loop {k}: the loops inside must hold a single block, got 2 statements; "
        "move the others out with compute_at or reverse_compute_at",
        lambda: s.tensorize(k, GEMM),
    )
    s.tensorize(r, GEMM)


def plain(body: Callable[..., te.Value], dtype: str = "int32", source: str = "int8") -> Schedule:
    """y[p, b, o] of x, in the accumulator and the input buffer."""
    x = te.placeholder((4, 1, 16), source, "x")
    s = Schedule(te.create_function([x], [te.compute((4, 1, 16), lambda p, b, o: body(x, p, b, o), "y")], "plain"))
    s.cache_write("y", "acc")
    s.cache_read("y", "x", "inp")
    return s


def test_an_accumulating_intrinsic_refuses_a_plain_computation() -> None:
    s = plain(lambda x, p, b, o: te.cast("int32", x[p, b, o]))
    maximum = vector.reduction(CONFIG, VectorOp.MAX)
    refused(
        "tensorize max_reduce_inp at block y: max_reduce_inp accumulates, so the block must be a reduction, got a "
        "plain computation; write the stage as a reduction (te.max)",
        lambda: s.tensorize(s.loops("y")[-2], maximum),
    )
    t = te.reduce_axis(1, "t")
    s = plain(lambda x, p, b, o: te.max(te.cast("int32", x[p + t, b, o]), axis=t))
    p, b, o, step = s.loops("y")
    s.reorder(p, step, b, o)
    s.tensorize(b, maximum)


def test_an_intrinsic_that_does_not_accumulate_refuses_a_reduction() -> None:
    t = te.reduce_axis(1, "t")
    s = plain(lambda x, p, b, o: te.sum(te.cast("int32", x[p + t, b, o]), axis=t))
    move = vector.move(CONFIG, Operand.SRC)
    refused(
        "tensorize mov_inp_src at block y: mov_inp_src does not accumulate, so the block must be a plain computation, "
        "got a reduction; use an intrinsic that accumulates",
        lambda: s.tensorize(s.loops("y")[-3], move),
    )


def test_sums_on_a_cpu_start_from_anything() -> None:
    x, w = te.placeholder((4, 16), "uint8", "x"), te.placeholder((16, 4), "int8", "w")
    b, i = te.placeholder((16,), "int32", "b"), te.reduce_axis(4, "i")
    y = te.compute(
        (16,), lambda o: te.sum(te.cast("int32", x[i, o]) * te.cast("int32", w[o, i]), axis=i, init=b[o]), "y"
    )
    s = Schedule(te.create_function([x, w, b], [y], "f"))
    s.tensorize(s.loops("y")[0], vnni_channel_windows(16))
    assert match_of(s, "y").intrinsic.name == "vnni_channel_windows_16"
    rng = np.random.default_rng(0)
    arrays = {"x": rng.integers(0, 256, (4, 16), np.uint8), "w": rng.integers(-128, 128, (16, 4), np.int8)}
    start = rng.integers(-999, 999, 16, np.int32)
    expected = np.einsum("io,oi->o", arrays["x"].astype(int), arrays["w"].astype(int)) + start
    np.testing.assert_array_equal(interpret(s.fn, arrays | {"b": start})["y"], expected)


def test_a_wrong_start_of_a_reduction_is_refused() -> None:
    add_from_one = te.reducer(lambda a, b: a + b, 1, "add_from_one")
    t = te.reduce_axis(1, "t")
    s = plain(lambda x, p, b, o: add_from_one(te.cast("int32", x[p + t, b, o]), axis=t))
    p, b, o, step = s.loops("y")
    s.reorder(p, step, b, o)
    refused(
        "tensorize add_reduce_inp at block y: the reduction must start from 0, got 1; start it from 0, and add the "
        "start value in a stage of its own",
        lambda: s.tensorize(b, vector.reduction(CONFIG, VectorOp.ADD)),
    )


def test_a_value_of_another_form_is_refused() -> None:
    s = plain(lambda x, p, b, o: te.cast("int32", x[p, b, o]) + 3)
    refused(
        "tensorize mov_inp_src at block y: the value must have the form int32(x[vb, vo]), got int32(x_inp[vp, vb, vo]) "
        "+ 3; compute ... + 3 in a stage of its own",
        lambda: s.tensorize(s.loops("y")[-2], vector.move(CONFIG, Operand.SRC)),
    )


def test_a_strided_index_is_refused() -> None:
    x = te.placeholder((4, 1, 32), "int8", "x")
    y = te.compute((4, 1, 16), lambda p, b, o: te.cast("int32", x[p, b, o * 2]), "y")
    s = Schedule(te.create_function([x], [y], "strided"))
    s.cache_write("y", "acc")
    s.cache_read("y", "x", "inp")
    refused(
        "tensorize mov_inp_src at block y: index vo of operand x must be one axis with stride 1, got vo * 2 in x_inp; "
        "pack the tensor as [..., 1, 16], the entry last",
        lambda: s.tensorize(s.loops("y")[-2], vector.move(CONFIG, Operand.SRC)),
    )


def test_an_entry_smaller_than_the_last_dimensions_is_refused() -> None:
    x = te.placeholder((4, 1, 32), "int8", "x")
    y = te.compute((4, 1, 16), lambda p, b, o: te.cast("int32", x[p, b, o]), "y")
    s = Schedule(te.create_function([x], [y], "part"))
    s.cache_write("y", "acc")
    s.set_scope(s.cache_read("y", "x", "inp"), "inp")
    refused(
        "tensorize mov_inp_src at block y: the last dimensions of operand x must be [1, 16], one entry, got x_inp of "
        "[4, 1, 32]; pack the tensor as [..., 1, 16], the entry last",
        lambda: s.tensorize(s.loops("y")[-2], vector.move(CONFIG, Operand.SRC)),
    )


def test_immediates_must_be_constants_of_a_step() -> None:
    s = plain(lambda x, p, b, o: te.cast("int32", x[p, b, o]) * o)
    refused(
        "tensorize product_inp_imm at block y: imm must be a constant of int32, got vo; write a number, or use an "
        "intrinsic that reads that operand from a buffer",
        lambda: s.tensorize(s.loops("y")[-2], vector.product(CONFIG, Operand.IMM)),
    )
    s = plain(lambda x, p, b, o: te.cast("int32", x[p, b, o]) * 7)
    s.tensorize(s.loops("y")[-2], vector.product(CONFIG, Operand.IMM))
    assert match_of(s, "y").immediates == {"imm": 7}
    s = plain(lambda x, p, b, o: te.cast("int32", x[p, b, o]) * p)
    s.tensorize(s.loops("y")[-2], vector.product(CONFIG, Operand.IMM))
    assert match_of(s, "y").moving == {"imm": ir.Var("vp")}


def test_a_factor_of_one_may_be_omitted() -> None:
    s = plain(lambda x, p, b, o: te.cast("int32", x[p, b, o]))
    s.tensorize(s.loops("y")[-2], vector.product(CONFIG, Operand.IMM))
    assert match_of(s, "y").immediates == {"imm": 1}


def test_conditions_must_hold_for_whole_entries() -> None:
    x = te.placeholder((4, 1, 16), "int8", "x")
    y = te.compute((6, 1, 16), lambda p, b, o: te.select(o < 3, x[p - 1, b, o], te.const(0, "int8")), "y")
    s = Schedule(te.create_function([x], [y], "padded"))
    s.cache_write("y", "inp")
    refused(
        "tensorize load_inp at block y: inside must be the same for a whole entry, got vo < 3, which depends on "
        "axis vo; put the condition on the leading indices, and pad the tensor itself along that axis",
        lambda: s.tensorize(s.loops("y")[-2], dma.load(CONFIG, Buffer.INP)),
    )
    y = te.compute((6, 1, 16), lambda p, b, o: te.select(p >= 1, x[p - 1, b, o], te.const(0, "int8")), "y")
    s = Schedule(te.create_function([x], [y], "padded"))
    s.cache_write("y", "inp")
    s.tensorize(s.loops("y")[-2], dma.load(CONFIG, Buffer.INP))
    assert match_of(s, "y").immediates == {"pad": 0}


def test_an_epilogue_matches_with_its_constants() -> None:
    acc, lanes = te.placeholder((4, 1, 16), "int32", "x"), te.placeholder((16,), "int64", "lanes")
    y = te.compute(
        (4, 1, 16),
        lambda p, b, o: requantise.requantisation(acc[p, b, o], lanes[o], -3, -128, 100, "int8"),
        "y",
    )
    s = Schedule(te.create_function([acc, lanes], [y], "finish"))
    s.cache_write("y", "out")
    s.cache_read("y", "x", "acc")
    s.cache_read("y", "lanes", "scl")
    s.tensorize(s.loops("y")[-2], requantise.requantise(CONFIG))
    assert match_of(s, "y").immediates == {"zero_point": -3, "clip_lo": -128, "clip_hi": 100}


def test_an_index_loaded_from_memory_is_refused() -> None:
    config = Config.preset("tiny")
    x, order = te.placeholder((8, 1, 4), "int8", "x"), te.placeholder((6,), "int32", "order")
    g = te.compute((6, 1, 4), lambda n, b, i: x[order[n], b, i], "g")
    s = Schedule(te.create_function([x, order], [te.compute(g.shape, lambda *i: g[i], "out")], "gather"))
    s.set_scope("g", "inp")
    with pytest.raises(TensorizeError) as error:
        s.tensorize(s.loops("g")[-2], dma.load(config, Buffer.INP))
    assert str(error.value) == (
        "tensorize load_inp at block g: operand data must be at a place known at compile time, got x at index "
        "order[vn], which reads order; gather it before"
    )

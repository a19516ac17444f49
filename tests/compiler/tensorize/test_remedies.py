# SPDX-License-Identifier: Apache-2.0
"""The nearest mistakes when tensorizing: the exact message of each, and that the nest matches once
it is followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from helpers.tensorized_matmul import CONFIG, GEMM, matmul, ordered, placed, ready

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import dma, vector
from vdla.compiler.schedule import Schedule
from vdla.compiler.tensorize import Intrinsic, TensorizeError
from vdla.hardware.config import Buffer
from vdla.hardware.isa import Operand, Source, VectorOp

t = te.reduce_axis(1, "t")
MOVE = vector.move(CONFIG, Operand.SRC)
ADD = vector.in_place(CONFIG, VectorOp.ADD, Operand.IMM)
SUB = vector.in_place(CONFIG, VectorOp.SUB, Operand.IMM)
MUL = vector.in_place(CONFIG, VectorOp.MUL, Operand.IMM)
LOAD = dma.load(CONFIG, Buffer.INP)
Element = Callable[..., te.Value]


@dataclass(frozen=True)
class Mistake:
    """`wrong` is refused with `message` when tensorized at `at` (a name, or a depth in block c);
    `right` follows it."""

    name: str
    wrong: Callable[[], Schedule]
    intrinsic: Intrinsic
    at: str | int
    message: str
    right: Callable[[Schedule], Schedule]
    then: tuple[tuple[str, Intrinsic], ...] = ()  # what to tensorize then, if not the same again


def tensorize(s: Schedule, at: str | int, intrinsic: Intrinsic) -> None:
    """Tensorize a block or loop by name, or the loop at a depth of block c."""
    s.tensorize(at if isinstance(at, str) else s.loops("c")[at], intrinsic)


# --- nests that nearly match ----------------------------------------------------------------------


def product(
    term: Element = lambda a, b: te.cast("int32", a) * te.cast("int32", b),
    reduce: Callable[..., te.Value] = te.sum,
    shape: tuple[int, int] = (16, 16),
    dtype: str = "int8",
    transposed: bool = False,
    flat: bool = False,
) -> Schedule:
    """c[n, m, 1, o] combining term(a[k, m, 1, i], b[n, k, o, i]) over k and i, ordered and placed
    for a GEMM."""
    outs, ins = shape
    a = te.placeholder((3, 2 * ins) if flat else (2, 3, 1, ins), dtype, "a")
    b = te.placeholder((2, 2, ins, outs) if transposed else (2, 2, outs, ins), "int8", "b")
    k, i = te.reduce_axis(2, "k"), te.reduce_axis(ins, "i")

    def value(n: te.Value, m: te.Value, r: te.Value, o: te.Value) -> te.Value:
        left = a[m, k * ins + i] if flat else a[k, m, r, i]
        return reduce(term(left, b[n, k, i, o] if transposed else b[n, k, o, i]), axis=[k, i])

    return ordered(placed(Schedule(te.create_function([a, b], [te.compute((2, 3, 1, outs), value, "c")], "product"))))


def element(
    value: Element,
    source: tuple[int, ...] = (4, 1, 16),
    dtype: str = "int8",
    scopes: tuple[str, str] = ("inp", "acc"),
) -> Schedule:
    """y[p, b, o] of x, which lies in the first scope; y in the second."""
    x = te.placeholder(source, dtype, "x")
    s = Schedule(te.create_function([x], [te.compute((4, 1, 16), lambda *i: value(x, *i), "y")], "element"))
    s.cache_write("y", scopes[1])
    if scopes[0] != "global":
        s.cache_read("y", "x", scopes[0])
    return s


def wide(value: te.Value) -> te.Value:
    return te.cast("int32", value)


def staged(value: Element) -> Schedule:
    """y of `start`, the widened x; both in the accumulator."""
    x = te.placeholder((4, 1, 16), "int8", "x")
    start = te.compute(x.shape, lambda *i: wide(x[i]), "start")
    s = Schedule(te.create_function([x], [te.compute(x.shape, lambda *i: value(start, *i), "y")], "staged"))
    s.set_scope("start", "acc")
    s.cache_write("y", "acc")
    s.cache_read("start", "x", "inp")
    return s


def sum_then_one() -> Schedule:
    x = te.placeholder((4, 1, 16), "int8", "x")
    total = te.compute(x.shape, lambda p, b, o: te.sum(wide(x[p + t, b, o]), axis=t), "sum")
    s = Schedule(te.create_function([x], [te.compute(x.shape, lambda *i: total[i] + 1, "y")], "sum_then_one"))
    s.set_scope("sum", "acc")
    s.cache_write("y", "acc")
    s.cache_read("sum", "x", "inp")
    p, b, o, step = s.loops("sum")
    s.reorder(p, step, b, o)
    return s


def then(value: Element) -> Schedule:
    """The product, and an operation on its sums in a stage y."""
    a, b = te.placeholder((2, 3, 1, 16), "int8", "a"), te.placeholder((2, 2, 16, 16), "int8", "b")
    k, i = te.reduce_axis(2, "k"), te.reduce_axis(16, "i")
    c = te.compute(
        (2, 3, 1, 16), lambda n, m, r, o: te.sum(wide(a[k, m, r, i]) * wide(b[n, k, o, i]), axis=[k, i]), "c"
    )
    s = Schedule(te.create_function([a, b], [te.compute(c.shape, lambda *at: value(c[at]), "y")], "then"))
    s.set_scope("c", "acc")
    s.cache_read("c", "a", "inp")
    s.cache_read("c", "b", "wgt")
    s.cache_write("y", "acc")
    return ordered(s)


def clip_in_two() -> Schedule:
    x = te.placeholder((4, 1, 16), "int32", "x")
    low = te.compute(x.shape, lambda *i: te.maximum(x[i], -128), "low")
    s = Schedule(te.create_function([x], [te.compute(x.shape, lambda *i: te.minimum(low[i], 127), "y")], "clip"))
    s.set_scope("low", "acc")
    s.cache_read("low", "x", "acc")
    s.cache_write("y", "acc")
    return s


def applied(*steps: tuple[str, ...]) -> Callable[[Schedule], Schedule]:
    """The schedule after the given primitives."""

    def follow(s: Schedule) -> Schedule:
        for name, *arguments in steps:
            getattr(s, name)(*arguments)
        return s

    return follow


def instead(build: Callable[[], Schedule]) -> Callable[[Schedule], Schedule]:
    """Another schedule."""
    return lambda _: build()


AT = "tensorize gemm at block c: "
MOV = "tensorize mov_inp_src at block y: "


def split_to_the_entry() -> Schedule:
    s = product(shape=(16, 32))
    s.split("i", factor=16)
    return s


def split_entry() -> Schedule:
    s = ready()
    s.split("i", factor=4)
    return s


def moved_part() -> Schedule:
    s = split_entry()
    s.reorder("i_o", "r", "o", "i_i")
    return s


def reduce_inside() -> Schedule:
    return placed(matmul())


def with_reduce_between() -> Schedule:
    s = ready()
    s.reorder("r", "k", "o")
    return s


def shared_loops() -> Schedule:
    s = ready()
    s.compute_at("a_inp", "k")
    return s


def partly_copied() -> Schedule:
    x = te.placeholder((4, 1, 16), "int8", "x")
    c = te.compute((4, 1, 9), lambda p, b, o: wide(x[p, b, o]), "d")
    s = Schedule(te.create_function([x], [c], "part"))
    s.compute_at(s.cache_read("d", "x", "inp"), "p")
    return s


def summed(reduce: Callable[..., te.Value]) -> Schedule:
    s = element(lambda x, p, b, o: reduce(wide(x[p + t, b, o]), axis=t))
    p, b, o, step = s.loops("y")
    s.reorder(p, step, b, o)
    return s


ADD_FROM_ONE = te.reducer(lambda a, b: a + b, 1, "add_from_one")
FORM = "the value must have the form "
SHR = "int32(int64(old[vb, vo]) + (1 << int64(imm[0] & 31) >> 1) >> int64(imm[0] & 31))"

MISTAKES = [
    # -- loops
    Mistake(
        "the entry's loop is twice the intrinsic's extent",
        lambda: product(shape=(16, 32)),
        GEMM,
        "c",
        AT + "axis vi must have extent 16, got 32; declare that dimension as two, [2, 16], in the expression",
        instead(ready),
    ),
    Mistake(
        "... and is split to the intrinsic's extent",
        split_to_the_entry,
        GEMM,
        "c",
        AT
        + "axis vi must be one whole loop of extent 32 inside the tensorized loop, got i_o * 16 + i_i with i_o of 2, "
        "i_i of 16; declare that dimension as two, [2, 16], in the expression instead of splitting its loop",
        instead(ready),
    ),
    Mistake(
        "the entry's loop is no multiple of the intrinsic's extent",
        lambda: product(shape=(16, 24)),
        GEMM,
        "c",
        "tensorize gemm at block c: axis vi must have extent 16, got 24; pad that dimension to 32 and declare it "
        "as two, [2, 16], in the expression",
        instead(ready),
    ),
    Mistake(
        "the entry's loop is shorter than the intrinsic's extent",
        lambda: product(shape=(16, 8)),
        GEMM,
        "c",
        AT + "axis vi must have extent 16, got 8; pad that dimension to 16",
        instead(ready),
    ),
    Mistake(
        "a loop of the entry is split",
        split_entry,
        GEMM,
        -4,
        AT + "axis vi must be one whole loop of extent 16 inside the tensorized loop, got i_o * 4 + i_i with i_o of 4, "
        "i_i of 4; fuse('i_o', 'i_i') undoes its split",
        applied(("fuse", "i_o", "i_i")),
        (("c", GEMM),),
    ),
    Mistake(
        "a loop of the entry is split and its parts are apart",
        moved_part,
        GEMM,
        -3,
        AT + "axis vi must be one whole loop of extent 16 inside the tensorized loop, got i_o * 4 + i_i with i_i of 4; "
        "reorder its loops next to each other, then fuse('i_o', 'i_i') undoes its split",
        applied(("reorder", "r", "o", "i_o", "i_i"), ("fuse", "i_o", "i_i")),
        (("c", GEMM),),
    ),
    Mistake(
        "a loop between those of the entry",
        reduce_inside,
        GEMM,
        "c",
        AT + "operand inp must be one entry of a_inp, got index vk, which depends on axis vk inside the tensorized "
        "loop; reorder('k', 'r', 'o', 'i') puts it outside",
        applied(("reorder", "k", "r", "o", "i")),
    ),
    Mistake(
        "one loop too far out",
        ready,
        GEMM,
        -4,
        AT + "operand inp must be one entry of a_inp, got index vk, which depends on axis vk inside the tensorized "
        "loop; tensorize from loop r inwards",
        applied(),
        (("r", GEMM),),
    ),
    Mistake(
        "one loop too far in",
        ready,
        GEMM,
        -2,
        AT + "index vb of operand acc must be an axis inside the tensorized loop, got vr outside of it; "
        "tensorize from loop r inwards",
        applied(),
        (("r", GEMM),),
    ),
    Mistake(
        "a loop of the entry lies further out",
        with_reduce_between,
        GEMM,
        -2,
        AT + "index vb of operand acc must be an axis inside the tensorized loop, got vr outside of it; "
        "reorder('k', 'r', 'o', 'i'), then tensorize from loop r inwards",
        applied(("reorder", "k", "r", "o", "i")),
        (("r", GEMM),),
    ),
    Mistake(
        "another block in the loops of the entry",
        shared_loops,
        GEMM,
        "k",
        "tensorize gemm at loop k: the loops inside must hold a single block, got 2 statements; "
        "move the others out with compute_at or reverse_compute_at",
        applied(("compute_at", "a_inp", "m")),
        (("c", GEMM),),
    ),
    Mistake(
        "only part of an axis is copied",
        partly_copied,
        LOAD,
        "x_inp",
        "tensorize load_inp at block x_inp: axis vo must be one whole loop of extent 16 inside the tensorized "
        "loop, got x_inp_o with x_inp_o of 9; full_extent('x_inp', 'vo') computes all of it",
        applied(("full_extent", "x_inp", "vo")),
    ),
    # -- values
    Mistake(
        "the product is not widened",
        lambda: product(lambda a, b: a * b),
        GEMM,
        "c",
        "tensorize gemm at block c: operand acc must be int32, got c_acc of int8; cast the operands of the "
        'expression: te.cast("int32", ...)',
        instead(ready),
    ),
    Mistake(
        "the product is widened, not its factors",
        lambda: product(lambda a, b: wide(a * b)),
        GEMM,
        "c",
        "tensorize gemm at block c: the value must have the form int32(inp[vb, vi]) * int32(wgt[vo, vi]), got "
        "int32(a_inp[vk, vm, vr, vi] * b_wgt[vn, vk, vo, vi]); cast the operands, not the result: "
        'te.cast("int32", ...) * te.cast("int32", ...)',
        instead(ready),
    ),
    Mistake(
        "one factor is not widened",
        lambda: product(lambda a, b: a * wide(b), dtype="int32"),
        GEMM,
        "c",
        "tensorize gemm at block c: the value must have the form int32(inp[vb, vi]), got a_inp[vk, vm, vr, vi]; "
        'declare placeholder a as int8 and read it as te.cast("int32", ...)',
        instead(ready),
    ),
    Mistake(
        "a maximum for a sum",
        lambda: product(reduce=te.max),
        GEMM,
        "c",
        "tensorize gemm at block c: gemm accumulates by te.sum, got te.max; write the stage with te.sum",
        instead(ready),
    ),
    Mistake(
        "an extra term in the sum",
        lambda: product(lambda a, b: wide(a) * wide(b) + 1),
        GEMM,
        "c",
        "tensorize gemm at block c: the value must have the form int32(inp[vb, vi]) * int32(wgt[vo, vi]), got "
        "int32(a_inp[vk, vm, vr, vi]) * int32(b_wgt[vn, vk, vo, vi]) + 1; sum 1 in a stage of its own, "
        "and add the results",
        instead(lambda: then(lambda c: c + 32)),
        (("c", GEMM), ("y", ADD)),
    ),
    Mistake(
        "an extra factor in the sum",
        lambda: product(lambda a, b: 3 * (wide(a) * wide(b))),
        GEMM,
        "c",
        "tensorize gemm at block c: the value must have the form int32(inp[vb, vi]) * int32(wgt[vo, vi]), got 3 "
        "* (int32(a_inp[vk, vm, vr, vi]) * int32(b_wgt[vn, vk, vo, vi])); multiply the sum by 3 in a stage of its own",
        instead(lambda: then(lambda c: c * 3)),
        (("c", GEMM), ("y", vector.in_place(CONFIG, VectorOp.MUL, Operand.IMM))),
    ),
    Mistake(
        "operands of a type that the machine lacks",
        lambda: product(dtype="int16"),
        GEMM,
        "c",
        "tensorize gemm at block c: operand inp must be int8, got a_inp of int16; the machine has no int16 "
        "operand, so declare placeholder a as int8",
        instead(ready),
    ),
    Mistake(
        "a reduction where the intrinsic has none",
        lambda: summed(te.sum),
        MOVE,
        "y",
        "tensorize mov_inp_src at block y: mov_inp_src does not accumulate, so the block must be a plain "
        "computation, got a reduction; use an intrinsic that accumulates",
        instead(lambda: summed(te.sum)),
        (("y", vector.reduction(CONFIG, VectorOp.ADD)),),
    ),
    Mistake(
        "no reduction where the intrinsic accumulates",
        lambda: element(lambda x, *i: wide(x[i])),
        vector.reduction(CONFIG, VectorOp.MAX),
        "y",
        "tensorize max_reduce_inp at block y: max_reduce_inp accumulates, so the block must be a reduction, got "
        "a plain computation; write the stage as a reduction (te.max)",
        instead(lambda: summed(te.max)),
    ),
    Mistake(
        "sums that start from another value",
        lambda: summed(ADD_FROM_ONE),
        vector.reduction(CONFIG, VectorOp.ADD),
        "y",
        "tensorize add_reduce_inp at block y: the reduction must start from 0, got 1; start it from 0, and add "
        "the start value in a stage of its own",
        instead(sum_then_one),
        (("sum", vector.reduction(CONFIG, VectorOp.ADD)), ("y", ADD)),
    ),
    Mistake(
        "an extra operation on an element",
        lambda: element(lambda x, *i: wide(x[i]) + 3),
        MOVE,
        "y",
        "tensorize mov_inp_src at block y: the value must have the form int32(x[vb, vo]), got int32(x_inp[vi0, "
        "vi1, vi2]) + 3; compute ... + 3 in a stage of its own",
        instead(lambda: staged(lambda start, *i: start[i] + 3)),
        (("start", MOVE), ("y", ADD)),
    ),
    Mistake(
        "a constant minus an element",
        lambda: staged(lambda start, *i: 5 - start[i]),
        SUB,
        "y",
        "tensorize sub_inp_imm at block y: the value must have the form old[vb, vo] - imm[0], got 5 - start[vi0, "
        "vi1, vi2]; write the difference as ... * -1, and add 5 in a stage of its own",
        instead(lambda: staged(lambda start, *i: start[i] * -1)),
        (("y", MUL),),
    ),
    Mistake(
        "a negated element",
        lambda: staged(lambda start, *i: -start[i]),
        MUL,
        "y",
        "tensorize mul_inp_imm at block y: the value must have the form old[vb, vo] * imm[0], got 0 - start[vi0, "
        "vi1, vi2]; write the difference as ... * -1",
        instead(lambda: staged(lambda start, *i: start[i] * -1)),
    ),
    Mistake(
        "a maximum around a copy",
        lambda: element(lambda x, *i: te.maximum(x[i], 0), scopes=("global", "inp")),
        LOAD,
        "y",
        "tensorize load_inp at block y: the value must have the form data[vi0, vi1], got max(x[vi0, vi1, vi2], "
        "0); compute max(..., 0) in a stage of its own",
        instead(lambda: element(lambda x, *i: x[i], scopes=("global", "inp"))),
    ),
    Mistake(
        "an operand of another width",
        lambda: staged(lambda start, *i: start[i]),
        MOVE,
        "y",
        "tensorize mov_inp_src at block y: the value must have the form int32(x[vb, vo]), got start[vi0, vi1, "
        "vi2]; use an intrinsic whose operand is int32",
        applied(),
        (("y", vector.move(CONFIG, Operand.SRC, Source.ACC)),),
    ),
    Mistake(
        "an operand that is no constant",
        lambda: element(lambda x, p, b, o: wide(x[p, b, o]) * o),
        vector.product(CONFIG, Operand.IMM),
        "y",
        "tensorize product_inp_imm at block y: imm must be a constant of int32, got vi2; write a number, or use "
        "an intrinsic that reads that operand from a buffer",
        instead(lambda: element(lambda x, *i: wide(x[i]) * 7)),
    ),
    Mistake(
        "a clip with bounds of different magnitudes",
        lambda: staged(lambda start, *i: te.clip(start[i], -128, 127)),
        vector.in_place(CONFIG, VectorOp.CLIP, Operand.IMM),
        "y",
        "tensorize clip_inp_imm at block y: imm must be one constant, got 128 and 127; use the form "
        "min(max(old[vb, vo], 0 - imm[0]), imm[0]), or one stage for each constant",
        instead(clip_in_two),
        (
            ("low", vector.in_place(CONFIG, VectorOp.MAX, Operand.IMM)),
            ("y", vector.in_place(CONFIG, VectorOp.MIN, Operand.IMM)),
        ),
    ),
    Mistake(
        "a rounding shift with another term",
        lambda: staged(lambda start, *i: te.cast("int32", (te.cast("int64", start[i]) + 8) >> 5)),
        vector.in_place(CONFIG, VectorOp.SHR, Operand.IMM),
        "y",
        "tensorize shr_inp_imm at block y: 1 << int64(imm[0] & 31) >> 1 must be 16 for imm = 5, got 8; use the "
        "form int32(int64(old[vb, vo]) + (1 << int64(imm[0] & 31) >> 1) >> int64(imm[0] & 31))",
        instead(lambda: staged(lambda start, *i: te.cast("int32", (te.cast("int64", start[i]) + 16) >> 5))),
    ),
    # -- buffers
    Mistake(
        "the result is not in the accumulator",
        lambda: ordered(matmul()),
        GEMM,
        "c",
        AT + "operand acc must be in scope 'acc', got c in 'global'; cache_write('c', 'acc') puts it there",
        lambda s: placed(s),
    ),
    Mistake(
        "an operand is not on the chip",
        lambda: applied(("cache_write", "c", "acc"))(ordered(matmul())),
        GEMM,
        "c",
        AT + "operand inp must be in scope 'inp', got a in 'global'; cache_read('c', 'a', 'inp') puts it there",
        applied(("cache_read", "c", "a", "inp"), ("cache_read", "c", "b", "wgt")),
    ),
    Mistake(
        "an operand is in the wrong buffer",
        lambda: applied(("set_scope", "b_wgt", "inp"))(ready()),
        GEMM,
        "c",
        AT + "operand wgt must be in scope 'wgt', got b_wgt in 'inp'; set_scope('b_wgt', 'wgt') puts it there",
        applied(("set_scope", "b_wgt", "wgt")),
    ),
    Mistake(
        "a transposed operand",
        lambda: product(transposed=True),
        GEMM,
        "c",
        AT + "index vo of operand wgt must be axis vo as elsewhere, got vi in b_wgt; swap the last dimensions of that "
        "tensor",
        instead(ready),
    ),
    Mistake(
        "an operand that is not packed",
        lambda: product(flat=True),
        GEMM,
        "c",
        "tensorize gemm at block c: index vb of operand inp must be axis vr as elsewhere, got vm in a_inp; pack "
        "the tensor as [..., 1, 16], the entry last",
        instead(ready),
    ),
    Mistake(
        "elements with a stride",
        lambda: element(lambda x, p, b, o: wide(x[p, b, o * 2]), (4, 1, 32)),
        MOVE,
        "y",
        "tensorize mov_inp_src at block y: index vo of operand x must be one axis with stride 1, got vi2 * 2 in "
        "x_inp; pack the tensor as [..., 1, 16], the entry last",
        instead(lambda: element(lambda x, p, b, o: wide(x[p, 0, b, o]), (4, 2, 1, 16))),
    ),
    Mistake(
        "part of the last dimension",
        lambda: element(lambda x, p, b, o: wide(x[p, b, o]), (4, 1, 32)),
        MOVE,
        "y",
        "tensorize mov_inp_src at block y: the last dimensions of operand x must be [1, 16], one entry, got "
        "x_inp of [4, 1, 32]; pack the tensor as [..., 1, 16], the entry last",
        instead(lambda: element(lambda x, p, b, o: wide(x[p, 0, b, o]), (4, 2, 1, 16))),
    ),
    Mistake(
        "too few dimensions",
        lambda: element(lambda x, p, b, o: wide(x[o]), (16,)),
        MOVE,
        "y",
        "tensorize mov_inp_src at block y: operand x must have dimensions [1, 16], got x_inp of [16]; pack the "
        "tensor as [..., 1, 16], the entry last",
        instead(lambda: element(lambda x, p, b, o: wide(x[b, o]), (1, 16))),
    ),
    Mistake(
        "padding inside of an entry",
        lambda: element(lambda x, p, b, o: te.select(o < 3, x[p, b, o], te.const(0, "int8")), scopes=("global", "inp")),
        LOAD,
        "y",
        "tensorize load_inp at block y: inside must be the same for a whole entry, got vi2 < 3, which depends on "
        "axis vi2; put the condition on the leading indices, and pad the tensor itself along that axis",
        instead(
            lambda: element(
                lambda x, p, b, o: te.select(p < 3, x[p, b, o], te.const(0, "int8")), scopes=("global", "inp")
            )
        ),
    ),
    Mistake(
        "padding that depends on data",
        lambda: element(
            lambda x, p, b, o: te.select(x[p, b, o] > 3, x[p, b, o], te.const(0, "int8")), scopes=("global", "inp")
        ),
        LOAD,
        "y",
        "tensorize load_inp at block y: inside must be a condition on loop variables, got x[vi0, vi1, vi2] > 3; "
        "compute the select in a stage that does not use load_inp",
        instead(
            lambda: element(
                lambda x, p, b, o: te.select(p < 3, x[p, b, o], te.const(0, "int8")), scopes=("global", "inp")
            )
        ),
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_remedy_of_each_message_works(mistake: Mistake) -> None:
    s = mistake.wrong()
    with pytest.raises(TensorizeError) as error:
        tensorize(s, mistake.at, mistake.intrinsic)
    assert str(error.value) == mistake.message
    s = mistake.right(s)
    for name, intrinsic in mistake.then or ((mistake.at, mistake.intrinsic),):
        tensorize(s, name, intrinsic)

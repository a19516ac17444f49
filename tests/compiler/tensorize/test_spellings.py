# SPDX-License-Identifier: Apache-2.0
"""Every spelling of an element-wise operation is a step of the same intrinsic, and the machine
computes its value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, requantise, vector
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, VectorOp
from vdla.simulator.simulate import Mode, simulate

CONFIG = Config.preset("tiny")
SHAPE = (60, CONFIG.batch, CONFIG.block_out)
Spelling = Callable[[te.Value], te.Value]


def wide(x: te.Value) -> te.Value:
    return te.cast("int64", x)


def narrow(x: te.Value) -> te.Value:
    return te.cast("int32", x)


SPELLINGS: dict[tuple[VectorOp, str, int], list[Spelling]] = {
    (VectorOp.ADD, "add_inp_imm", 5): [
        lambda x: x + 5,
        lambda x: 5 + x,
        lambda x: x - (-5),
        lambda x: (x + 2) + 3,
        lambda x: 7 + (x - 2),
    ],
    (VectorOp.ADD, "add_inp_imm", -5): [lambda x: x - 5, lambda x: x + te.const(-5, "int32")],
    (VectorOp.SUB, "sub_inp_imm", 5): [lambda x: x - 5, lambda x: -5 + x],
    (VectorOp.MUL, "mul_inp_imm", 3): [lambda x: x * 3, lambda x: 3 * x],
    (VectorOp.MUL, "mul_inp_imm", 16): [lambda x: x << 4, lambda x: x * 4 * 4],
    (VectorOp.MIN, "min_inp_imm", 6): [lambda x: te.minimum(6, x), lambda x: te.select(x < 6, x, 6)],
    (VectorOp.MAX, "max_inp_imm", 0): [
        lambda x: te.maximum(x, 0),
        lambda x: te.select(x > 0, x, 0),
        lambda x: te.select(x >= 0, x, 0),
        lambda x: te.select(x < 0, 0, x),
    ],
    (VectorOp.SHL, "shl_inp_imm", 5): [
        lambda x: x << 5,
        lambda x: x << te.const(5, "int32"),
        lambda x: x << (te.const(37, "int32") & 31),
        lambda x: x * 32,
        lambda x: (x << 2) << 3,
    ],
    (VectorOp.SHL, "shl_inp_imm", 31): [lambda x: x << 31],
    (VectorOp.SHR, "shr_inp_imm", 5): [
        lambda x: narrow((wide(x) + 16) >> 5),
        lambda x: narrow((16 + wide(x)) >> 5),
        lambda x: narrow((wide(x) + 16) // 32),
        lambda x: narrow((wide(x) + ((te.const(1, "int64") << 5) >> 1)) >> 5),
    ],
    (VectorOp.SHR, "floor_shift", 5): [lambda x: x >> 5, lambda x: x // 32, lambda x: narrow(wide(x) >> 5)],
    (VectorOp.SHR, "floor_shift", 1): [lambda x: x >> 1],
    (VectorOp.SHR, "floor_shift", 20): [lambda x: x >> 20, lambda x: (x >> 4) >> 16],
    (VectorOp.CLIP, "clip_inp_imm", 127): [
        lambda x: te.clip(x, -127, 127),
        lambda x: te.minimum(te.maximum(-127, x), 127),
        lambda x: te.minimum(127, te.maximum(x, -127)),
        lambda x: te.maximum(te.minimum(x, 127), -127),
        lambda x: te.maximum(-127, te.minimum(127, x)),
    ],
}
CASES = [(*key, spelling) for key, spellings in SPELLINGS.items() for spelling in spellings]


@pytest.mark.parametrize(("op", "name", "imm", "spelling"), CASES)
def test_every_spelling_matches_its_intrinsic(op: VectorOp, name: str, imm: int, spelling: Spelling) -> None:
    high, low = te.placeholder(SHAPE, "int8", "high"), te.placeholder(SHAPE, "int8", "low")
    start = te.compute(SHAPE, lambda *i: te.cast("int32", high[i]), "start")
    top = te.compute(SHAPE, lambda *i: start[i] << 24, "top")
    both = te.compute(SHAPE, lambda *i: top[i] + te.cast("int32", low[i]), "both")
    sums = te.compute(SHAPE, lambda *i: spelling(both[i]), "sums")
    results = te.compute(SHAPE, lambda *i: sums[i], "results")
    output = te.compute(SHAPE, lambda *i: results[i], "output")
    s = Schedule(te.create_function([high, low], [output], "spelling"))
    for stage in ("start", "top", "both", "sums"):
        s.set_scope(stage, "acc")
    s.set_scope("results", "out")
    for stage, tensor in (("start", "high"), ("both", "low")):
        s.tensorize(s.cache_read(stage, tensor, "inp"), dma.load(CONFIG, Buffer.INP))
    s.tensorize("start", vector.move(CONFIG, Operand.SRC))
    s.tensorize("top", vector.in_place(CONFIG, VectorOp.SHL, Operand.IMM))
    s.tensorize("both", vector.in_place(CONFIG, VectorOp.ADD, Operand.SRC))
    s.tensorize("sums", vector.in_place(CONFIG, op, Operand.IMM))
    s.tensorize("results", requantise.raw(CONFIG))
    s.tensorize("output", dma.store(CONFIG, raw=True))
    match = next(b for b in ir.walk(s.fn.body) if isinstance(b, ir.Block) and b.name == "sums").annotations["intrinsic"]
    assert (match.intrinsic.name, match.immediates) == (name, {"imm": imm})
    rng = np.random.default_rng(0)
    arrays = {t: rng.integers(-128, 128, SHAPE).astype(np.int8) for t in ("high", "low")}
    arrays["high"][:20] = -128  # sums around the lowest int32
    found = simulate(compile_function(CONFIG, s.fn), arrays, mode=Mode.FUNCTION).outputs["output"]
    np.testing.assert_array_equal(found, interpret(s.fn, arrays)["output"])

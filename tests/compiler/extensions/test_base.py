# SPDX-License-Identifier: Apache-2.0
"""The machine's own instructions as declarations: they compute and read what the machine does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.intrinsics import requantise
from vdla.compiler.extensions import base
from vdla.compiler.extensions.step_text import StepText
from vdla.hardware.config import Config
from vdla.hardware.isa import (
    GEMM_PORTS,
    Gemm,
    OldSum,
    Operand,
    Source,
    Vector,
    VectorOp,
    instruction_columns,
    vector_ports,
)
from vdla.hardware.numerics import pack_scale
from vdla.hardware.numerics import requantise as reference
from vdla.hardware.timing import extension_step
from vdla.simulator.function import extension_arithmetic, kernels

MACHINE = replace(Config.preset("tiny"), batch=2, block_in=4, block_out=8, inp_kib=2, acc_kib=4)
"""A vector of activations is two entries, one of weights half of one."""
EVERY = np.array([-(1 << 31), (1 << 31) - 1, -1, 0, 1, 5, 1 << 30], np.int64)

INP, ACC = Source.INP, Source.ACC
SRC, WGT, IMM = Operand.SRC, Operand.WGT, Operand.IMM
FORMS = [
    *((base.reduction(MACHINE, op, source), op, source, SRC, init)
      for op in base.REDUCERS for source in (INP, ACC) for init in (0, 1)),
    *((base.in_place(MACHINE, op, operand), op, INP, operand, 0) for op in base.COMBINE for operand in (SRC, WGT, IMM)),
    *((base.mac(MACHINE, operand, INP), VectorOp.MAC, INP, operand, init) for operand in (WGT, IMM) for init in (0, 1)),
    (base.mac_in_place(MACHINE, WGT, ACC), VectorOp.MAC, ACC, WGT, 0),
    (base.product(MACHINE, IMM), VectorOp.MAC, INP, IMM, 1),
    *((base.move(MACHINE, operand), VectorOp.MOV, INP, operand, 1) for operand in (SRC, WGT, IMM)),
]  # fmt: skip
"""VECTOR as it is declared: a declaration, fields of the instruction, whether it starts sums."""


def step_of(text):
    """The function of a step's text, run by Python."""
    names = ("divide", "narrow", "remainder", "shift_left", "shift_right")
    space = {"np": np, **{name: getattr(extension_arithmetic, name).py_func for name in names}}
    exec(text, space)
    return space["step"]


def buffers(rng):
    """(acc, inp, wgt): random entries, some of them at the limits of their type."""
    acc = rng.choice(EVERY, (2, 2 * 8)).astype(np.int32)
    return acc, rng.integers(-128, 128, (2, 2 * 4), np.int8), rng.integers(-128, 128, (2, 8 * 4), np.int8)


def executed(instruction, run, operands, acc):
    """The accumulator after one iteration of a hand-written kernel."""
    row = instruction_columns(MACHINE, [instruction])[0]
    uops = np.array([[0, 0, 0, 1, 0]], np.int64)
    out = np.zeros((1, MACHINE.out_entry_bytes), np.uint8)
    result = acc.copy()
    run(row, uops, *operands, result, np.zeros((1, 8), np.int64), out, result[:1].copy(), 8)
    return result[0]


def computed(declared, acc, src, wgt, imm, begin):
    """The entry that the text of a declared step gives; the source is the second entry of `acc`."""
    new = np.zeros(2 * 8, np.int32)
    step_of(declared.described(MACHINE, declared.name).kernel)(new, acc[0], src, wgt, [imm], begin)
    return new


@pytest.mark.parametrize("init", [0, 1])
def test_the_text_of_gemm_computes_what_the_kernel_does(init):
    acc, inp, wgt = buffers(np.random.default_rng(init))
    found = computed(base.gemm(MACHINE), acc, inp[0], wgt[0], 0, init)
    operands = inp.reshape(2, 2, 4), wgt.reshape(2, 8, 4)
    assert found.tolist() == executed(Gemm(init=init), kernels.gemm, operands, acc).tolist()


@pytest.mark.filterwarnings("ignore:overflow encountered")  # scalars of NumPy warn where they wrap
@pytest.mark.parametrize(
    ("declared", "op", "source", "operand", "init"), FORMS, ids=lambda value: getattr(value, "name", str(value))
)
def test_the_texts_of_vector_compute_what_the_kernel_does(declared, op, source, operand, init):
    rng = np.random.default_rng(op)
    acc, inp, wgt = buffers(rng)
    imm = int(rng.integers(-40, 40)) if operand is IMM else 0
    read = source if declared.operands(MACHINE).src is not None else ACC
    where = {"src": 1} if read is ACC and "x" in declared.scopes else {}
    instruction = Vector(op, operand, read, imm, init=init, **where)
    src = acc[1] if read is ACC else inp.reshape(1, -1)[0]
    found = computed(declared, acc, src, wgt.reshape(-1, 8)[0], imm, init)
    operands = inp.reshape(1, -1), wgt.reshape(-1, 8)
    assert found.tolist() == executed(instruction, kernels.vector, operands, acc).tolist()


def test_the_ports_of_declarations_are_those_of_the_machine():
    assert base.gemm(MACHINE).described(MACHINE, "gemm").ports == GEMM_PORTS
    for declared, op, source, operand, _ in FORMS:
        ports, own = declared.described(MACHINE, declared.name).ports, vector_ports(op, source, operand)
        assert (ports.src, ports.wgt) == (own.src, own.wgt), declared.name
        starts = declared.output.stage.reduction is None and declared.in_place is None
        assert (ports.old is OldSum.OVERWRITE) == starts, declared.name
        assert own.old is (OldSum.OVERWRITE if op is VectorOp.MOV else OldSum.ACCUMULATE)


def test_a_step_of_gemm_takes_a_cycle():
    assert extension_step(base.gemm(MACHINE).described(MACHINE, "gemm"), str) == 1


def test_the_text_of_requantisation_computes_what_the_machine_does():
    rng = np.random.default_rng(0)
    behaviour = requantise.requantise(MACHINE).behaviour
    names = ("zero_point", "clip_lo", "clip_hi")
    fields = {name: (number, (-128, 127)) for number, name in enumerate(names)}
    text = StepText("", behaviour, {"acc": "old", "scl": "scale", "out": "new"}, fields, {})
    step = step_of(text.text("step(new, old, scale, fields)"))
    for _ in range(10):
        sums = rng.integers(-(1 << 31), 1 << 31, 16).astype(np.int32)
        lanes = pack_scale(*(rng.integers(low, high, 8) for low, high in ((-1000, 1000), (0, 1 << 24), (0, 50))))
        new = np.zeros(16, np.int8)
        with np.errstate(over="ignore"):
            step(new, sums, lanes.view(np.int64), (3, -100, 90))
        assert new.tolist() == reference(sums.reshape(2, 8), lanes, 3, -100, 90, 8).reshape(-1).tolist()

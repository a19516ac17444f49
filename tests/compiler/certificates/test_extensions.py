# SPDX-License-Identifier: Apache-2.0
"""Certificates of programs with instructions of extensions, and of stages on the way out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.hand_programs import BEATS, program
from helpers.stateful import depthwise, table

import vdla
from vdla import Config, te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.program_run import run_program
from vdla.compiler.certificates.symbols import numbers
from vdla.compiler.extensions import extend
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, EXTENSION, Emit, Gemm, Load, StagedEmit, Store, isa_of, with_fields
from vdla.verification.programs.random_data import random_arrays

TINY = Config.preset("tiny")


def wide(value: te.Value) -> te.Value:
    return te.cast("int32", value)


def absolute(config: Config) -> vdla.Extension:
    """Sums of absolute differences."""
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    acc = te.compute(
        (config.batch, config.block_out),
        lambda b, o: te.sum(te.abs(wide(inp[b, i]) - wide(wgt[o, i])), axis=i),
        "acc",
    )
    return vdla.Extension(name="absolute", doc="Adds absolute differences.", output=acc, scopes=SCOPES)


SCOPES = {"inp": "inp", "wgt": "wgt", "acc": "acc"}


def distances(spelling: str = "difference") -> te.Tensor:
    a, b = te.placeholder((3, 8), "int8", "a"), te.placeholder((6, 8), "int8", "b")
    k = te.reduce_axis(8, "k")
    term = {
        "difference": lambda x, y: te.abs(wide(a[x, k]) - wide(b[y, k])),
        "sum": lambda x, y: te.abs(wide(a[x, k]) + wide(b[y, k])),
    }[spelling]
    return te.compute((3, 6), lambda x, y: te.sum(term(x, y), axis=k), "distances")


@pytest.fixture(scope="module")
def operator() -> vdla.MappedOperator:
    return vdla.map_expression(distances(), extend(TINY, absolute))


def test_a_program_of_an_extension_holds(operator: vdla.MappedOperator) -> None:
    assert (operator.program.columns[:, COL["opcode"]] == EXTENSION).any()
    assert certify(operator).holds


def test_another_expression_or_instruction_does_not_hold(operator: vdla.MappedOperator) -> None:
    assert certify(operator, distances("sum"), explain=False).differing == 18
    program, words = operator.program, operator.program.words.copy()
    index = int(np.flatnonzero(program.columns[:, COL["opcode"]] == EXTENSION)[0])
    words[index] = with_fields(program.config, words[index : index + 1], {"src": np.array([1])})[0]
    assert not certify(operator, program=replace(program, words=words), explain=False).holds


def test_the_symbolic_run_on_numbers_is_the_simulation(operator: vdla.MappedOperator) -> None:
    arrays = random_arrays(operator.program, 5)
    outputs = run_program(operator.program, {name: numbers(array) for name, array in arrays.items()})
    for name, simulated in vdla.simulate(operator.program, arrays).outputs.items():
        assert (outputs[name]["low"] == simulated).all()


STATEFUL = extend(TINY, table, depthwise)
TABLE_LOAD, DW, DW_CLEAR, DW_TAPS = (
    isa_of(STATEFUL).format_named(name).cls for name in ("table_load", "dw", "dw_clear", "dw_taps")
)
LOOK_UP = (
    Load(Buffer.UOP),
    Load(Buffer.WGT, x_size=17),  # the table is behind the weights
    Load(Buffer.SCL),
    Load(Buffer.INP, x_size=16, push_next=1),
    TABLE_LOAD(loop0=64, acc0=1, wgt=4, wgt0=1, pop_prev=1),
    Gemm(loop0=16, acc0=1, src0=1, init=1, emit=StagedEmit.STAGE, clip_lo=-128, clip_hi=127, push_next=1),
    Store(x_size=16, pop_prev=1),
)
TAPS = (
    Load(Buffer.UOP),
    Load(Buffer.WGT, x_size=3),
    Load(Buffer.INP, x_size=8, push_next=1),
    DW_CLEAR(loop0=8, acc0=1),
    DW_TAPS(loop0=9, acc0=1, wgt0=1, pop_prev=1),
    DW(loop0=8, acc0=1, src0=1, emit=Emit.RAW, push_next=1),
    Store(x_size=32, pop_prev=1),
)


@pytest.mark.parametrize(("steps", "out"), [(LOOK_UP, "int8"), (TAPS, "int32")], ids=["stage", "state"])
def test_states_and_stages_on_numbers_are_the_simulation(steps: tuple[object, ...], out: str) -> None:
    work = program(*steps, config=STATEFUL, beats={**BEATS, "weight": 17 * 4, "out": 32})
    work = of_dtypes(work, {"scale": "int64", "bias": "int32", "out": out})
    arrays = random_arrays(work, 3)
    outputs = run_program(work, {name: numbers(array.view(f"i{array.itemsize}")) for name, array in arrays.items()})
    simulated = vdla.simulate(work, arrays).outputs["out"]
    stored = 4 * 16 if out == "int8" else 32
    assert np.count_nonzero(simulated.reshape(-1)[:stored]) > stored // 4
    assert (outputs["out"]["low"].reshape(-1)[:stored] == simulated.reshape(-1)[:stored]).all()


def of_dtypes(work: vdla.Program, dtypes: dict[str, str]) -> vdla.Program:
    """A program with tensors of bytes as tensors of other types."""
    tensors = tuple(
        replace(one, dtype=dtypes[one.name], shape=(one.nbytes // np.dtype(dtypes[one.name]).itemsize,))
        if one.name in dtypes
        else one
        for one in work.tensors
    )
    return replace(work, tensors=tensors)

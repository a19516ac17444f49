# SPDX-License-Identifier: Apache-2.0
"""The formulas of `hardware.timing` give the simulator's cycles of uncontended instructions."""

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.codegen.vdla.compile import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise
from vdla.compiler.schedule import Schedule
from vdla.hardware import timing
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Opcode
from vdla.simulator.timing import time_program

ROWS = 24


def one_of_each(config: Config) -> Schedule:
    """A row of inputs times one block of weights: one instruction for each stage."""
    a = te.placeholder((ROWS, config.batch, config.block_in), config.inp_dtype, "a")
    w = te.placeholder((1, config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(config.block_in, "i")
    shape = (ROWS, config.batch, config.block_out)
    sums = te.compute(
        shape,
        lambda m, b, o: te.sum(te.cast("int32", a[m, b, i]) * te.cast("int32", w[0, o, i]), axis=i),
        "sums",
    )
    results = te.compute(shape, lambda *i: sums[i], "results")
    out = te.compute(shape, lambda *i: results[i], "out")
    s = Schedule(te.create_function([a, w], [out], "one"))
    s.set_scope("sums", "acc")
    s.set_scope("results", "out")
    intrinsics = {
        s.cache_read("sums", "w", "wgt"): dma.load(config, Buffer.WGT),
        s.cache_read("sums", "a", "inp"): dma.load(config, Buffer.INP),
        "sums": gemm.gemm(config),
        "results": requantise.raw(config),
        "out": dma.store(config, raw=True),
    }
    for stage, intrinsic in intrinsics.items():
        s.tensorize(s.loops(stage)[-3 if stage == "sums" else -2], intrinsic)
    return s


@pytest.mark.parametrize("name", ["pynq_z1", "ultra96", "int4"])
def test_an_uncontended_instruction_takes_the_cycles_of_its_formula(name):
    config = Config.preset(name)
    program = compile_function(config, one_of_each(config).fn)
    stats = time_program(program)
    took = stats.ends - stats.starts
    opcodes, buffers = program.columns[:, COL["opcode"]], program.columns[:, COL["buffer"]]
    weights = np.flatnonzero((opcodes == Opcode.LOAD) & (buffers == Buffer.WGT))
    compute = timing.compute_cycles(config, ROWS)
    assert took[weights].tolist() == [timing.load_cycles(config, config.wgt_entry_bytes // config.axi_bytes)]
    assert took[opcodes == Opcode.GEMM].tolist() == took[opcodes == Opcode.VECTOR].tolist() == [compute]
    store = timing.store_cycles(config, ROWS * config.acc_entry_bytes // config.axi_bytes)
    assert took[opcodes == Opcode.STORE].tolist() == [store]

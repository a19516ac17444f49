# SPDX-License-Identifier: Apache-2.0
"""An intermediate buffer in DRAM becomes a scratch tensor."""

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.codegen.vdla.intrinsics import dma, requantise, vector
from vdla.compiler.interpret import interpret
from vdla.compiler.schedule import Schedule
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, VectorOp
from vdla.hardware.program import Program
from vdla.runtime.devices.run import run
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify

ROWS = 40


def two_stages(config: Config) -> Schedule:
    """out = (x + 5) * 3 in two passes from DRAM to DRAM, with `mid` between them."""
    shape = (ROWS, config.batch, config.block_out)
    x = te.placeholder(shape, "int32", "x")
    raised = te.compute(shape, lambda *i: x[i] + 5, "raised")
    raised_out = te.compute(shape, lambda *i: raised[i], "raised_out")
    mid = te.compute(shape, lambda *i: raised_out[i], "mid")
    scaled = te.compute(shape, lambda *i: mid[i] * 3, "scaled")
    scaled_out = te.compute(shape, lambda *i: scaled[i], "scaled_out")
    out = te.compute(shape, lambda *i: scaled_out[i], "out")
    s = Schedule(te.create_function([x], [out], "two_stages"))
    stages = {}
    for stage, source, op in (("raised", "x", VectorOp.ADD), ("scaled", "mid", VectorOp.MUL)):
        s.set_scope(stage, "acc")
        s.set_scope(f"{stage}_out", "out")
        stages[s.cache_read(stage, source, "acc")] = dma.load(config, Buffer.ACC)
        stages[stage] = vector.in_place(config, op, Operand.IMM)
        stages[f"{stage}_out"] = requantise.raw(config)
    for name, intrinsic in (stages | {"mid": dma.store(config, raw=True), "out": dma.store(config, raw=True)}).items():
        s.tensorize(name, intrinsic)
    return s


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_function(Config.preset("tiny"), two_stages(Config.preset("tiny")).fn)


def inputs(program: Program) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).integers(-(1 << 20), 1 << 20, program.tensor("x").shape, np.int32)}


def test_the_intermediate_is_a_scratch_tensor(program):
    roles = {tensor.name: tensor.role for tensor in program.tensors}
    assert roles == {"x": "input", "out": "output", "mid": "scratch", "uops": "constant"}
    assert program.tensor("mid").nbytes == program.tensor("out").nbytes
    verify(program).raise_if_bad()


def test_both_stages_run_on_the_simulator(program):
    arrays = inputs(program)
    result = simulate(program, arrays)
    assert list(result.outputs) == ["out"]
    np.testing.assert_array_equal(result.outputs["out"], (arrays["x"] + 5) * 3)
    np.testing.assert_array_equal(interpret(two_stages(program.config).fn, arrays)["out"], result.outputs["out"])
    np.testing.assert_array_equal(run(program, arrays).outputs["out"], result.outputs["out"])


@pytest.mark.rtl
def test_both_stages_run_on_the_rtl(program):
    arrays = inputs(program)
    np.testing.assert_array_equal(run(program, arrays, device="rtl").outputs["out"], (arrays["x"] + 5) * 3)


def test_a_program_file_keeps_the_scratch_tensor(program, tmp_path):
    program.save(tmp_path / "two.vdla")
    loaded = Program.load(tmp_path / "two.vdla")
    assert loaded.hash == program.hash and loaded.tensor("mid").role == "scratch"

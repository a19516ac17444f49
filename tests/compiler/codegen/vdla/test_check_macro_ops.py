# SPDX-License-Identifier: Apache-2.0
"""Touches equal those of a naive model, for every base, loop, view and configuration."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.program_model import accesses_of

from vdla.compiler.codegen.vdla.check_macro_ops import MacroOpChecker
from vdla.compiler.codegen.vdla.dependences import Touch
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, MicroOp, Operand, Source, Store, Vector, VectorOp, Where
from vdla.hardware.program import ProgramTensor

CONFIGS = [
    Config(),
    Config.preset("int4"),
    Config.preset("batch4"),
    Config(block_in=8, block_out=32, scl_kib=16),
    Config(block_in=64, block_out=8),
]
PARAMETERS = pytest.mark.parametrize(
    "config", CONFIGS, ids=lambda config: f"{config.name}-{config.block_in}x{config.block_out}"
)
TENSOR = ProgramTensor(name="t", role="scratch", shape=(1 << 24,), dtype="int8", layout="", nbytes=1 << 24)
LOADS_T, STORES_T = MacroOp(Load(Buffer.INP), tensor="t"), MacroOp(Store(), tensor="t")
Looped = Gemm | Vector


def entries(where: Where) -> list[int]:
    return list(range(where.start, where.stop)) if isinstance(where, slice) else where.tolist()


def naive(config: Config, instruction: Looped | Load | Store, kernel: tuple[MicroOp, ...]) -> set[tuple[object, int]]:
    accesses = accesses_of(config, instruction, dict(enumerate(kernel)), 0)
    return {(space, entry) for space, entry, _ in accesses}


def random_looped(rng: np.random.Generator) -> Looped:
    def some(high: int) -> int:
        return int(rng.integers(high))

    steps = {f"{name}{loop}": some(6) for name in ("acc", "src", "wgt", "scl") for loop in (0, 1)}
    bases = {name: some(20) for name in ("acc", "src", "wgt", "out", "scl")}
    fields = {"uop_end": 3, "loop0": 1 + some(4), "loop1": 1 + some(4), "emit": Emit(some(3)), **steps, **bases}
    if some(3) == 0:
        return Gemm(**fields)
    return Vector(VectorOp(some(10)), Operand(some(3)), Source(some(2)), **fields)


def touches(config: Config, op: MacroOp) -> tuple[Touch, ...]:
    """The touches of an operation whose tiles begin at 0 and fill their buffers."""
    toucher = MacroOpChecker(config, (op, LOADS_T, STORES_T), dict.fromkeys(op.tiles(), 0), (TENSOR,))
    return toucher.touches(0, op, isa.instruction_columns(config, [op.instruction])[0].tolist())


def whole(config: Config, buffer: Buffer) -> tuple[BufferTile, int]:
    return BufferTile(buffer.name, buffer, config.depths[buffer]), 0


def check(config: Config, op: MacroOp) -> None:
    got: set[tuple[object, int]] = set()
    for touch in touches(config, op):
        assert entries(touch.where) == sorted(set(entries(touch.where)))
        if isinstance(touch.space, Buffer):
            got |= {(touch.space, entry) for entry in entries(touch.where)}
        else:
            width = config.axi_bytes
            got |= {(("dram", 0), beat * width + i) for beat in entries(touch.where) for i in range(width)}
    assert got == naive(config, op.instruction, op.uops)


@PARAMETERS
def test_touches_of_gemm_and_vector_equal_the_model(config):
    for seed in range(120):
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        instruction = random_looped(rng)
        kernel = tuple(MicroOp(*map(int, rng.integers(0, (6, 6, 6, 2, 2)))) for _ in range(3))
        src = Buffer.INP if isinstance(instruction, Gemm) or instruction.source == Source.INP else Buffer.ACC
        buffers = {"acc": Buffer.ACC, "src": src, "wgt": Buffer.WGT, "out": Buffer.OUT, "scl": Buffer.SCL}
        check(config, MacroOp(instruction, {name: whole(config, b) for name, b in buffers.items()}, kernel))


@PARAMETERS
@pytest.mark.parametrize(
    "dma",
    [
        Load(
            Buffer.INP,
            sram=3,
            dram=8,
            z_size=2,
            y_size=3,
            x_size=2,
            z_stride=4096,
            y_stride=1024,
            y_before=1,
            x_after=2,
        ),
        Load(Buffer.ACC, x_size=5, widen=1),
        Load(Buffer.ACC, sram=7, y_size=0, y_before=2, x_size=3),
        Load(Buffer.SCL, x_size=2, dram=1 << 18),
        Store(sram=5, dram=16, z_size=2, y_size=2, x_size=3, z_stride=512, y_stride=1),
    ],
)
def test_touches_of_dma_equal_the_model(config, dma):
    tile = whole(config, Buffer.OUT if isinstance(dma, Store) else dma.buffer)
    check(config, MacroOp(dma, {"sram": tile}, tensor="t" if dma.y_size else None))


def test_contiguous_entries_are_a_slice():
    config = Config()
    gemm = Gemm(loop0=3, src0=4, loop1=4, src1=1, uop_end=1, src=9)
    bases = {"acc": Buffer.ACC, "src": Buffer.INP, "wgt": Buffer.WGT}
    op = MacroOp(gemm, {name: whole(config, buffer) for name, buffer in bases.items()}, (MicroOp(),))
    assert next(t.where for t in touches(config, op) if t.space == Buffer.INP) == slice(9, 21)


def test_a_tensor_that_is_only_loaded_causes_no_dependence():
    config = Config()
    op = MacroOp(Load(Buffer.INP), {"sram": whole(config, Buffer.INP)}, tensor="t")
    toucher = MacroOpChecker(config, (op,), dict.fromkeys(op.tiles(), 0), (TENSOR,))
    row = isa.instruction_columns(config, [op.instruction])[0].tolist()
    assert [touch.space for touch in toucher.touches(0, op, row)] == [Buffer.INP]

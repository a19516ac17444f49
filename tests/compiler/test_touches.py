"""Footprints are exactly what the naive model touches, for every base, loop, view and configuration."""

from __future__ import annotations

import numpy as np
import pytest
from program_model import accesses_of

from vdla.compiler.dependences import Where
from vdla.compiler.touches import Footprints
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, MicroOp, Operand, Source, Store, Vector, VectorOp

CONFIGS = [
    Config(),
    Config.preset("int4"),
    Config.preset("batch4"),
    Config(block_in=8, block_out=32),
    Config(block_in=64, block_out=8),
]
PARAMETERS = pytest.mark.parametrize(
    "config", CONFIGS, ids=lambda config: f"{config.name}-{config.block_in}x{config.block_out}"
)
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


@PARAMETERS
def test_looped_instructions(config):
    footprints = Footprints(config)
    for seed in range(120):
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        instruction = random_looped(rng)
        kernel = tuple(MicroOp(*map(int, rng.integers(0, (6, 6, 6, 2, 2)))) for _ in range(3))
        got: set[tuple[object, int]] = set()
        for _, buffer, where in footprints.on_chip(instruction, kernel):
            assert entries(where) == sorted(set(entries(where)))
            got |= {(buffer, entry) for entry in entries(where)}
        assert got == naive(config, instruction, kernel)


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
        Load(Buffer.SCL, x_size=2, dram=1 << 20),
        Store(sram=5, dram=16, z_size=2, y_size=2, x_size=3, z_stride=512, y_stride=1),
    ],
)
def test_dma(config, dma):
    footprints = Footprints(config)
    got = {(buffer, entry) for _, buffer, where in footprints.on_chip(dma, ()) for entry in entries(where)}
    beats = footprints.dram_beats(dma).tolist()
    bytes_ = {beat * config.axi_bytes + i for beat in beats for i in range(config.axi_bytes)}
    assert got | {(("dram", 0), byte) for byte in bytes_} == naive(config, dma, ())
    low, end = footprints.dram_range(dma)
    assert (low, end) == ((min(beats), max(beats) + 1) if beats else (dma.dram, dma.dram))


def test_contiguous_entries_are_a_slice():
    footprints = Footprints(Config())
    gemm = Gemm(loop0=3, src0=4, loop1=4, src1=1, uop_end=1, src=9)
    assert dict((name, where) for name, _, where in footprints.on_chip(gemm, (MicroOp(),)))["src"] == slice(9, 21)

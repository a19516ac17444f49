# SPDX-License-Identifier: Apache-2.0
"""A finished program computes as part of a chain what it computes alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.compiler.codegen.vdla import LoweringError, ProgramLink, chain, compile_chain
from vdla.compiler.codegen.vdla.lift import lift, lift_tiles
from vdla.compiler.codegen.vdla.merge_loads import merge_loads
from vdla.compiler.extensions import LayerError, extend
from vdla.compiler.layer_programs import channel_product
from vdla.compiler.layer_programs.through_stage import table_program
from vdla.compiler.operators.definitions import scaling
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Gemm, Load, MicroOp, Opcode, Store, Sync, encode, encode_uops
from vdla.hardware.numerics import pack_scale, requantise, scales_from_floats
from vdla.hardware.program import UOPS, Program
from vdla.simulator.simulate import simulate

EXAMPLES = Path(__file__).parents[4] / "examples"
PRESETS = ("tiny", "int4", "batch4", "pynq_z1")


def chained(config: Config, parts: list[tuple[Program, dict[str, str]]], outputs: list[str]) -> Program:
    """The programs as one, with tensors by their names in the whole."""
    links = [ProgramLink(program, names) for program, names in parts]
    return compile_chain(config, "whole", links, outputs)


@pytest.mark.parametrize("preset", PRESETS)
def test_programs_in_a_chain_give_what_they_give_alone(preset: str) -> None:
    config = Config.preset(preset)
    program, arrays, _ = small_gemm(config)
    names = [{name: f"{part}.{name}" for name in ("inp", "wgt", "scl", "out")} for part in ("a", "b")]
    known = {tensor.name for tensor in program.tensors}
    names = [{name: whole for name, whole in given.items() if name in known} for given in names]
    whole = chained(config, [(program, given) for given in names], ["a.out", "b.out"])
    other = arrays["inp"][::-1].copy()
    inputs = {given[key]: array for given in names for key, array in arrays.items()} | {"b.inp": other}
    run, alone = simulate(whole, inputs), simulate(program, arrays)
    np.testing.assert_array_equal(run.outputs["a.out"], alone.outputs["out"])
    np.testing.assert_array_equal(run.outputs["b.out"], simulate(program, {**arrays, "inp": other}).outputs["out"])
    assert run.statistics.total_cycles < 2 * alone.statistics.total_cycles
    assert sum(tensor.name == UOPS for tensor in whole.tensors) == 1


def product(config: Config, channels: int, size: int, zeros: tuple[int, int]) -> tuple[Any, dict[str, np.ndarray]]:
    """A program of a product by channel, and its plain arrays."""
    layer = scaling(
        batch=config.batch, channels=channels, size=(size, size), by_channel=True, zero_points=zeros, raw=False
    )
    random = np.random.default_rng(channels)
    data, other = (
        random.integers(-128, 128, (config.batch, channels, *shape)).astype(np.int8) for shape in ((size, size), (1, 1))
    )
    scale = pack_scale(np.zeros(channels, np.int64), *scales_from_floats(np.full(channels, 1 / 512))).view(np.int64)
    return channel_product(layer, config), {"data": data, "other": other, "scale": scale}


def test_a_product_by_channel_needs_equal_blocks() -> None:
    config = replace(Config.preset("tiny"), block_in=16, wgt_kib=4)
    rule = "block_in must be block_out, since entries of both buffers hold the same channels, got 16 and 4"
    with pytest.raises(LayerError, match=f"^{rule}$"):
        product(config, 20, 5, (0, 0))


@pytest.mark.parametrize(("channels", "size"), [(3, 17), (5, 1), (20, 9)])
def test_a_product_by_channel_of_narrow_inputs_is_clipped(channels: int, size: int) -> None:
    config = Config.preset("int4")
    layer = scaling(batch=1, channels=channels, size=(size, size), by_channel=True, raw=False, dtype=config.inp_dtype)
    random = np.random.default_rng(channels)
    data, other = (random.integers(-8, 8, (1, channels, *shape)).astype(np.int8) for shape in ((size, size), (1, 1)))
    scale = pack_scale(np.zeros(channels, np.int64), *scales_from_floats(np.full(channels, 1 / 4))).view(np.int64)
    given = channel_product(layer, config)
    run = simulate(given.program, given.pack({"data": data, "other": other, "scale": scale}))
    exact = np.moveaxis(data.astype(int) * other.astype(int), 1, -1)
    wanted = requantise(exact, scale.view(np.uint64), 0, -8, 7, 4)
    np.testing.assert_array_equal(given.unpack(run.outputs), np.moveaxis(wanted, -1, 1))


@pytest.mark.parametrize(("channels", "size", "zeros"), [(20, 5, (-128, -128)), (40, 9, (3, 0)), (64, 24, (0, -7))])
def test_a_product_by_channel_is_exact_and_takes_three_steps_a_pixel(
    channels: int, size: int, zeros: tuple[int, int]
) -> None:
    config = Config.preset("pynq_z1")
    given, arrays = product(config, channels, size, zeros)
    run = simulate(given.program, given.pack(arrays))
    exact = (arrays["data"].astype(int) - zeros[0]) * (arrays["other"].astype(int) - zeros[1])
    wanted = requantise(np.moveaxis(exact, 1, -1), arrays["scale"].view(np.uint64), 0, -128, 127, 8)
    np.testing.assert_array_equal(given.unpack(run.outputs), np.moveaxis(wanted, -1, 1))
    vectors = given.program.columns[given.program.columns[:, COL["opcode"]] == Opcode.VECTOR]
    steps = int((vectors[:, COL["loop0"]] * vectors[:, COL["loop1"]]).sum())
    blocks = -(-channels // config.block_out)
    operations = 2 + (zeros[0] != 0)
    assert steps == operations * blocks * size * size + (1 + (zeros[1] != 0)) * blocks


@pytest.mark.parametrize(("batch", "images"), [(1, 1), (2, 1), (2, 2)])
def test_a_product_of_images_of_one_pixel_is_exact(batch: int, images: int) -> None:
    config = replace(Config.preset("pynq_z1"), batch=batch)
    zeros = (3, -128)
    layer = scaling(batch=images, channels=40, size=(1, 1), by_channel=False, zero_points=zeros, raw=False)
    random = np.random.default_rng(0)
    data, other = (random.integers(-128, 128, (images, 40, 1, 1)).astype(np.int8) for _ in range(2))
    scale = pack_scale(np.zeros(40, np.int64), *scales_from_floats(np.full(40, 1 / 512))).view(np.int64)
    given = channel_product(layer, config)
    run = simulate(given.program, given.pack({"data": data, "other": other, "scale": scale}))
    exact = np.moveaxis((data.astype(int) - zeros[0]) * (other.astype(int) - zeros[1]), 1, -1)
    wanted = requantise(exact, scale.view(np.uint64), 0, -128, 127, 8)
    np.testing.assert_array_equal(given.unpack(run.outputs), np.moveaxis(wanted, -1, 1))


@pytest.mark.parametrize("ordered", [True, False])
def test_results_of_a_part_are_the_operand_of_the_next(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an order of all parts together, and where there is none, part by part."""
    if not ordered:
        monkeypatch.setattr(chain, "list_schedule", lambda config, parts, ahead: None)
    config = Config.preset("pynq_z1")
    given, arrays = product(config, 32, 6, (0, -128))
    first = {"pixels": "x", "factors": "f", "scales": "s", "results": "y"}
    second = {"pixels": "y", "factors": "f", "scales": "s", "results": "z"}
    whole = chained(config, [(given.program, first), (given.program, second)], ["z"])
    packed = given.pack(arrays)
    once = simulate(given.program, packed).outputs["results"]
    twice = simulate(given.program, {**packed, "pixels": once}).outputs["results"]
    run = simulate(whole, {"x": packed["pixels"], "f": packed["factors"], "s": packed["scales"]})
    np.testing.assert_array_equal(run.outputs["z"], twice)
    assert {tensor.name: tensor.role for tensor in whole.tensors}["y"] == "scratch"


def test_synchronisation_and_loads_of_micro_ops_are_no_operations() -> None:
    program, *_ = small_gemm(Config.preset("tiny"))
    ops = lift(program)
    kinds = {type(op.instruction) for op in ops}
    assert Sync not in kinds and kinds >= {Load, Store, Gemm}
    loaded = [op.instruction.buffer for op in ops if isinstance(op.instruction, Load)]
    assert Buffer.UOP not in loaded
    assert all(not getattr(op.instruction, bit) for op in ops for bit in ("pop_prev", "push_next"))


def test_micro_ops_that_the_host_gives_are_refused() -> None:
    program, *_ = small_gemm(Config.preset("tiny"))
    tensors = tuple(
        replace(tensor, role="input", data=None, dtype="int8") if tensor.name == UOPS else tensor
        for tensor in program.tensors
    )
    with pytest.raises(LoweringError, match=r"\(LOAD\): micro-ops must come from a constant of the program, got "):
        lift(replace(program, tensors=tensors))


def test_a_table_is_loaded_before_each_operation_that_reads_it() -> None:
    """Those that change nothing are left out when the order of all parts is known."""
    config = extend(Config.preset("pynq_z1"), EXAMPLES / "look_up_table" / "lut.py")
    ops = lift_tiles(table_program(config))
    assert [type(op.instruction) for op in ops] == [Load]  # nothing reads the table here


def test_loads_of_weights_behind_one_another_are_one() -> None:
    """Two entries that lie apart in the buffer and together in DRAM become a tile of two."""
    config = Config.preset("tiny")
    beats = config.wgt_entry_bytes // config.axi_bytes
    program, *_ = small_gemm(config)
    uops = encode_uops(config, [MicroOp(first=1, last=1)]).tobytes()
    steps = [
        (Load(Buffer.UOP, x_size=1), UOPS),
        (Load(Buffer.INP, x_size=1), "inp"),
        (Load(Buffer.WGT, sram=5, x_size=1), "wgt"),
        (Load(Buffer.WGT, sram=2, dram=beats, x_size=1, push_next=1), "wgt"),
        (Gemm(wgt=5, init=1, pop_prev=1), None),
        (Gemm(wgt=2, init=1, acc=1), None),
    ]
    index = {tensor.name: number for number, tensor in enumerate(program.tensors)}
    tensors = tuple(
        replace(t, data=uops, nbytes=len(uops), shape=(1, len(uops))) if t.name == UOPS else t for t in program.tensors
    )
    small = replace(
        program,
        words=encode(config, [step for step, _ in steps]),
        tensors=tensors,
        tensor_of=np.array([index.get(name or "", -1) for _, name in steps], np.int32),
        source_of=np.full(len(steps), -1, np.int32),
    )
    before, after = lift_tiles(small), merge_loads(config, lift_tiles(small))
    assert len(after) == len(before) - 1
    sizes = [op.instruction.x_size for op in after if isinstance(op.instruction, Load)]
    assert sorted(sizes) == [1, 2]
    bases = [op.bases["wgt"] for op in after if isinstance(op.instruction, Gemm)]
    assert bases[0][0] == bases[1][0] and [offset for _, offset in bases] == [0, 1]

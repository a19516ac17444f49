# SPDX-License-Identifier: Apache-2.0
"""The compiled engine against the naive model: buffers and DRAM after every instruction."""

import numpy as np
import pytest
from helpers.naive_function import Naive
from helpers.random_config import random_config
from helpers.random_image import random_image

from vdla.hardware.config import Config
from vdla.hardware.isa import (
    Buffer,
    Emit,
    Gemm,
    Load,
    MicroOp,
    Operand,
    Source,
    Sync,
    Unit,
    Vector,
    VectorOp,
    encode,
    encode_uops,
    instruction_columns,
)
from vdla.hardware.numerics import pack_elements, pack_scale
from vdla.simulator.function import Engine, dot_unit, execute, token_order
from vdla.simulator.support.errors import SimulationError
from vdla.verification.programs.random_programs import random_draft

PRESETS = ["pynq_z1", "tiny", "int4", "batch4"]


def compare(config, seed, portable, count=24):
    draft = random_draft(config, seed, count, longest=24)
    program = draft.program(draft.needed_tokens)
    columns, dram = random_image(program, seed)
    check_columns(config, columns, dram, portable, f"seed {seed}, {config}")


def check(config, instructions, dram, portable):
    encode(config, instructions)
    check_columns(config, instruction_columns(config, instructions), dram, portable)


def check_columns(config, columns, dram, portable, what=""):
    """Runs both engines; compares every buffer after every instruction."""
    engine = Engine(config, columns, dram.copy(), portable)
    naive = Naive(config, columns, dram.copy())
    for k in range(len(columns)):
        engine.execute(k)
        naive.execute(k)
        where = f"{what}, instruction {k}: {columns[k]}"
        buffers = engine.buffers
        assert (buffers.dram == naive.dram).all(), where
        assert (buffers.acc.reshape(-1) == naive.buffers[Buffer.ACC].reshape(-1).view("<i4")).all(), where
        assert (buffers.out == naive.buffers[Buffer.OUT]).all(), where
        assert (pack_elements(buffers.inp.reshape(-1), config.inp_bits) == naive.buffers[Buffer.INP].reshape(-1)).all()
        assert (pack_elements(buffers.wgt.reshape(-1), config.wgt_bits) == naive.buffers[Buffer.WGT].reshape(-1)).all()
        assert (buffers.scl.reshape(-1) == naive.buffers[Buffer.SCL].reshape(-1).view("<i8")).all(), where


@pytest.mark.parametrize("value", [-32768, -6, -5, -1, 0, 1, 3, 5, 6, 32767])
def test_every_shift_rounds_half_to_even(value):
    config = Config.preset("pynq_z1")
    lanes = pack_scale(np.zeros(64), np.resize([1, 3, (1 << 24) - 1], 64), np.arange(64))
    move = Vector(
        VectorOp.MOV,
        Operand.IMM,
        imm=value,
        loop0=4,
        acc0=1,
        scl0=1,
        emit=Emit.REQUANT,
        clip_lo=-128,
        clip_hi=127,
        uop_end=1,
    )
    uop = encode_uops(config, [MicroOp(last=1)]).reshape(-1)
    dram = np.concatenate([lanes.view(np.uint8), uop])
    check(config, [Load(Buffer.UOP, dram=64), Load(Buffer.SCL, x_size=4), move], dram, False)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("distance", range(10))
@pytest.mark.parametrize("positions", [7, 20])
@pytest.mark.parametrize("init", [0, 1])
def test_positions_that_share_an_entry_stay_in_order(distance, positions, init, portable):
    """Run 0 of one position and run 1 of another use one entry, in program order."""
    config = Config.preset("pynq_z1")
    uops = [
        MicroOp(0, 0, 0, 1, 0),
        MicroOp(0, 1, 1, 0, 1),
        MicroOp(distance, 2, 2, 1, 0),
        MicroOp(distance, 3, 3, 0, 1),
    ]
    table = encode_uops(config, uops).reshape(-1)
    data = np.random.default_rng(0).integers(0, 256, 4096).astype(np.uint8)
    gemm = Gemm(uop_end=4, loop0=2, loop1=positions, init=init, emit=Emit.RAW, acc1=1, src1=1, acc0=3, src0=2)
    loads = [Load(Buffer.UOP, dram=512, x_size=4), Load(Buffer.INP, x_size=32), Load(Buffer.WGT, x_size=8)]
    check(config, [*loads, gemm, gemm], np.concatenate([data, table]), portable)


@pytest.mark.parametrize("emit", [Emit.NONE, Emit.REQUANT, Emit.RAW])
@pytest.mark.parametrize("init", [0, 1])
@pytest.mark.parametrize("shape", [(1, 16, 16), (2, 16, 16), (1, 32, 32)])
def test_sums_of_inputs_and_weights_may_begin_and_end_at_any_micro_op(shape, init, emit):
    """Micro-ops return to entries of others, begin sums again, and add to what was sent."""
    batch, block_in, block_out = shape
    config = Config(batch=batch, block_in=block_in, block_out=block_out, inp_kib=4, wgt_kib=16, acc_kib=8, out_kib=4)
    rng = np.random.default_rng(0)
    steps = "010 001 000 111 100 210 001 010 200 201 210 100"  # of each: the entry, first, last
    uops = [MicroOp(int(acc), n, 11 - n, int(first), int(last)) for n, (acc, first, last) in enumerate(steps.split())]
    data, table = rng.integers(0, 256, 8192).astype(np.uint8), encode_uops(config, uops).reshape(-1)
    loads = [
        Load(Buffer.UOP, dram=8192 // config.axi_bytes, x_size=12),
        Load(Buffer.INP, x_size=32),
        Load(Buffer.WGT, x_size=8),
        Load(Buffer.SCL, x_size=4),
    ]
    sums = Vector(
        VectorOp.MAC,
        Operand.WGT,
        Source.INP,
        uop_end=12,
        loop0=2,
        loop1=3,
        acc0=5,
        acc1=1,
        src0=3,
        src1=1,
        wgt0=2,
        wgt1=1,
        init=init,
        emit=emit,
        **({"scl1": 1, "zero_point": 3, "clip_lo": -100, "clip_hi": 120} if emit is Emit.REQUANT else {}),
    )
    check(config, [*loads, sums, sums], np.concatenate([data, table]), False)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("preset", PRESETS)
def test_engine_equals_the_model_on_every_preset(preset, seed, portable):
    compare(Config.preset(preset), seed, portable)


@pytest.mark.parametrize("seed", range(30))
def test_engine_equals_the_model_on_random_configurations(seed):
    config = random_config(np.random.default_rng(seed), 32)
    compare(config, seed, portable=seed % 2 == 0)


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(1, 16, 16), (2, 4, 16), (1, 32, 32), (4, 8, 16), (1, 64, 16)])
def test_the_fast_kernel_equals_the_model_for_every_shape(shape):
    batch, block_in, block_out = shape
    config = Config(batch=batch, block_in=block_in, block_out=block_out, inp_kib=4, wgt_kib=16, acc_kib=8, out_kib=4)
    for seed in range(6):
        compare(config, seed, portable=False, count=60)


@pytest.mark.parametrize("shape", [(1, 16, 16), (2, 4, 16), (1, 32, 32), (4, 2, 32)])
def test_one_loop_over_all_instructions_equals_single_ones(shape):
    batch, block_in, block_out = shape
    config = Config(batch=batch, block_in=block_in, block_out=block_out, inp_kib=4, wgt_kib=16, acc_kib=8, out_kib=4)
    for seed in range(4):
        draft = random_draft(config, seed, 60, longest=24)
        columns, dram = random_image(draft.program(draft.needed_tokens), seed)
        whole, single = Engine(config, columns, dram.copy()), Engine(config, columns, dram.copy())
        order = token_order(columns)
        whole.run(order)
        for index in order.tolist():
            single.execute(index)
        for name in ("dram", "inp", "wgt", "acc", "out", "scl", "offsets", "wide_inp", "tiles"):
            assert np.array_equal(getattr(whole.buffers, name), getattr(single.buffers, name)), (name, seed)


EDGES = np.array([-(2**31), 1 - 2**31, -(2**16), -129, -31, -1, 0, 1, 2, 31, 32, 127, 2**16, 2**31 - 2, 2**31 - 1, 5])


@pytest.mark.parametrize("operand", [Operand.SRC, Operand.IMM])
@pytest.mark.parametrize("op", list(VectorOp))
def test_vector_operations_wrap_and_round_at_the_ends_of_32_bits(op, operand):
    """Each entry of sums is one edge, the operands are all of them, in lanes or as immediates."""
    config = Config.preset("pynq_z1")
    immediates = [-(2**15), -1, 0, 1, 15, 31, 32, 2**15 - 1] if operand is Operand.IMM else [0]
    dram = np.concatenate([EDGES.astype("<i4"), np.repeat(EDGES, 16).astype("<i4")]).view(np.uint8)
    table = encode_uops(config, [MicroOp(last=1)]).reshape(-1)
    image = np.concatenate([dram, table])
    for imm in immediates:
        step = Vector(op, operand, Source.ACC, imm=imm, loop0=16, acc0=1, acc=1, src=0, uop_end=1)
        loads = [Load(Buffer.ACC, dram=0, x_size=17), Load(Buffer.UOP, dram=17 * 8, x_size=1)]
        check(config, [*loads, step], image, False)


def test_the_fast_kernel_can_be_switched_off(monkeypatch):
    config = Config.preset("pynq_z1")
    columns = instruction_columns(config, [])
    assert not Engine(config, columns, np.zeros(8, np.uint8), portable=True).buffers.tiled
    monkeypatch.setenv("VDLA_PORTABLE", "1")
    assert not dot_unit.available()
    assert not Engine(config, columns, np.zeros(8, np.uint8)).buffers.tiled


TINY = Config.preset("tiny")


def error_of(instruction, dram_bytes=4096):
    columns = instruction_columns(TINY, [instruction])
    with pytest.raises(SimulationError) as error:
        execute(TINY, columns, np.zeros(dram_bytes, np.uint8))
    return str(error.value)


def test_errors_name_instruction_rule_and_value():
    assert (
        error_of(Load(Buffer.INP, sram=255, x_size=2))
        == "instruction 0 (LOAD): last inp entry must be below 256, got 256"
    )
    assert (
        error_of(Load(Buffer.INP, dram=1024)) == "instruction 0 (LOAD): last byte of dram must be below 4096, got 4099"
    )
    assert error_of(Gemm(acc=63, acc1=1, loop1=2)) == "instruction 0 (GEMM): acc index must be below 64, got 64"
    assert error_of(Gemm(src=255, src0=2, loop0=2)) == "instruction 0 (GEMM): src index must be below 256, got 257"


def test_token_order_may_differ_from_stream_order():
    instructions = [
        Sync(Unit.COMPUTE, pop_prev=1),
        Sync(Unit.LOAD, push_next=1),
        Sync(Unit.STORE, pop_prev=1),
        Sync(Unit.COMPUTE, push_next=1),
    ]
    assert token_order(instruction_columns(TINY, instructions)).tolist() == [1, 0, 3, 2]


def test_missing_tokens_are_an_error():
    instructions = [Sync(Unit.LOAD), Sync(Unit.COMPUTE, pop_prev=1), Sync(Unit.STORE, pop_prev=1)]
    with pytest.raises(SimulationError) as error:
        token_order(instruction_columns(TINY, instructions))
    assert str(error.value) == (
        "function: every popped token must be pushed, got a deadlock at instruction 1 (SYNC), instruction 2 (SYNC)"
    )

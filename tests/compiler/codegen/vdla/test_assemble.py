# SPDX-License-Identifier: Apache-2.0
"""Whole programs against a naive model of the accesses of each word."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.program_model import all_accesses, check_program
from helpers.random_config import random_config
from helpers.work import lines_executed

from vdla.compiler.codegen.vdla.allocate import AllocationError
from vdla.compiler.codegen.vdla.assemble import assemble
from vdla.compiler.codegen.vdla.macro_op import BufferTile, BuildError, MacroOp
from vdla.compiler.codegen.vdla.uops import UopError
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Gemm,
    IsaError,
    Load,
    MicroOp,
    Operand,
    Source,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    columns,
    decode,
    decode_uops,
)
from vdla.hardware.numerics import pack_scale, requantise
from vdla.hardware.program import Program, ProgramTensor, place
from vdla.simulator.function import execute
from vdla.simulator.timing.vector_stalls import vector_stalls
from vdla.simulator.verify import Kind, verify

CONFIG = Config()
INP, WGT, SCL, ACC, OUT = Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC, Buffer.OUT


def tensor(name: str, role: str, nbytes: int = 1 << 20) -> ProgramTensor:
    return ProgramTensor(name=name, role=role, shape=(nbytes,), dtype="int8", layout="", nbytes=nbytes)


TENSORS = (
    tensor("x", "input"),
    tensor("w", "weight"),
    tensor("s", "weight"),
    tensor("y", "output"),
    tensor("t", "scratch"),
)


def load(config: Config, tile: BufferTile, name: str, entry: int = 0, **fields: int) -> MacroOp:
    beats = config.entry_bytes[OUT if fields.get("widen") else tile.buffer] // config.axi_bytes
    fields = {"x_size": tile.entries, "dram": entry * beats, **fields}
    return MacroOp(Load(tile.buffer, **fields), {"sram": (tile, 0)}, tensor=name, source=0)


def store(config: Config, tile: BufferTile, name: str, entry: int = 0) -> MacroOp:
    dram = entry * config.out_entry_bytes // config.axi_bytes
    return MacroOp(Store(x_size=tile.entries, dram=dram), {"sram": (tile, 0)}, tensor=name, source=1)


def compile_ops(config: Config, ops: list[MacroOp]) -> Program:
    return assemble(config, "test", ops, TENSORS, ("load", "store", "gemm"))


def double_buffered_gemm(config: Config, tiles: int = 6, steps: int = 3, rows: int = 4) -> list[MacroOp]:
    """`tiles` output tiles of `rows` entries, each a sum over `steps` chunks; two threads."""
    scl = BufferTile("scl", SCL, 1)
    kernel = (MicroOp(0, 0, 0, first=1), MicroOp(0, 1, 1))
    last = (MicroOp(0, 0, 0), MicroOp(0, 1, 1, last=1))
    ops = [load(config, scl, "s")]
    for pair in range(tiles // 2):
        for step in range(steps):
            for thread in range(2):
                inp, wgt = BufferTile("inp", INP, 2 * rows, thread), BufferTile("wgt", WGT, 2, thread)
                acc, out = BufferTile("acc", ACC, rows, thread), BufferTile("out", OUT, rows, thread)
                ops += [load(config, inp, "x", 2 * rows * (2 * pair + thread)), load(config, wgt, "w", 2 * step)]
                bases = {"acc": (acc, 0), "src": (inp, 0), "wgt": (wgt, 0)}
                gemm = Gemm(init=int(step == 0), loop0=rows, acc0=1, src0=2)
                if step == steps - 1:
                    bases |= {"out": (out, 0), "scl": (scl, 0)}
                    gemm = replace(gemm, emit=Emit.REQUANT, clip_lo=-2, clip_hi=1)
                ops.append(MacroOp(gemm, bases, last if step == steps - 1 else kernel, source=2))
                if step == steps - 1:
                    ops.append(store(config, out, "y", rows * (2 * pair + thread)))
    return ops


def residual(config: Config, tiles: int = 5, size: int = 8) -> list[MacroOp]:
    """y = x + t with x in the input buffer and t widened into the accumulator; raw results."""
    ops = []
    slots = config.acc_bits // config.out_bits
    vectors = max(1, config.block_out // config.block_in)
    for i in range(tiles):
        inp, acc, out = (
            BufferTile("inp", INP, size * vectors, i),
            BufferTile("acc", ACC, size, i),
            BufferTile("out", OUT, size * slots, i),
        )
        ops += [load(config, inp, "x", i * size), load(config, acc, "t", i * size, widen=1)]
        bases = {"acc": (acc, 0), "src": (inp, 0), "out": (out, 0)}
        add = Vector(VectorOp.ADD, Operand.SRC, Source.INP, loop0=size // 2, loop1=2, acc0=2, src0=2, acc1=1, src1=1)
        ops.append(MacroOp(replace(add, emit=Emit.RAW), bases, (MicroOp(last=1),), source=2))
        ops.append(store(config, out, "t", i * size))
    return ops


def faults(program: Program) -> set[Kind]:
    return {finding.kind for finding in verify(program).findings}


CONFIGS = [
    CONFIG,
    Config.preset("tiny"),
    Config.preset("int4"),
    Config.preset("batch4"),
    Config(block_in=8, block_out=32, axi_bits=64),
    Config(block_in=32, block_out=8, axi_bits=64),
    Config(axi_bits=128, inp_bits=8, wgt_bits=2),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.name}-{config.block_in}x{config.block_out}")
@pytest.mark.parametrize("make", [double_buffered_gemm, residual])
def test_dependences_are_ordered_by_tokens(config, make):
    program = compile_ops(config, make(config))
    check_program(program)
    assert faults(program) == ({Kind.UNINITIALISED} if make == residual else set())


def test_double_buffered_gemm_in_full():
    program = compile_ops(CONFIG, double_buffered_gemm(CONFIG, tiles=2, steps=1, rows=2))
    head = {
        "clip_lo": -2,
        "clip_hi": 1,
        "init": 1,
        "emit": Emit.REQUANT,
        "loop0": 2,
        "acc0": 1,
        "src0": 2,
        "uop_end": 2,
    }
    assert check_program(program) == [
        Load(Buffer.UOP, x_size=2),
        Load(SCL),
        Load(INP, x_size=4),
        Load(WGT, x_size=2, push_next=1),
        Gemm(**head, pop_prev=1, push_next=1),
        Store(x_size=2, pop_prev=1),
        Load(INP, x_size=4, sram=4, dram=8),
        Load(WGT, x_size=2, sram=2, push_next=1),
        Gemm(**head, acc=2, src=4, wgt=2, out=2, pop_prev=1, push_next=1),
        Store(x_size=2, sram=2, dram=4, pop_prev=1),
    ]
    assert program.source_of.tolist() == [-1, 0, 0, 0, 2, 1, 0, 0, 2, 1]
    assert [program.tensors[i].name if i >= 0 else "" for i in program.tensor_of] == [
        *("uops", "s", "x", "w", "", "y", "x", "w", "", "y")
    ]
    data = np.frombuffer(program.tensor("uops").data, np.uint8).reshape(-1, CONFIG.uop_entry_bytes)
    assert decode_uops(CONFIG, data) == (MicroOp(), MicroOp(0, 1, 1, last=1))


def test_two_threads_need_one_token_per_tile_and_direction():
    """In the steady state each load signals compute, and compute frees the space."""
    instructions = decode(CONFIG, compile_ops(CONFIG, double_buffered_gemm(CONFIG)).words)
    gemms = [i for i in instructions if isinstance(i, Gemm)]
    assert all((i.pop_prev, i.push_prev) == (1, 1) for i in gemms[2:-2])
    loads = [i for i in instructions if isinstance(i, Load) and i.buffer != Buffer.UOP]
    assert sum(i.push_next for i in loads) == len(gemms)
    assert sum(i.pop_next for i in loads) == len(gemms) - 2
    assert not any(isinstance(i, Sync) for i in instructions)


def test_in_place_scratch_is_ordered_through_dram():
    """The next load reads stored data: only a SYNC of compute can order them."""
    out, inp = BufferTile("out", OUT, 4), BufferTile("inp", INP, 4)
    ops = [store(CONFIG, out, "t"), load(CONFIG, inp, "t", entry=3), load(CONFIG, inp, "t", entry=8)]
    instructions = check_program(compile_ops(CONFIG, ops))
    assert instructions[1] == Sync(Unit.COMPUTE, pop_next=1, push_prev=1)
    assert len(instructions) == 4


def test_disjoint_parts_of_a_scratch_tensor_are_not_ordered():
    out, inp = BufferTile("out", OUT, 4), BufferTile("inp", INP, 4)
    program = compile_ops(CONFIG, [store(CONFIG, out, "t"), load(CONFIG, inp, "t", entry=4)])
    assert not any(i.pop_next or i.pop_prev for i in decode(CONFIG, program.words))


def test_reuse_of_a_result_tile_waits_for_its_store():
    out, acc = BufferTile("out", OUT, 1), BufferTile("acc", ACC, 1)
    fill = MacroOp(
        Vector(VectorOp.MOV, Operand.IMM, imm=7, init=1, emit=Emit.RAW, loop0=1),
        {"acc": (acc, 0), "out": (replace(out, entries=4), 0)},
        (MicroOp(first=1, last=1),),
    )
    ops = [fill, store(CONFIG, replace(out, entries=4), "y")] * 3
    vectors = [i for i in check_program(compile_ops(CONFIG, ops)) if isinstance(i, Vector)]
    assert [i.pop_next for i in vectors] == [0, 1, 1]


def test_one_tile_for_all_iterations_and_one_for_each_both_work():
    def ops(fresh: bool) -> list[MacroOp]:
        result = []
        for i in range(12):
            inp, acc = BufferTile("inp", INP, 300, i * fresh), BufferTile("acc", ACC, 1)
            mac = Vector(VectorOp.MAC, Operand.IMM, Source.INP, imm=1, loop0=300, src0=1)
            result += [load(CONFIG, inp, "x"), MacroOp(mac, {"acc": (acc, 0), "src": (inp, 0)}, (MicroOp(),))]
        return result

    def waits(fresh: bool) -> int:
        return sum(i.pop_next for i in check_program(compile_ops(CONFIG, ops(fresh))) if isinstance(i, Load))

    assert (waits(fresh=False), waits(fresh=True)) == (11, 6)


@pytest.mark.parametrize("axi_bits", [32, 64, 128])
def test_micro_ops_are_reloaded_when_the_buffer_is_small(axi_bits):
    config = Config(uop_kib=1, axi_bits=axi_bits)  # 128 or 64 micro-ops
    size = config.uop_depth // 2 - 4
    acc = BufferTile("acc", ACC, 200)
    add = Vector(VectorOp.ADD, Operand.IMM, imm=1)
    kernels = [tuple(MicroOp(acc=k + 5 * i) for k in range(size)) for i in range(3)]
    program = compile_ops(config, [MacroOp(add, {"acc": (acc, 0)}, kernels[i % 3]) for i in range(6)])
    instructions = check_program(program)
    assert sum(isinstance(i, Load) for i in instructions) == 3
    touched = [
        {entry for space, entry, _ in accesses if space == ACC}
        for accesses, i in zip(all_accesses(program, instructions), instructions, strict=True)
        if isinstance(i, Vector)
    ]
    assert touched == [{uop.acc for uop in kernels[i % 3]} for i in range(6)]


def test_adding_sums_to_sums_takes_one_cycle_each():
    a, b = BufferTile("a", ACC, 64), BufferTile("b", ACC, 64)
    add = Vector(VectorOp.ADD, loop0=64, acc0=1, src0=1)
    ops = [
        load(CONFIG, a, "x", widen=1),
        load(CONFIG, b, "x", widen=1),
        MacroOp(add, {"acc": (a, 0), "src": (b, 0)}, (MicroOp(),)),
    ]
    assert not vector_stalls(compile_ops(CONFIG, ops)).any()


def run(program: Program, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors after the program has run on these arrays."""
    addresses, end = place(program)
    dram = np.zeros(end, np.uint8)
    values = {t.name: np.frombuffer(t.data, np.uint8) for t in program.tensors if t.data is not None} | arrays
    for name, value in values.items():
        data = value.reshape(-1).view(np.uint8)
        dram[addresses[name] : addresses[name] + len(data)] = data
    execute(program.config, columns(program.config, program.link(addresses)), dram)
    return {t.name: dram[addresses[t.name] : addresses[t.name] + t.nbytes] for t in program.tensors}


def test_double_buffered_gemm_equals_the_model_of_its_operations():
    rows, steps, tiles, block = 4, 3, 6, 16
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (tiles, rows, 2, block), np.int8)
    w = rng.integers(-128, 128, (steps, 2, block, block), np.int8)
    program = compile_ops(CONFIG, double_buffered_gemm(CONFIG, tiles, steps, rows))
    lanes = pack_scale(np.arange(block), np.full(block, 3), np.full(block, 20))
    y = run(program, {"x": x, "w": w, "s": lanes})["y"].view(np.int8)[: tiles * rows * block]
    sums = np.einsum("trki,skoi->tro", x.astype(np.int64), w.astype(np.int64))
    assert np.array_equal(y.reshape(tiles, rows, block), requantise(sums, lanes, 0, -2, 1))


# --- random programs ------------------------------------------------------------------------------


def random_ops(config: Config, seed: int, count: int = 24) -> list[MacroOp]:
    """All kinds of instructions on a few tiles, for many dependences."""
    rng = np.random.default_rng(seed)
    scale = max(1, config.block_out // config.block_in)
    slots = config.acc_bits // config.out_bits
    sizes = {INP: 8 * scale, WGT: 2, SCL: 1, ACC: 8, OUT: 8 * slots}
    kernels = [
        tuple(MicroOp(*map(int, rng.integers(0, (4, 4, 2, 2, 2)))) for _ in range(int(rng.integers(1, 4))))
        for _ in range(4)
    ]

    def tile(buffer: Buffer) -> BufferTile:
        return BufferTile(buffer.name.lower(), buffer, sizes[buffer], int(rng.integers(2)))

    def looped() -> MacroOp:
        emit = Emit(int(rng.integers(3)))
        fields = {"loop0": 2, "acc0": 2, "loop1": 2, "acc1": 1, "src0": 1, "src1": 2, "emit": emit}
        bases = {"acc": (tile(ACC), 0), "src": (tile(INP), 0), "wgt": (tile(WGT), 0)}
        if emit != Emit.NONE:
            bases["out"] = (tile(OUT), 0)
        if emit == Emit.REQUANT:
            bases["scl"] = (tile(SCL), 0)
        kernel = kernels[rng.integers(4)]
        match rng.integers(3):
            case 0:
                return MacroOp(Gemm(**fields), bases, kernel)
            case 1:
                return MacroOp(Vector(VectorOp.MAC, Operand.WGT, Source.INP, **fields), bases, kernel)
            case _:
                bases["src"] = (tile(ACC), 0)
                del bases["wgt"]
                return MacroOp(Vector(VectorOp.MAX, Operand.SRC, Source.ACC, **fields), bases, kernel)

    def step() -> MacroOp:
        match rng.integers(4):
            case 0:
                return load(config, tile(Buffer([INP, WGT, SCL, ACC][rng.integers(4)])), "t", int(rng.integers(16)))
            case 1:
                return store(config, tile(OUT), "t", int(rng.integers(64)))
            case _:
                return looped()

    return [step() for _ in range(count)]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.name}-{config.block_in}x{config.block_out}")
def test_random_programs_are_ordered_by_tokens(config):
    for seed in range(6):
        print(f"seed {seed}")
        program = compile_ops(config, random_ops(config, seed))
        check_program(program)
        assert faults(program) <= {Kind.UNINITIALISED}, "the operations read what nothing wrote, and no more"


def test_programs_for_random_configurations_verify():
    """Any valid configuration; one too small for the tiles is reported."""
    built = 0
    for seed in range(150):
        print(f"seed {seed}")
        config = random_config(np.random.default_rng(seed))
        for make in (double_buffered_gemm, residual):
            try:
                program = compile_ops(config, make(config))
            except AllocationError:
                continue
            assert faults(program) == ({Kind.UNINITIALISED} if make == residual else set())
            built += 1
    assert built > 150


def test_equal_inputs_give_equal_programs():
    assert compile_ops(CONFIG, random_ops(CONFIG, 1)).hash == compile_ops(CONFIG, random_ops(CONFIG, 1)).hash


# --- errors ---------------------------------------------------------------------------------------


def refused(error: type[ValueError], message: str, *ops: MacroOp) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        compile_ops(CONFIG, list(ops))


def test_an_unknown_tensor_is_refused():
    message = "operation 0 (LOAD, load): tensor must be one of x, w, s, y, t, got z"
    refused(BuildError, message, load(CONFIG, BufferTile("a", INP, 1), "z"))


def test_a_missing_micro_op_kernel_is_refused():
    refused(BuildError, "operation 0 (GEMM): micro-ops must number 1 or more, got 0", MacroOp(Gemm()))


def test_an_unknown_source_line_is_refused():
    op = replace(load(CONFIG, BufferTile("a", INP, 1), "x"), source=3)
    refused(BuildError, "operation 0 (LOAD): source must be -1 to 2, got 3", op)


def test_token_bits_in_a_macro_op_are_refused():
    op = load(CONFIG, BufferTile("a", INP, 1), "x", push_next=1)
    refused(BuildError, "operation 0 (LOAD, load): token bits must be 0, got push_next", op)


def test_a_tensor_without_a_transfer_is_refused():
    op = MacroOp(Sync(Unit.COMPUTE), tensor="x")
    refused(BuildError, "operation 0 (SYNC): tensor must be None where no data move, got x", op)


def test_an_access_beyond_its_tile_is_refused():
    acc = BufferTile("acc", ACC, 4)
    op = MacroOp(Vector(VectorOp.ADD, Operand.IMM, loop0=3, acc0=1), {"acc": (acc, 2)}, (MicroOp(),))
    refused(BuildError, "operation 0 (VECTOR): acc in tile acc must touch 0 to 3, got 2 to 4", op)


def test_an_access_before_its_tile_is_refused():
    below, acc = BufferTile("below", ACC, 4), BufferTile("acc", ACC, 4)
    add = Vector(VectorOp.ADD, Operand.IMM)
    ops = [MacroOp(add, {"acc": base}, (MicroOp(),)) for base in ((below, 0), (acc, -2))]
    refused(BuildError, "operation 1 (VECTOR): acc in tile acc must touch 0 to 3, got -2 to -2", *ops)


def test_a_base_in_another_buffer_is_refused():
    op = MacroOp(Vector(VectorOp.ADD, Operand.IMM), {"acc": (BufferTile("a", INP, 4), 0)}, (MicroOp(),))
    refused(BuildError, "operation 0 (VECTOR): acc must name a tile of ACC, got INP", op)


def test_a_missing_base_is_refused():
    refused(BuildError, "operation 0 (GEMM): acc must name a tile of ACC, got None", MacroOp(Gemm(), {}, (MicroOp(),)))


def test_an_access_beyond_its_tensor_is_refused():
    op = load(CONFIG, BufferTile("a", INP, 4), "x", entry=(1 << 16) - 3)
    message = "operation 0 (LOAD, load): x_size must keep beats of tensor x below 131072, got 131073"
    refused(BuildError, message, op)


def test_a_field_overflow_is_refused():
    op = MacroOp(Vector(VectorOp.ADD, Operand.IMM, imm=1 << 20), {"acc": (BufferTile("a", ACC, 4), 0)}, (MicroOp(),))
    message = "instruction 1 (VECTOR): imm must be an integer from -32768 to 32767, got 1048576"
    refused(IsaError, message, op)


def test_a_field_overflow_is_reported_with_the_line_of_the_schedule():
    tile = BufferTile("a", ACC, 4)
    op = MacroOp(Vector(VectorOp.ADD, Operand.IMM, imm=1 << 20), {"acc": (tile, 0)}, (MicroOp(),), source=0)
    message = "instruction 1 (VECTOR, load): imm must be an integer from -32768 to 32767, got 1048576"
    refused(IsaError, message, op)


def test_a_full_buffer_is_reported_with_the_line_of_the_schedule():
    a, b = BufferTile("a", INP, 1500), BufferTile("b", INP, 1000)
    message = (
        "allocate: tiles live at operation 1 (LOAD, load) must fit the 2048 entries of the inp buffer, "
        "got 2500 (a 1500, b 1000); make tile a smaller"
    )
    refused(AllocationError, message, *(load(CONFIG, tile, "x") for tile in (a, b, a)))


def test_a_tensor_called_uops_is_refused():
    message = "assemble: names of tensors must differ from each other and from uops, got uops"
    with pytest.raises(BuildError, match=f"^{re.escape(message)}$"):
        assemble(CONFIG, "test", [], [tensor("uops", "input")])


def test_errors_of_allocation_and_micro_ops_are_raised():
    with pytest.raises(AllocationError, match="tile a must have 1 to 2048 entries"):
        compile_ops(CONFIG, [load(CONFIG, BufferTile("a", INP, 4096), "x")])
    with pytest.raises(UopError, match=r"kernel of operation 0 \(VECTOR\) must have at most 4096 micro-ops"):
        compile_ops(
            CONFIG,
            [MacroOp(Vector(VectorOp.ADD, Operand.IMM), {"acc": (BufferTile("a", ACC, 1), 0)}, (MicroOp(),) * 4097)],
        )


def test_the_work_of_assembling_is_linear():
    def work(tiles):
        ops = double_buffered_gemm(CONFIG, tiles=tiles, steps=4, rows=200)
        return lines_executed(lambda: compile_ops(CONFIG, ops))

    assert work(160) < 4.4 * work(40)

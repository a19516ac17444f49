# SPDX-License-Identifier: Apache-2.0
"""Private state and stages on the simulator: function, cycles, verifier and adversary."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.extended_programs import random_extended
from helpers.extensions import sad
from helpers.hand_programs import BEATS, program
from helpers.naive_function import Naive
from helpers.naive_timing import Machine
from helpers.stateful import depthwise, negated, running, table

import vdla
from vdla.benchmarks.mutants import run as run_mutants
from vdla.hardware import timing as contract
from vdla.hardware.asm import assemble, disassemble
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Gemm,
    IsaError,
    Load,
    MicroOp,
    StagedEmit,
    Store,
    encode,
    instruction_columns,
    isa_of,
)
from vdla.simulator.function import Engine
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_columns
from vdla.verification.adversary import Harm, attack

PLAIN = Config.preset("tiny")
DECLARED = (table, depthwise, running, sad)
TINY = vdla.extend(PLAIN, *DECLARED)
NAMES = ("table_load", "dw", "dw_taps", "dw_clear", "run", "run_start")
TABLE_LOAD, DW, DW_TAPS, DW_CLEAR, RUN, RUN_START = (isa_of(TINY).format_named(name).cls for name in NAMES)
STAGE = StagedEmit.STAGE
ROWS = 64
SCALE = Load(Buffer.SCL)

LOOK_UP = (
    Load(Buffer.UOP),
    Load(Buffer.WGT, x_size=17),  # the table is behind the weights
    SCALE,
    Load(Buffer.INP, x_size=16, push_next=1),
    TABLE_LOAD(loop0=ROWS, acc0=1, wgt=4, wgt0=1, pop_prev=1),
    Gemm(loop0=16, acc0=1, src0=1, init=1, emit=STAGE, clip_lo=-128, clip_hi=127, push_next=1),
    Store(x_size=16, pop_prev=1),
)
LOOK_UP_BEATS = {**BEATS, "weight": 17 * 4}

HEIGHT, WIDTH = 4, 5
COLUMNS = [MicroOp(acc=max(x - 1, 0), src=x, wgt=x, last=int(x > 0)) for x in range(WIDTH + 1)]
KERNEL = (MicroOp(first=1, last=1), *COLUMNS)
ROW = {"uop_begin": 1, "uop_end": len(KERNEL)}
IMAGE = (
    Load(Buffer.UOP, x_size=len(KERNEL)),
    Load(Buffer.WGT, x_size=3),
    Load(Buffer.INP, y_size=HEIGHT, x_size=WIDTH, y_stride=WIDTH, y_after=1, x_after=1, push_next=1),
    DW_CLEAR(loop0=WIDTH + 1, acc0=1),
    DW_TAPS(loop0=9, acc0=1, wgt0=1, pop_prev=1),
    DW(**ROW),
    DW(**ROW, loop0=HEIGHT, acc0=WIDTH, src=WIDTH + 1, src0=WIDTH + 1, emit=Emit.RAW, push_next=1),
    Store(x_size=4 * HEIGHT * WIDTH, pop_prev=1),
)


def look_up(*steps):
    return program(*(steps or LOOK_UP), config=TINY, beats=LOOK_UP_BEATS)


def image(*steps):
    return program(*(steps or IMAGE), config=TINY, uops=KERNEL, beats={**BEATS, "out": 4 * HEIGHT * WIDTH})


def changed(steps, at, **fields):
    return [*steps[:at], replace(steps[at], **fields), *steps[at + 1 :]]


def units(plain):
    """The instructions and the stage of the machine, in its order."""
    parts = [part for declare in DECLARED for part in _listed(declare(plain))]
    stages = [part for part in parts if isinstance(part, vdla.EmitStage)]
    return [part for part in parts if part not in stages], stages[0]


def _listed(declared):
    return declared if isinstance(declared, list) else [declared]


def results(work, **arrays):
    """The output of a program, as bytes; inputs begin with these arrays, zeros follow."""
    inputs = {t.name: np.zeros(t.nbytes, np.int8) for t in work.tensors if t.role in ("input", "weight")}
    for name, array in arrays.items():
        flat = np.ascontiguousarray(array).reshape(-1).view(np.int8)
        inputs[name][: len(flat)] = flat
    return vdla.simulate(work, inputs).outputs["out"]


# --- function ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [{}, {"inp_bits": 4, "wgt_bits": 4, "block_in": 8, "batch": 2}])
def test_states_and_results_are_those_of_the_interpreted_behaviour(shape):
    plain = replace(PLAIN, inp_kib=4, acc_kib=4, **shape)
    config = vdla.extend(plain, *DECLARED)
    columns, dram = random_extended(config, np.random.default_rng(1), 25)
    engine = Engine(config, columns, dram.copy(), portable=True)
    naive = Naive(config, columns, dram.copy(), *units(plain))
    for k in range(len(columns)):
        engine.execute(k)
        naive.execute(k)
        assert (engine.buffers.acc.reshape(-1) == naive.buffers[Buffer.ACC].reshape(-1).view("<i4")).all(), columns[k]
        assert (engine.buffers.out == naive.buffers[Buffer.OUT]).all(), columns[k]
    found = {state.name: rows.reshape(-1) for state, rows in engine.buffers.states.items()}
    assert {state.name for state in naive.states} == set(found)
    assert all((found[state.name] == rows.reshape(-1)).all() for state, rows in naive.states.items())


def test_results_of_a_product_are_looked_up_on_their_way_out():
    rng = np.random.default_rng(3)
    data, weight = (rng.integers(-9, 9, (16, 4)).astype(np.int8) for _ in range(2))
    values = rng.permutation(256).astype(np.uint8).view(np.int8)
    weights = np.concatenate([weight[:4].reshape(-1), values])
    scale = np.full(32, (1 << 32) | (3 << 56), np.int64)  # one eighth
    found = results(look_up(), data=data, weight=weights, scale=scale)
    products = data.astype(np.int32) @ weight[:4].astype(np.int32).T
    rounded = np.clip(np.round(products / 8).astype(np.int32), -128, 127)  # half to even, as the machine does
    assert found.tolist() == values[rounded + 128].reshape(-1).tolist()


def test_a_stage_without_state_needs_no_instruction():
    config = vdla.extend(PLAIN, negated)
    work = program(*LOOK_UP[:4], replace(LOOK_UP[5], pop_prev=1), LOOK_UP[6], config=config, beats=LOOK_UP_BEATS)
    data = np.arange(64, dtype=np.int8) - 30
    found = results(work, data=data, weight=np.eye(4, dtype=np.int8), scale=np.full(32, 1 << 32, np.int64))
    assert found.tolist() == (-data).tolist()


def test_an_image_flows_through_the_line_buffer():
    rng = np.random.default_rng(7)
    pixels = rng.integers(-128, 128, (HEIGHT, WIDTH, 4)).astype(np.int8)
    taps = rng.integers(-128, 128, (3, 3, 4)).astype(np.int8)
    found = results(image(), data=pixels, weight=taps).view(np.int32)
    padded = np.pad(pixels.astype(np.int32), ((1, 1), (1, 1), (0, 0)))
    exact = sum(padded[y : y + HEIGHT, x : x + WIDTH] * taps[y, x].astype(np.int32) for y in range(3) for x in range(3))
    assert found.tolist() == exact.reshape(-1).tolist()


def test_a_row_beyond_a_state_is_refused_with_its_name():
    columns = instruction_columns(TINY, [Load(Buffer.UOP), DW_TAPS(loop0=9, acc0=1, acc=1)])
    engine = Engine(TINY, columns, np.zeros(64, np.uint8))
    engine.execute(0)
    with pytest.raises(SimulationError, match=r"acc index of dw\.taps must be below 9, got 9"):
        engine.execute(1)


# --- cycles --------------------------------------------------------------------------------------

DEPTH = 14 + 2 + 2  # stages of the pipeline and of the adder tree, and the latency of the stage


@pytest.mark.parametrize(
    ("steps", "cycles"),
    [
        (TABLE_LOAD(loop0=8, acc0=1), 8 * 2 + 0 + 3),
        (DW(loop0=5, loop1=4), 20 + 4 + 3),  # a step sees the rows that the step before wrote, without a stall
        (RUN(loop0=6), 6 + 0 + 3),
        (Gemm(loop0=6, emit=STAGE), 6 + 3),
        (Gemm(loop0=6), 6 + 3),
    ],
)
def test_instructions_take_the_cycles_of_their_formulas(steps, cycles):
    found = time_columns(TINY, instruction_columns(TINY, [steps]), 0)
    assert contract.compute_depth(TINY) == DEPTH == contract.compute_depth(PLAIN) + 2
    assert found.ends[0] - found.starts[0] == cycles + DEPTH


def test_times_are_those_of_the_naive_machine():
    columns, _ = random_extended(TINY, np.random.default_rng(2), 10)
    timing, machine = time_columns(TINY, columns, 0), Machine(TINY, columns, 0, np.zeros(len(columns)))
    assert timing.total == machine.run()
    assert timing.ends.tolist() == [i.E for i in machine.program]


def test_an_image_takes_a_cycle_a_pixel_and_its_padding():
    times = time_columns(TINY, image().columns, 0)
    cycles = (times.ends - times.starts)[5:7]
    assert cycles.tolist() == [6 + 4 + 3 + DEPTH, 4 * 6 + 4 + 3 + DEPTH]


# --- words and text ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (TABLE_LOAD(src=1), "instruction 0 (TABLE_LOAD): src must be 0 in table_load, got 1"),
        (TABLE_LOAD(init=1), "instruction 0 (TABLE_LOAD): init must be 0 in table_load, got 1"),
        (
            TABLE_LOAD(emit=Emit.RAW),
            "instruction 0 (TABLE_LOAD): emit must be NONE in table_load, which computes no sums, got RAW",
        ),
        (Gemm(out=1), "instruction 0 (GEMM): out must be 0 unless emit is REQUANT, RAW or STAGE, got 1"),
        (
            Gemm(scl=1, emit=Emit.RAW),
            "instruction 0 (GEMM): scl must be 0 unless emit is REQUANT or STAGE, got 1",
        ),
    ],
)
def test_broken_rules_are_named(instruction, message):
    with pytest.raises(IsaError) as error:
        encode(TINY, [instruction])
    assert str(error.value) == message


def test_a_machine_without_a_stage_has_no_such_code():
    with pytest.raises(IsaError) as error:
        encode(PLAIN, [Gemm(emit=STAGE)])
    assert str(error.value) == "instruction 0 (GEMM): emit must be one of NONE, REQUANT, RAW, got <StagedEmit.STAGE: 3>"


def test_what_writes_the_states_of_the_stage_cannot_send_through_it():
    def counting(config):
        stage, load = table(config)
        (held,) = load.updates
        x = vdla.te.placeholder((config.batch, config.block_out), config.inp_dtype, "x")
        output = vdla.te.compute(x.shape, lambda b, o: vdla.te.cast("int32", x[b, o]), "acc")
        row = vdla.te.compute((config.block_out,), lambda o: x[0, o], "row")
        both = vdla.Extension(
            name="both", doc="Does both.", output=output, scopes={"x": "inp", "acc": "acc"}, updates={held: row}
        )
        return [stage, both]

    config = vdla.extend(PLAIN, counting)
    both = isa_of(config).format_named("both").cls
    with pytest.raises(IsaError) as error:
        encode(config, [both(emit=STAGE)])
    assert str(error.value) == (
        "instruction 0 (BOTH): emit must be other than STAGE in both, which writes what the stage reads, got STAGE"
    )


def test_text_names_the_stage():
    work = look_up()
    text = disassemble(work)
    assert f'.config stage="table#{TINY.stage.digest}"' in text
    assert "\ngemm init=1 emit=stage loop0=16 " in text
    assert assemble(text).hash == work.hash


# --- verification --------------------------------------------------------------------------------


def test_safe_programs_are_verified_and_not_harmed():
    for work in (look_up(), image()):
        assert vdla.verify(work).ok
        assert attack(work).harm is Harm.NONE


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            look_up(*changed(LOOK_UP, 4, loop0=ROWS - 3)),
            "instruction 5 (GEMM in compute): table.table[61..63] must be written before it is read, got nothing",
        ),
        (
            look_up(*changed(LOOK_UP, 4, acc=1, loop0=ROWS - 1)),
            "instruction 5 (GEMM in compute): table.table[0] must be written before it is read, got nothing",
        ),
        (
            image(*changed(IMAGE, 3, loop0=WIDTH)),
            "instruction 5 (DW in compute): dw.line[5] must be written before it is read, got nothing",
        ),
        (
            image(*IMAGE[:3], *IMAGE[4:]),
            "instruction 4 (DW in compute): dw.line[0..5] must be written before it is read, got nothing",
        ),
        (
            image(*changed(IMAGE, 4, acc0=0)),
            "instruction 5 (DW in compute): dw.taps[1..8] must be written before it is read, got nothing",
        ),
    ],
)
def test_the_first_read_of_an_unwritten_row_is_named(work, message):
    verdict = vdla.verify(work)
    assert verdict.findings[0].message == message
    assert attack(work).harm is Harm.TIMING


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (
            look_up(*changed(LOOK_UP, 4, loop0=ROWS + 1)),
            "instruction 4 (TABLE_LOAD in compute): loop0 and acc0 must keep table.table rows below 64, got 64",
        ),
        (
            image(*changed(IMAGE, 5, wgt=11)),
            "instruction 5 (DW in compute): micro-op must keep dw.line rows below 16, got 16",
        ),
    ],
)
def test_rows_beyond_a_state_are_found(work, message):
    assert vdla.verify(work).findings[0].message == message
    assert attack(work).harm is Harm.BOUNDS


def test_the_verifier_refuses_every_mutant_that_the_adversary_harms():
    figures = run_mutants(count=60, programs=[look_up(), image()]).figures
    assert figures["harmful"] > 20
    assert (figures["missed"], figures["false_alarms"]) == (0, 0)

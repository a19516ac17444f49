# SPDX-License-Identifier: Apache-2.0
"""Extensions on the simulator: function and timing against naive models, verifier and adversary."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.extended_programs import random_extended
from helpers.extensions import bits, lanes, lut, mix, narrow, pair, sad
from helpers.hand_programs import program
from helpers.naive_function import Naive
from helpers.naive_timing import Machine

import vdla
from vdla.benchmarks.mutants import run as run_mutants
from vdla.hardware import timing as contract
from vdla.hardware.asm import assemble, disassemble
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COUNTERS, UNITS, Emit, Gemm, Load, MicroOp, Store, instruction_columns, isa_of
from vdla.hardware.program import Program
from vdla.simulator.function import Engine
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_columns
from vdla.verification.adversary import Harm, attack

DECLARED = (lut, sad, mix, narrow, pair, bits, lanes)
TINY = vdla.extend(Config.preset("tiny"), *DECLARED)
LUT, SAD, MIX, NARROW, PAIR, *_ = (isa_of(TINY).format_named(declare.__name__).cls for declare in DECLARED)

LOADS = (Load(Buffer.UOP), Load(Buffer.WGT), Load(Buffer.INP, x_size=4, push_next=1))
SUMS = SAD(loop0=4, acc0=1, src0=1, init=1, pop_prev=1)
LOOKUP = LUT(loop0=4, acc0=1, shift=6, emit=Emit.RAW, push_next=1)
PIPELINE = (*LOADS, SUMS, LOOKUP, Store(x_size=16, pop_prev=1))


def extended_program(*steps):
    return program(*steps, config=TINY)


# --- function ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [{}, {"inp_bits": 4, "wgt_bits": 4, "block_in": 8, "batch": 2}])
def test_the_compiled_steps_agree_with_the_interpreted_behaviour(shape):
    plain = replace(Config.preset("tiny"), inp_kib=4, acc_kib=4, **shape)
    config = vdla.extend(plain, *DECLARED)
    columns, dram = random_extended(config, np.random.default_rng(5), 12)
    engine = Engine(config, columns, dram.copy(), portable=True)
    naive = Naive(config, columns, dram.copy(), [declare(plain) for declare in DECLARED])
    for k in range(len(columns)):
        engine.execute(k)
        naive.execute(k)
        assert (engine.buffers.acc.reshape(-1) == naive.buffers[Buffer.ACC].reshape(-1).view("<i4")).all(), columns[k]
        assert (engine.buffers.out == naive.buffers[Buffer.OUT]).all(), columns[k]


def test_a_program_looks_up_sums_of_differences():
    work = extended_program(*PIPELINE)
    rng = np.random.default_rng(0)
    arrays = {
        t.name: rng.integers(-128, 128, t.nbytes).astype(np.int8) for t in work.tensors if t.role in ("input", "weight")
    }
    out = vdla.simulate(work, arrays).outputs["out"].view(np.int32)
    data, table = (arrays[name][:16].astype(np.int32) for name in ("data", "weight"))
    sums = np.abs(data.reshape(4, 1, 4) - table.reshape(1, 4, 4)).sum(axis=2)
    assert out.tolist() == table[np.minimum(sums >> 6, 15)].reshape(-1).tolist()


def test_indices_beyond_a_buffer_are_refused_with_the_name():
    columns, dram = random_extended(TINY, np.random.default_rng(0), 1)
    columns[-1, isa_of(TINY).col["acc"]] = 63
    engine = Engine(TINY, columns, dram)
    for k in range(len(columns) - 1):
        engine.execute(k)
    with pytest.raises(SimulationError, match=r"^instruction 5 \(extension \d\): acc index must be below 64, got 6\d$"):
        engine.execute(len(columns) - 1)


# --- timing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "cycles"),
    [
        (SAD(loop0=4, acc0=1, init=1), 4 + 3 + 3),  # one step a cycle; the adder closes the loop, not the datapath
        (LUT(loop0=4, shift=6), 4 * 3 + 2 + 3),  # a step reads what the step before wrote, two cycles later
        (LUT(loop0=4, shift=31), 4 * 4 + 2 + 3),  # 1 + 31 // 8 cycles a step
        (MIX(loop0=4, by=1), 4 + 3),
        (NARROW(loop0=4, src0=1, init=1), 4 + 3 + 3),  # two input entries are read in one cycle
    ],
)
def test_instructions_take_the_cycles_of_their_formulas(steps, cycles):
    found = time_columns(TINY, instruction_columns(TINY, [steps]), 0)
    assert found.ends[0] - found.starts[0] == cycles + contract.compute_depth(TINY)


@pytest.mark.parametrize("seed", range(4))
def test_times_and_counters_are_those_of_the_naive_machine(seed):
    columns, _ = random_extended(TINY, np.random.default_rng(seed), 8)
    timing, machine = time_columns(TINY, columns, 0), Machine(TINY, columns, 0, np.zeros(len(columns)))
    assert timing.total == machine.run()
    assert timing.starts.tolist() == [i.S for i in machine.program]
    assert timing.ends.tolist() == [i.E for i in machine.program]
    for unit, row in zip(UNITS, timing.counters.tolist(), strict=True):
        assert dict(zip(COUNTERS, row, strict=True)) == {name: machine.counts[unit][name] for name in COUNTERS}


# --- verification --------------------------------------------------------------------------------


def test_a_safe_program_is_verified_and_not_harmed():
    work = extended_program(*PIPELINE)
    assert vdla.verify(work).ok
    assert attack(work).harm is Harm.NONE


def test_a_step_reads_the_bits_of_its_weights_and_groups_of_entries():
    """By hand: the low half of a byte of weights is the first of its two elements."""
    loads = (Load(Buffer.UOP), Load(Buffer.WGT, x_size=2), Load(Buffer.INP, x_size=4, push_next=1))
    steps = (NARROW(src=1, wgt=1, init=1, emit=Emit.RAW, pop_prev=1, push_next=1), Store(x_size=4, pop_prev=1))
    data, weight = np.zeros((4, 4), np.int8), np.zeros((2, 4, 4), np.int8)
    data[2:] = [[1, 2, 3, 4], [5, 6, 7, -128]]
    weight[1, 0] = [0x21, 0x43, 0x65, 0x07 - 128]  # 1 2 3 4 5 6 7 -8
    weight[1, 3] = [0x70, 0x00, 0x00, 0x00]  # 0 7 0 ...
    work = extended_program(*loads, *steps)
    arrays = {t.name: np.zeros(t.nbytes, np.int8) for t in work.tensors if t.role in ("input", "weight")}
    arrays["data"][: data.size], arrays["weight"][: weight.size] = data.reshape(-1), weight.reshape(-1)
    out = vdla.simulate(work, arrays).outputs["out"].view(np.int32)[:4]
    assert out.tolist() == [1 + 4 + 9 + 16 + 25 + 36 + 49 + 8 * 128, 0, 0, 14]


GROUPS = (
    Load(Buffer.UOP),
    Load(Buffer.WGT, x_size=4),
    Load(Buffer.INP, x_size=8, push_next=1),
    NARROW(loop0=4, acc0=1, src0=1, init=1, pop_prev=1),
    PAIR(loop0=2, acc0=1, src=1, src0=2, wgt0=1, emit=Emit.RAW, push_next=1),
    Store(x_size=8, pop_prev=1),
)


@pytest.mark.parametrize(
    ("at", "changes", "message"),
    [
        (2, {"x_size": 7}, None),  # the second entry of the last group is not there
        (3, {"src": 125}, "(NARROW in compute): loop0 and src0 must keep groups of 2 inp entries below 128, got 128"),
        (4, {"wgt": 31}, "(PAIR in compute): loop0 and wgt0 must keep groups of 2 wgt entries below 32, got 32"),
        (4, {"wgt": 1}, None),
    ],
)
def test_groups_are_read_whole(at, changes, message):
    assert vdla.verify(extended_program(*GROUPS)).ok
    steps = list(GROUPS)
    steps[at] = replace(steps[at], **changes)
    work = extended_program(*steps)
    found = [finding.message for finding in vdla.verify(work).findings]
    assert found and attack(work).harm is not Harm.NONE
    assert message is None or f"instruction {at} {message}" in found


@pytest.mark.parametrize(
    ("at", "changes", "kind", "message"),
    [
        (3, {"pop_prev": 0}, Harm.TIMING, None),
        (3, {"src": 253}, Harm.BOUNDS, "loop0 and src0 must keep inp entries below 256, got 256"),
        (3, {"wgt": 64}, Harm.BOUNDS, "wgt must keep wgt entries below 64, got 64"),
        (3, {"init": 0}, Harm.TIMING, None),
        (4, {"acc": 61}, Harm.BOUNDS, None),
        (4, {"wgt": 1}, Harm.TIMING, None),
    ],
)
def test_verifier_and_adversary_find_the_same_mutants(at, changes, kind, message):
    steps = list(PIPELINE)
    steps[at] = replace(steps[at], **changes)
    work = extended_program(*steps)
    verdict = vdla.verify(work)
    assert not verdict.ok
    assert attack(work).harm is kind
    named = f"instruction 3 (SAD in compute): {message}"
    assert message is None or named in [finding.message for finding in verdict.findings]


KERNEL = (MicroOp(first=1), MicroOp(src=1, wgt=1), MicroOp(acc=1, src=2, first=1, last=1))
STEPS = (
    Load(Buffer.UOP, x_size=3),
    Load(Buffer.WGT, x_size=4),
    Load(Buffer.INP, x_size=8, push_next=1),
    SAD(uop_end=3, loop0=2, loop1=2, acc0=4, acc1=2, src0=1, src1=2, wgt1=1, init=1, pop_prev=1),
    MIX(uop_begin=2, uop_end=3, loop0=4, acc=8, acc0=1, src0=1, by=3),
    LUT(uop_begin=1, uop_end=3, loop0=2, acc0=4, wgt0=1, shift=6, emit=Emit.RAW, push_next=1, push_prev=1),
    Load(Buffer.INP, x_size=4, pop_next=1),
    Store(sram=4, x_size=4, pop_prev=1),
)


def test_the_verifier_refuses_every_mutant_that_the_adversary_harms():
    others = [extended_program(*steps) for steps in (PIPELINE, GROUPS)]
    programs = [*others, program(*STEPS, config=TINY, uops=KERNEL)]
    figures = run_mutants(count=100, programs=programs).figures
    assert figures["harmful"] > 30
    assert (figures["missed"], figures["false_alarms"]) == (0, 0)


def test_programs_name_their_extensions_by_name_and_digest():
    work = extended_program(*PIPELINE)
    text = disassemble(work)
    assert assemble(text).hash == work.hash
    assert f'.config extension="lut#{TINY.extensions[0].digest}"' in text
    assert "\nlut emit=raw loop0=4 acc0=1 shift=6 signal=store\n" in text
    assert Program.from_bytes(work.to_bytes(), "file").hash == work.hash


def test_a_plain_machine_refuses_a_program_with_extensions():
    work = extended_program(*PIPELINE)
    labels = ",".join(plug_in.label for plug_in in TINY.extensions)
    with pytest.raises(SimulationError) as error:
        vdla.simulate(work, config=Config.preset("tiny"))
    assert str(error.value) == f"simulate hand: program was compiled for extensions={labels}, device has none"


def test_neighbours_of_one_extension_follow_without_draining():
    same = time_columns(TINY, instruction_columns(TINY, [LUT(), LUT()]), 0)
    other = time_columns(TINY, instruction_columns(TINY, [LUT(), MIX(by=1)]), 0)
    plain = time_columns(TINY, instruction_columns(TINY, [LUT(), Gemm()]), 0)
    assert same.starts[1] < same.ends[0]
    assert other.starts[1] > other.ends[0]
    assert plain.starts[1] > plain.ends[0]

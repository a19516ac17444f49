# SPDX-License-Identifier: Apache-2.0
"""The adversary finds each kind of harm, and none in safe programs."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from helpers.hand_programs import DATA, PIPELINE, PRODUCT, RESULT, SCALE, TINY, UOPS, WEIGHT, program

from vdla.hardware.config import Buffer
from vdla.hardware.isa import Emit, Gemm, Load, MicroOp, Operand, Source, Store, Sync, Unit, Vector, VectorOp
from vdla.verification.adversary import Harm, Interleaving, attack, interleavings


def harm(*steps, **options):
    return attack(program(*steps, **options)).harm


def test_a_safe_pipeline_is_not_harmed():
    result = attack(program(*PIPELINE))
    assert (result.harm, result.detail, result.interleavings, result.harmful) == (Harm.NONE, "", 13, False)


def test_the_detail_names_instruction_and_schedule():
    hang = attack(program(*PIPELINE[:3], replace(DATA, push_next=0), *PIPELINE[4:]))
    assert (hang.harm, hang.detail) == (Harm.HANG, "at instruction 4, load before compute before store, 4 commands")
    bounds = attack(program(*PIPELINE[:5], replace(RESULT, dram=1)))
    assert bounds.detail.startswith("at instruction 5, ")
    timing = attack(program(*PIPELINE[:4], replace(PRODUCT, push_next=0), replace(RESULT, pop_prev=0)))
    assert timing.harmful
    assert timing.detail.startswith("out differs at beat 0, ")


def test_every_order_of_the_units_is_tried_with_deep_queues():
    found = list(interleavings(4, np.random.default_rng(0)))
    assert {i.order for i in found[1:7]} == set(permutations(range(3)))
    assert found[0].command_depth == 4
    assert len(found) == 11
    assert all(i.random for i in found[7:])
    assert str(found[7]).startswith("at random, else ")
    assert isinstance(found[0], Interleaving)


def test_a_race_without_a_difference_does_no_harm():
    same = replace(DATA, push_next=0)  # reloads equal data while it is read
    assert harm(*PIPELINE, same) == Harm.NONE


def test_a_race_on_dead_data_does_no_harm():
    assert harm(*PIPELINE[:3], replace(DATA, x_size=12), replace(PRODUCT, emit=Emit.NONE, push_next=0)) == Harm.NONE


def test_a_long_program_is_left_undecided():
    busy = Gemm(loop0=200, loop1=200, init=1, pop_prev=1)
    steps = (UOPS, WEIGHT, SCALE, DATA, busy)
    assert attack(program(*steps), most_items=10_000).harm == Harm.UNDECIDED
    assert attack(program(*steps), most_items=100_000).harm == Harm.NONE


MOVE = Vector(VectorOp.MOV, Operand.SRC, source=Source.INP, src0=1, acc0=1, loop0=16, init=1, emit=Emit.RAW, pop_prev=1)
WIDE = replace(TINY, name="wide", block_out=8)
TALL = replace(TINY, name="tall", block_in=8)


@pytest.mark.parametrize("config", [TINY, WIDE, TALL])
@pytest.mark.parametrize("emit", [Emit.RAW, Emit.REQUANT])
def test_vector_indices_have_the_width_of_a_vector(config, emit):
    """The last of the entries that 16 vectors cover is read: results depend on it."""
    entries = 16 * config.out_entry_bytes // config.inp_entry_bytes
    beats = {"data": 256, "weight": 256, "scale": 256, "bias": 256, "out": 2048, "tmp": 16}
    size = 16 if emit == Emit.REQUANT else 16 * 4
    move = replace(MOVE, emit=emit, push_next=1)

    def steps(loaded):
        return (UOPS, SCALE, replace(DATA, x_size=loaded), move, replace(RESULT, x_size=size))

    assert harm(*steps(entries), config=config, beats=beats) == Harm.NONE
    assert harm(*steps(entries - 1), config=config, beats=beats) == Harm.TIMING


@pytest.mark.parametrize(
    "vector",
    [
        replace(MOVE, source=Source.ACC, acc=32),
        replace(MOVE, op=VectorOp.ADD, source=Source.ACC, acc=32, init=0),
        replace(MOVE, op=VectorOp.MAC, operand=Operand.WGT),
        replace(MOVE, operand=Operand.WGT, source=Source.ACC, src0=0),
    ],
)
def test_operands_that_are_not_loaded_change_results(vector):
    """Operands that are not loaded make results differ."""
    last = (replace(vector, push_next=1), replace(RESULT, x_size=16))
    assert harm(UOPS, Load(Buffer.SCL, push_next=1), *last) == Harm.TIMING


@pytest.mark.parametrize(
    "vector",
    [
        replace(MOVE, src=245),
        replace(MOVE, acc=49),
        replace(MOVE, out=49),
        replace(MOVE, source=Source.ACC, src=49),
        replace(MOVE, operand=Operand.WGT, source=Source.ACC, src0=0, wgt=250, wgt0=1),
        replace(MOVE, uop_end=129),
    ],
)
def test_a_vector_beyond_a_buffer_is_found(vector):
    assert harm(UOPS, replace(DATA, x_size=256, z_size=1, y_size=1, dram=0), vector, beats=BIG) == Harm.BOUNDS


BIG = {"data": 256, "weight": 64, "scale": 64, "bias": 64, "out": 16, "tmp": 16}


def test_micro_ops_are_read_at_their_beat():
    """The second micro-op, at beat 2, indexes beyond the accumulator."""
    pair = (MicroOp(first=1, last=1), MicroOp(acc=60, first=1, last=1))
    assert harm(*PIPELINE, uops=pair) == Harm.NONE
    assert harm(replace(UOPS, dram=2), *PIPELINE[1:], uops=pair) == Harm.BOUNDS


def test_padding_value_and_widening_change_results():
    fill = Load(Buffer.ACC, x_size=8, widen=1, x_after=8, pad_value=-1)
    move = replace(MOVE, source=Source.ACC, pop_prev=0, push_next=1, emit=Emit.RAW)
    assert harm(UOPS, fill, move, replace(RESULT, x_size=16)) == Harm.NONE
    assert harm(UOPS, replace(fill, x_after=7), move, replace(RESULT, x_size=16, sram=48)) == Harm.TIMING


def test_full_queues_hang_only_when_they_are_small():
    steps = [Sync(Unit.LOAD, push_next=1)] * 20 + [Sync(Unit.COMPUTE, pop_prev=1)] * 20
    result = attack(program(*steps))
    assert (result.harm, result.interleavings) == (Harm.HANG, 1)  # the first is the smallest machine


def test_a_store_to_a_read_only_tensor_is_found():
    assert harm(*PIPELINE[:5], (Store(pop_prev=1), "weight")) == Harm.BOUNDS
    assert harm(*PIPELINE[:5], (Store(pop_prev=1), None)) == Harm.BOUNDS

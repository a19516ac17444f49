# SPDX-License-Identifier: Apache-2.0
"""Random programs of machines with extensions: function and timing against naive models."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.extensions import axpy, bits, lut, mix, narrow, pair, sad
from helpers.hand_programs import program
from helpers.naive_function import Naive
from helpers.naive_timing import Machine

import vdla
from vdla.benchmarks.mutants import run as run_mutants
from vdla.hardware.config import Buffer, Config, Dram
from vdla.hardware.isa import COUNTERS, EXTENSION, EXTENSION_COLUMN, UNITS, Load, isa_of
from vdla.hardware.program import STREAM, place
from vdla.simulator.function import Engine
from vdla.simulator.simulate import dram_image
from vdla.simulator.timing import time_program
from vdla.simulator.timing.vector_stalls import vector_stalls
from vdla.verification.programs.mutation import mutants
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_draft, random_verified_program

DECLARED = (lut, sad, mix, axpy, narrow, pair, bits)
PLAIN = Config.preset("tiny")
BATCHED = replace(PLAIN, batch=2, block_in=8, inp_kib=2, acc_kib=2, inp_bits=4, wgt_bits=4, dram=Dram(read_latency=1))


@cache
def machine(plain):
    return vdla.extend(plain, *DECLARED)


def test_programs_have_every_instruction_that_a_machine_has():
    drawn = [random_verified_program(machine(PLAIN), seed, 60, longest=12) for seed in range(8)]
    found = np.concatenate([isa_of(program.config).codes_of_columns(program.columns) for program in drawn])
    assert set(found.tolist()) == set(isa_of(machine(PLAIN)).formats)
    again = [
        (np.diff(columns[:, EXTENSION_COLUMN]) == 0) & (columns[1:, 0] == EXTENSION) & (columns[:-1, 0] == EXTENSION)
        for columns in (program.columns for program in drawn)
    ]
    assert sum(int(pair.sum()) for pair in again) > 10  # an instruction follows one of its own extension


@pytest.mark.parametrize("plain", [PLAIN, BATCHED], ids=["tiny", "batched"])
def test_data_are_those_of_the_naive_model(plain):
    drawn = random_verified_program(machine(plain), 3, 40, longest=8)
    _, dram = dram_image(drawn, random_arrays(drawn, 1))
    columns = drawn.linked_columns(place(drawn)[0])
    engine = Engine(drawn.config, columns, dram.copy(), portable=True)
    naive = Naive(drawn.config, columns, dram.copy(), [declare(plain) for declare in DECLARED])
    for k in range(len(columns)):
        engine.execute(k)
        naive.execute(k)
    assert (engine.buffers.acc.reshape(-1) == naive.buffers[Buffer.ACC].reshape(-1).view("<i4")).all()
    assert (engine.buffers.out == naive.buffers[Buffer.OUT]).all()
    assert (engine.buffers.dram == naive.dram).all()


@pytest.mark.parametrize("plain", [PLAIN, BATCHED], ids=["tiny", "batched"])
@pytest.mark.parametrize("seed", range(2))
def test_times_are_those_of_the_naive_machine(plain, seed):
    drawn = random_verified_program(machine(plain), seed, 40, longest=8)
    addresses, _ = place(drawn)
    timing = time_program(drawn, drawn.config)
    stream_beat = addresses[STREAM] // plain.axi_bytes
    naive = Machine(drawn.config, drawn.linked_columns(addresses), stream_beat, vector_stalls(drawn))
    assert timing.total_cycles == naive.run()
    assert timing.starts.tolist() == [i.S for i in naive.program]
    assert timing.ends.tolist() == [i.E for i in naive.program]
    for unit in UNITS:
        assert timing.counters[unit] == {name: naive.counts[unit][name] for name in COUNTERS}


def test_the_verifier_refuses_every_mutant_that_the_adversary_harms():
    drafts = [random_draft(machine(PLAIN), seed, 30, longest=8) for seed in range(4)]
    programs = [draft.program(draft.needed_tokens) for draft in drafts]
    figures = run_mutants(count=60, programs=programs).figures
    assert figures["harmful"] > 10
    assert (figures["missed"], figures["false_alarms"], figures["harmful_unchanged"]) == (0, 0, 0)


def test_mutants_change_the_number_and_the_fields_of_an_extension():
    config = machine(PLAIN)
    lookup = isa_of(config).format_named("lut").cls
    short = program(Load(Buffer.UOP), lookup(shift=6), config=config)
    changes = [mutant.change for mutant in mutants(short, 300, np.random.default_rng(0))]
    for name in ("extension", "shift", "loop0"):
        assert any(f"instruction 1, {name} " in change for change in changes), name

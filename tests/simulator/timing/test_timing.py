# SPDX-License-Identifier: Apache-2.0
"""Hand-computed times from docs/timing-contract.md, hangs, retiming, statistics."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.compiler.extensions import extend
from vdla.hardware.config import Config, Dram
from vdla.hardware.isa import COUNTERS, UNITS, Buffer, Gemm, Load, Store, Sync, Unit, instruction_columns
from vdla.hardware.program import STREAM, place
from vdla.hardware.timing import (
    COMMAND_DELAY,
    DISPATCH_DELAY,
    ISSUE_DELAY,
    LOAD_SETUP,
    LOAD_TAIL,
    PORT_DELAY,
    STORE_SETUP,
    STORE_TAIL,
    compute_depth,
)
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import is_prepared, prepare, time_columns, time_program

PYNQ = replace(
    Config.preset("pynq_z1"),
    dram=Dram(read_latency=10, write_latency=5, outstanding_reads=8, outstanding_writes=8, beat_cycles=1, burst_gap=0),
)
TINY = Config.preset("tiny")
LUT = Path(__file__).parents[3] / "examples" / "look_up_table" / "lut.py"
WORD_BEATS = 4  # an instruction of 32 bytes over 64 bits
FIRST_BEAT = 10 + PORT_DELAY  # fetch requests in cycle 0
FIRST = FIRST_BEAT + WORD_BEATS - 1 + DISPATCH_DELAY


def timed(config, *instructions, **options):
    return time_columns(config, instruction_columns(config, instructions), 0, **options)


def test_a_single_gemm_takes_the_hand_computed_cycles():
    timing = timed(PYNQ, Gemm(loop0=3, loop1=5))
    start = FIRST + COMMAND_DELAY
    assert timing.dispatches.tolist() == [FIRST]
    assert timing.starts.tolist() == [start]
    assert timing.ends.tolist() == [start + 15 + ISSUE_DELAY + compute_depth(PYNQ)]
    assert timing.total == timing.ends[0] + 1


def test_a_single_load_takes_the_hand_computed_cycles():
    timing = timed(PYNQ, Load(Buffer.INP, x_size=20))  # 40 beats, three bursts
    grant = FIRST + COMMAND_DELAY + LOAD_SETUP
    assert timing.ends.tolist() == [grant + PORT_DELAY + 10 + 40 - 1 + LOAD_TAIL]


def test_a_load_of_padding_only_takes_the_hand_computed_cycles():
    timing = timed(PYNQ, Load(Buffer.INP, y_size=0, x_size=0, y_before=2, x_before=3))
    assert timing.ends.tolist() == [FIRST + COMMAND_DELAY + LOAD_SETUP + 6 - 1 + LOAD_TAIL]


def test_a_single_store_takes_the_hand_computed_cycles():
    timing = timed(PYNQ, Store(x_size=9))  # 18 beats
    assert timing.ends.tolist() == [FIRST + COMMAND_DELAY + STORE_SETUP + 18 - 1 + 5 + STORE_TAIL]


def test_a_burst_does_not_cross_a_page():
    apart = timed(PYNQ, Load(Buffer.INP, dram=504, x_size=8))  # 8 beats to the page's end, 8 after it
    together = timed(PYNQ, Load(Buffer.INP, dram=496, x_size=8))
    one_slot = replace(PYNQ, dram=replace(PYNQ.dram, outstanding_reads=1))
    assert apart.ends.tolist() == together.ends.tolist()
    assert timed(one_slot, Load(Buffer.INP, dram=504, x_size=8)).ends[0] > together.ends[0]


def test_an_empty_stream_takes_no_time_in_the_simulator():
    assert timed(PYNQ).total == 0


def test_a_deadlock_names_every_unit_and_queue():
    with pytest.raises(SimulationError) as error:
        timed(TINY, Load(Buffer.INP, pop_next=1), Sync(Unit.COMPUTE, pop_prev=1, pop_next=1), Store(pop_prev=1))
    assert str(error.value) == (
        "timing: the program is deadlocked after cycle 54\n"
        "  fetch: 3 of 3 instructions dispatched\n"
        "  load: instruction 0 (LOAD) waits for a token of compute_to_load\n"
        "  compute: instruction 1 (SYNC) waits for a token of load_to_compute and of store_to_compute\n"
        "  store: instruction 2 (STORE) waits for a token of compute_to_store\n"
        "  queues: load_to_compute 0/8, compute_to_load 0/8, compute_to_store 0/8, store_to_compute 0/8"
    )


def test_a_full_queue_and_a_full_command_queue_are_named():
    pushes = [Sync(Unit.LOAD, push_next=1) for _ in range(20)]
    with pytest.raises(SimulationError) as error:
        timed(TINY, *pushes)
    text = str(error.value)
    assert "load: instruction 8 (SYNC) waits for room in load_to_compute" in text
    assert (
        "  fetch: 16 of 20 instructions dispatched, the command queue of load is full at instruction 16 (SYNC)" in text
    )
    assert "queues: load_to_compute 8/8" in text


def test_more_than_max_cycles_are_an_error():
    with pytest.raises(SimulationError, match="has not ended after cycle 100\n"):
        timed(TINY, Gemm(loop0=100, loop1=100), max_cycles=100)
    with pytest.raises(SimulationError, match="has not ended"):
        timed(TINY, Load(Buffer.INP, x_size=200), max_cycles=50)


def test_max_cycles_is_the_limit_of_the_total():
    program, _, _ = small_gemm(TINY)
    total = time_program(program).total_cycles
    assert time_program(program, max_cycles=total).total_cycles == total
    assert time_program(program, max_cycles=1 << 80).total_cycles == total
    with pytest.raises(SimulationError, match=f"has not ended after cycle {total - 1}\n"):
        time_program(program, max_cycles=total - 1)


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "int4", "batch4"])
def test_statistics_add_up_to_cycles_bytes_and_macs(preset):
    program, _, _ = small_gemm(Config.preset(preset))
    stats = time_program(program)
    for unit in UNITS:
        assert sum(stats.counters[unit].values()) == stats.total_cycles
    assert (stats.waits.sum(axis=0) > 0).any()
    assert stats.macs == 6 * 4 * 4 * stats.config.macs_per_cycle
    moved = {tensor.name: tensor.nbytes for tensor in program.tensors}
    assert stats.bytes_written == moved["out"]
    assert stats.bytes_read == program.words.nbytes + sum(moved[n] for n in ("wgt", "scl", "uops")) + 2 * moved["inp"]
    assert 0 < stats.utilisation < 1
    assert stats.to_dict()["counters"]["load"]["idle"] == stats.counters["load"]["idle"]
    assert list(stats.counters["store"]) == list(COUNTERS)


def test_retiming_needs_no_data():
    program, _, _ = small_gemm(TINY)
    slow = replace(TINY, dram=replace(TINY.dram, read_latency=300), token_depth=64)
    assert time_program(program, slow).total_cycles > time_program(program).total_cycles + 600


def test_timing_a_program_for_another_machine_is_refused():
    program, _, _ = small_gemm(TINY)
    with pytest.raises(SimulationError) as error:
        time_program(program, replace(TINY, inp_kib=2))
    assert str(error.value) == f"simulate {program.name}: program was compiled for inp_kib=1, device has 2"


def test_addresses_of_tensors_are_checked():
    program, _, _ = small_gemm(TINY)
    places = place(program)[0]
    with pytest.raises(SimulationError) as error:
        time_program(program, addresses={**places, STREAM: places[STREAM] + 2})
    assert str(error.value) == (
        f"simulate {program.name}: address of {STREAM} must be a multiple of 4 from 0, got {places[STREAM] + 2}"
    )
    del places[STREAM]
    with pytest.raises(SimulationError, match="addresses must include"):
        time_program(program, addresses=places)


def test_differences_between_runs_are_sentences():
    program, _, _ = small_gemm(TINY)
    one = time_program(program)
    assert one.differences(time_program(program)) == []
    ends = one.ends.copy()
    ends[3] += 1
    other = replace(one, total_cycles=one.total_cycles + 1, ends=ends)
    assert one.differences(other) == [
        f"total_cycles is {one.total_cycles}, other has {one.total_cycles + 1}",
        f"ends[3] is {one.ends[3]}, other has {ends[3]} (1 differ)",
    ]
    assert "instructions" in one.differences(replace(one, starts=np.zeros(1, np.int64)))[0]
    unknown = replace(one, starts=np.full_like(one.starts, -1))
    assert one.differences(unknown) == unknown.differences(one) == []


@pytest.mark.parametrize("extensions", [(), (LUT,)], ids=["plain", "extended"])
def test_a_run_leaves_the_event_loop_prepared(extensions):
    prepare(extend(Config.preset("tiny"), *extensions))
    assert is_prepared()

# SPDX-License-Identifier: Apache-2.0
"""The verifier on hand-written programs: deadlocks and races, with their exact text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.hand_programs import DATA, PIPELINE, PRODUCT, RESULT, SCALE, UOPS, WEIGHT, messages, program

from vdla.hardware.config import Buffer
from vdla.hardware.isa import Emit, Sync, Unit
from vdla.simulator.verify import Kind, verify
from vdla.verification.adversary import Harm, attack

# --- deadlock -------------------------------------------------------------------------------------


def test_two_units_that_wait_for_each_other_deadlock():
    bad = program(UOPS, WEIGHT, SCALE, replace(DATA, pop_next=1), replace(PRODUCT, push_prev=1), RESULT)
    finding = next(finding for finding in verify(bad).findings if finding.kind == Kind.DEADLOCK)
    assert finding.message == (
        "nothing moves after 3 of 6 instructions; "
        "instruction 3 (LOAD inp in load) waits to pop from compute_to_load, which is empty; "
        "instruction 4 (GEMM in compute) waits to pop from load_to_compute, which is empty; "
        "instruction 5 (STORE in store) waits to pop from compute_to_store, which is empty; "
        "cycle of waits: load -> compute -> load"
    )
    assert finding.instructions == (3, 4, 5)
    assert finding.units == ("load", "compute", "store")
    assert finding.queues == ("compute_to_load", "load_to_compute", "compute_to_store")
    assert attack(bad).harm == Harm.HANG


def test_a_wait_for_a_token_that_is_never_pushed_deadlocks():
    bad = program(UOPS, WEIGHT, SCALE, replace(DATA, push_next=0), PRODUCT, RESULT)
    assert messages(verify(bad)) == [
        "deadlock: nothing moves after 4 of 6 instructions; "
        "instruction 4 (GEMM in compute) waits to pop from load_to_compute, which is empty; "
        "instruction 5 (STORE in store) waits to pop from compute_to_store, which is empty; "
        "compute waits for load, which has no more instructions"
    ]
    assert attack(bad).harm == Harm.HANG


def pushes(count):
    """`count` tokens pushed before the first is popped."""
    return [Sync(Unit.LOAD, push_next=1)] * count + [Sync(Unit.COMPUTE, pop_prev=1)] * count


def test_a_full_queue_blocks_fetch():
    assert verify(program(*pushes(13))).ok  # 8 tokens, 1 waiting for room, 4 commands
    bad = program(*pushes(14))
    assert messages(verify(bad)) == [
        "deadlock: nothing moves after 8 of 28 instructions; "
        "instruction 8 (SYNC in load) waits to push to load_to_compute, which is full with 8 tokens; "
        "fetch waits at instruction 13 (SYNC in load) for room in the command queue of load; "
        "cycle of waits: load -> compute -> fetch -> load"
    ]
    assert verify(bad).findings[0].instructions == (8, 13)
    assert attack(bad).harm == Harm.HANG


def test_leftover_tokens_are_refused():
    bad = program(*PIPELINE[:4], replace(PRODUCT, push_prev=1), RESULT)
    assert messages(verify(bad)) == [
        "unbalanced: compute_to_load must be empty at the end, got 1 token that load never pops, "
        "the last from instruction 4 (GEMM in compute)"
    ]


# --- races ----------------------------------------------------------------------------------------


# A second tile loaded to the same entries, not ordered by tokens.
AGAIN = (replace(DATA, dram=16), replace(PRODUCT), RESULT)
LATER = {
    Buffer.INP: replace(DATA, dram=16, push_next=0),
    Buffer.WGT: replace(WEIGHT, dram=4),
    Buffer.SCL: replace(SCALE, dram=8),
}


@pytest.mark.parametrize("buffer", LATER)
def test_a_load_over_data_still_read_is_a_race(buffer):
    bad = program(*PIPELINE, LATER[buffer])
    verdict = verify(bad)
    name = buffer.name.lower()
    place = {Buffer.INP: "inp[0..15]", Buffer.WGT: "wgt[0]", Buffer.SCL: "scl[0]"}[buffer]
    assert messages(verdict) == [
        f"race: instruction 4 (GEMM in compute) reads {place} and instruction 6 (LOAD {name} in load) writes it; "
        "no token orders them (write after read)"
    ]
    assert verdict.findings[0].instructions == (4, 6)
    assert verdict.findings[0].units == ("compute", "load")
    assert attack(bad).harm == Harm.TIMING
    ordered = (*PIPELINE[:4], replace(PRODUCT, push_prev=1), RESULT, replace(LATER[buffer], pop_next=1))
    assert verify(program(*ordered)).ok


@pytest.mark.parametrize("buffer", LATER)
def test_a_read_before_its_load_has_ended_is_a_race(buffer):
    """The token comes from an instruction before the writer."""
    late = {Buffer.INP: DATA, Buffer.WGT: WEIGHT, Buffer.SCL: SCALE}[buffer]
    others = [load for load in (WEIGHT, SCALE, DATA) if load.buffer != buffer]
    steps = [UOPS, *(replace(load, push_next=int(load is others[-1])) for load in others), replace(late, push_next=0)]
    bad = program(*steps, PRODUCT, RESULT)
    name = buffer.name.lower()
    place = "inp[0..15]" if buffer == Buffer.INP else f"{name}[0]"
    assert messages(verify(bad)) == [
        f"race: instruction 3 (LOAD {name} in load) writes {place} and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)"
    ]
    assert attack(bad).harm == Harm.TIMING


def test_a_store_before_its_results_are_written_is_a_race():
    early = replace(PRODUCT, emit=Emit.NONE, push_next=1)
    bad = program(*PIPELINE[:4], early, replace(PRODUCT, pop_prev=0, push_next=0), RESULT)
    assert messages(verify(bad)) == [
        "race: instruction 5 (GEMM in compute) writes out[0..15] and instruction 6 (STORE in store) reads it; "
        "no token orders them (read after write)"
    ]
    assert attack(bad).harm == Harm.TIMING


def test_results_over_data_still_stored_are_a_race():
    second = (replace(DATA, sram=16, dram=16), replace(PRODUCT, src=16), (RESULT, "tmp"))
    bad = program(*PIPELINE, *second)
    assert messages(verify(bad)) == [
        "race: instruction 5 (STORE in store) reads out[0..15] and instruction 7 (GEMM in compute) writes it; "
        "no token orders them (write after read)"
    ]
    assert attack(bad).harm == Harm.TIMING
    good = program(*PIPELINE[:5], replace(RESULT, push_prev=1), second[0], replace(second[1], pop_next=1), second[2])
    assert verify(good).ok
    assert attack(good).harm == Harm.NONE


def test_a_load_before_its_data_are_stored_is_a_race_in_dram():
    spill = (replace(RESULT, push_prev=0), "tmp")
    back = (replace(DATA, sram=16), "tmp")
    rest = (replace(PRODUCT, src=16, out=16), replace(RESULT, sram=16))
    bad = program(*PIPELINE[:5], spill, back, *rest)
    assert messages(verify(bad)) == [
        "race: instruction 5 (STORE in store) writes tmp[0..15] and instruction 6 (LOAD inp in load) reads it; "
        "no token orders them (read after write)"
    ]
    assert attack(bad).harm == Harm.TIMING
    relay = Sync(Unit.COMPUTE, pop_next=1, push_prev=1)
    ordered = ((replace(RESULT, push_prev=1), "tmp"), relay, (replace(back[0], pop_next=1), "tmp"))
    good = program(*PIPELINE[:5], *ordered, *rest)
    assert verify(good).ok
    assert attack(good).harm == Harm.NONE


def test_a_store_over_data_still_loaded_is_a_race_in_dram():
    spill = (replace(RESULT, push_prev=1), "tmp")
    relay = Sync(Unit.COMPUTE, pop_next=1, push_prev=1)
    back = (replace(DATA, sram=16, pop_next=1), "tmp")
    again = (replace(PRODUCT, out=16, pop_prev=0), (replace(RESULT, sram=16), "tmp"))
    tail = (replace(PRODUCT, src=16, out=32), replace(RESULT, sram=32))
    bad = program(*PIPELINE[:5], spill, relay, back, *again, *tail)
    assert messages(verify(bad)) == [
        "race: instruction 7 (LOAD inp in load) reads tmp[0..15] and instruction 9 (STORE in store) writes it; "
        "no token orders them (write after read)"
    ]
    good = (replace(tail[0]), replace(tail[1]), *again)
    assert verify(program(*PIPELINE[:5], spill, relay, back, *good)).ok


def test_writes_of_one_unit_are_in_order():
    twice = program(*PIPELINE[:5], replace(RESULT, pop_prev=1), replace(RESULT, pop_prev=0))
    assert verify(twice).ok
    assert attack(twice).harm == Harm.NONE


def test_back_pressure_does_not_order_accesses():
    """A full queue orders a push after a pop, but only on machines with shallow queues."""
    fill = [Sync(Unit.LOAD, push_next=1)] * 7
    steps = (UOPS, WEIGHT, SCALE, DATA, *fill, Sync(Unit.LOAD, push_next=1), replace(DATA, dram=16, push_next=0))
    drain = [Sync(Unit.COMPUTE, pop_prev=1)] * 8
    bad = program(*steps, PRODUCT, RESULT, *drain)
    assert Kind.RACE in verify(bad).kinds()
    assert attack(bad).harm == Harm.TIMING

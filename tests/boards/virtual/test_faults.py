# SPDX-License-Identifier: Apache-2.0
"""Faults as the command line gives them, and when each one strikes."""

from __future__ import annotations

import pytest

from vdla.boards.virtual.active_faults import ActiveFaults
from vdla.boards.virtual.faults import (
    DroppedConnection,
    FaultError,
    FlippedBit,
    FullMemory,
    LostInterrupt,
    OtherBitstream,
    SlowBoard,
    SlowFabric,
    fault_names,
    parse_fault,
)
from vdla.boards.virtual.memory import BoardMemory

CASES = {
    "lost-interrupt": LostInterrupt(),
    "slow": SlowBoard(20),
    "slow=7": SlowBoard(7),
    "slow-fabric=9": SlowFabric(9),
    "dropped-connection=2": DroppedConnection(2),
    "other-bitstream=zcu104": OtherBitstream("zcu104"),
    "full-memory": FullMemory(0),
    "flipped-bit=5": FlippedBit(5),
}


@pytest.mark.parametrize("text", CASES)
def test_a_fault_is_a_name_and_a_value(text):
    assert parse_fault(text) == CASES[text]


def test_every_fault_can_be_given():
    assert {text.partition("=")[0] for text in CASES} == set(fault_names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slwo", "fault: name must be one of lost-interrupt, slow, slow-fabric, dropped-connection, other-bitstream, "
                 "full-memory, flipped-bit, got slwo (did you mean slow?)"),
        ("slow=-1", "fault slow: value must be an integer from 0 to 1073741824, got -1"),
        ("slow=", "fault slow: value must be an integer from 0 to 1073741824, got "),
        ("other-bitstream", "fault other-bitstream: value must be a preset, got none"),
        ("lost-interrupt=1", "fault lost-interrupt: value must be left out, got 1"),
    ],
)  # fmt: skip
def test_what_is_no_fault(text, message):
    with pytest.raises(FaultError) as error:
        parse_fault(text)
    assert str(error.value) == message


def test_the_connection_drops_once_at_a_request_after_a_start():
    faults, memory = ActiveFaults(), BoardMemory(4096)
    faults.add(DroppedConnection(requests=2))
    assert not any(faults.drops() for _ in range(5))
    faults.start(memory)
    assert [faults.drops() for _ in range(5)] == [False, True, False, False, False]
    faults.start(memory)
    assert not any(faults.drops() for _ in range(5))


def flipped(seed: int, starts: int = 1, runs: int = 1) -> bytes:
    faults, memory = ActiveFaults(), BoardMemory(1 << 16)
    memory.allocate(100)
    memory.free(memory.allocate(100).identifier)
    memory.data[:] = 0
    faults.add(FlippedBit(seed, starts))
    for _ in range(runs):
        faults.start(memory)
    return memory.data.tobytes()


def test_a_bit_of_a_buffer_flips_as_its_seed_says():
    for seed in range(20):
        content = flipped(seed)
        assert sum(byte.bit_count() for byte in content[:100]) == 1
        assert not any(content[100:])
        assert flipped(seed) == content
    assert flipped(1) != flipped(2)


def test_a_bit_flips_at_as_many_starts_as_are_asked_for():
    assert flipped(3, starts=1, runs=5) == flipped(3)
    assert sum(byte.bit_count() for byte in flipped(3, starts=2, runs=5)) in (0, 2)


def test_faults_that_last():
    faults = ActiveFaults()
    assert (faults.delay_s, faults.pause_s, faults.loses_interrupts, faults.other_preset) == (0, 0, False, None)
    for fault in (SlowBoard(5), SlowBoard(6), SlowFabric(7), LostInterrupt(), OtherBitstream("tiny")):
        faults.add(fault)
    assert (faults.delay_s, faults.pause_s, faults.loses_interrupts, faults.other_preset) == (
        0.011,
        0.007,
        True,
        "tiny",
    )
    faults.clear()
    assert (faults.delay_s, faults.loses_interrupts) == (0, False)

# SPDX-License-Identifier: Apache-2.0
"""The state of a hung machine, described from its counts."""

import pytest

from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Gemm, Load, Store, Sync, Unit, instruction_columns
from vdla.simulator.stats import MachineState

TINY = Config.preset("tiny")
STREAM = [
    Load(Buffer.INP, push_next=1),
    Gemm(pop_prev=1, push_prev=1, push_next=1),
    Store(pop_prev=1),
    Sync(Unit.COMPUTE, pop_next=1),
]


def described(dispatched, started, ended, tokens, executed=None, stream=STREAM):
    state = MachineState(dispatched, started, ended, tokens, executed)
    return state.describe(TINY, instruction_columns(TINY, stream)).splitlines()


def test_the_state_names_each_units_instruction_and_its_wait():
    assert described(4, (1, 1, 0), (1, 1, 0), (0, 1, 0, 0)) == [
        "  fetch: 4 of 4 instructions dispatched",
        "  load: all 1 instructions ended",
        "  compute: instruction 3 (SYNC) waits for a token of store_to_compute",
        "  store: instruction 2 (STORE) waits for a token of compute_to_store",
        "  queues: load_to_compute 0/8, compute_to_load 1/8, compute_to_store 0/8, store_to_compute 0/8",
    ]


@pytest.mark.parametrize(
    ("started", "executed", "tokens", "expected"),
    [
        (0, None, (1, 0, 0, 0), "is about to start"),
        (1, None, (0, 0, 0, 0), "runs"),
        (1, None, (0, 8, 8, 0), "runs or waits for room in compute_to_load and in compute_to_store"),
        (1, (1, 1, 0), (0, 0, 8, 0), "waits for room in compute_to_store"),
        (1, (1, 0, 0), (0, 0, 8, 0), "waits for memory"),
    ],
)
def test_the_state_of_an_instruction_follows_from_the_counts(started, executed, tokens, expected):
    lines = described(2, (1, started, 0), (1, 0, 0), tokens, executed)
    assert lines[2] == f"  compute: instruction 1 (GEMM) {expected}"
    assert lines[3] == "  store: instruction 2 (STORE) is not dispatched"


def test_a_full_command_queue_blocks_fetch():
    stream = [Sync(Unit.LOAD, pop_next=1)] * 30
    lines = described(TINY.command_depth, (0, 0, 0), (0, 0, 0), (0, 0, 0, 0), stream=stream)
    depth = TINY.command_depth
    assert lines[0] == (
        f"  fetch: {depth} of 30 instructions dispatched, "
        f"the command queue of load is full at instruction {depth} (SYNC)"
    )

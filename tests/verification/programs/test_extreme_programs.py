# SPDX-License-Identifier: Apache-2.0
"""Programs of the greatest extents: sound on every machine, and as extreme as they say."""

from __future__ import annotations

import pytest

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Opcode, columns, instruction_bytes
from vdla.hardware.program import place
from vdla.hardware.timing import fetch_buffer_beats
from vdla.simulator.timing import time_program
from vdla.simulator.verify import verify
from vdla.verification.programs.extreme_programs import extreme_programs
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.rtl_mutants.machines import mutated_machines

ALL = (*MACHINES, *mutated_machines()[1:])
TINY = Config.preset("tiny")


@pytest.mark.sampled
@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_extreme_programs_verify_on_every_machine(machine: Config) -> None:
    programs = list(extreme_programs(machine, 0))
    assert len({program.name for program in programs}) == len(programs)
    for program in programs:
        verdict = verify(program)
        assert verdict.ok, f"{program.name}: {verdict}"


def test_each_buffer_is_filled_along_every_axis() -> None:
    tables = [columns(TINY, program.link(place(program)[0])) for program in extreme_programs(TINY, 0)]
    for buffer in (Buffer.INP, Buffer.WGT, Buffer.SCL, Buffer.ACC):
        depth = TINY.depths[buffer]
        loads = [
            table[(table[:, COL["opcode"]] == Opcode.LOAD) & (table[:, COL["buffer"]] == buffer)] for table in tables
        ]
        for axis in ("z_size", "y_size", "x_size"):
            assert max(load[:, COL[axis]].max() for load in loads if len(load)) == depth, (buffer, axis)
    for field in ("x_before", "x_after", "y_before", "y_after"):
        assert max(table[:, COL[field]].max() for table in tables) >= TINY.depths[Buffer.ACC] - 1, field


@pytest.mark.sampled
@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_the_program_before_the_last_fills_the_buffer_of_fetch(machine: Config) -> None:
    *_, program, _ = extreme_programs(machine, 0)
    held = fetch_buffer_beats(machine) * machine.axi_bytes // instruction_bytes(machine)
    assert len(program.words) > held + machine.command_depth
    assert time_program(program).counters["fetch"]["commands"] > 100


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_the_last_program_fills_the_queue_from_load_to_compute(machine: Config) -> None:
    *_, last = extreme_programs(machine, 0)
    assert time_program(last).counters["load"]["wait_load_to_compute"] > 100

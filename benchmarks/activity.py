# SPDX-License-Identifier: Apache-2.0
"""Events counted from instructions against counters in the RTL, for random programs.

On every machine on which simulator and RTL are compared, and one with extensions: operations,
accesses of every memory by width, beats and bursts. `mismatches` counts events of a program whose
numbers are not equal.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.benchmarks.harness import BenchmarkResult, Row, receipt, total
from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run as run_on
from vdla.simulator.energy import EventCounts, activity_of
from vdla.support.progress import Progress, silent, steps
from vdla.verification.generated_tests.samples import SAMPLES
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.programs.random_programs import random_verified_program

PROGRAMS = 20  # of a machine
_LENGTHS = (60, 90, 25, 1, 40, 2)
_MEMORY_BYTES = 1 << 24


def machines() -> tuple[Config, ...]:
    """Those of the equality benchmark, and one with all forms of extensions."""
    plain = replace(Config.preset("tiny"), name="extended", batch=2, block_in=8, acc_kib=4, inp_kib=4)
    return (*MACHINES, extend(plain, *SAMPLES))


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """All machines, each with its own programs."""
    rows = [_row(config, seed) for config in steps(progress, machines())]
    figures = {name: total(rows, name) for name in ("programs", "instructions", "events", "mismatches")}
    command = f"vdla bench activity --seed {seed} --json -"
    return BenchmarkResult("activity", figures | {"machines": len(rows)}, rows, receipt(MACHINES[0], [], seed, command))


def _row(config: Config, seed: int) -> Row:
    row: Row = {"machine": config.name, "programs": 0, "instructions": 0, "events": 0, "mismatches": 0}
    with RtlDevice(config, _MEMORY_BYTES, activity=True) as device:
        for number in range(PROGRAMS):
            of_program = seed * PROGRAMS + number
            program = random_verified_program(config, of_program, _LENGTHS[number % len(_LENGTHS)])
            run_on(program, random_arrays(program, of_program), device)
            expected = activity_of(program).total
            row["programs"] += 1
            row["instructions"] += len(program)
            row["events"] += sum(expected.values())
            row["mismatches"] += len(differing(device.activity_counts(), expected))
    return row


def differing(one: EventCounts, other: EventCounts) -> list[str]:
    """The events with different counts."""
    events = one.keys() | other.keys()
    return sorted(str(event) for event in events if one.get(event, 0) != other.get(event, 0))

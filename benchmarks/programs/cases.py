"""The random programs on which devices are compared; seed and length replay a case.

Different benchmark seeds give disjoint sets of programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vdla.benchmarks.programs.random_machines import DRAMS, MACHINES
from vdla.benchmarks.programs.random_programs import random_verified_program
from vdla.hardware.config import Config
from vdla.hardware.program import Program

COUNTS = (60, 90, 25, 90, 1, 60, 40, 90, 2, 90, 0, 60)
"""Lengths, in instructions, of the random programs of a batch, cyclically."""
EACH = len(COUNTS)
EACH_LONG = 24 * EACH
BATCH = 2 * EACH


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """A program on a machine with its memory; None: the random one of `seed` and `count`."""

    config: Config
    seed: int
    count: int = 0
    program: Program | None = None

    def made(self) -> Program:
        """The program."""
        return self.program or random_verified_program(self.config, self.seed, self.count)

    def __str__(self) -> str:
        name = self.program.name if self.program else f"{self.count} random instructions"
        return f"{name}, seed {self.seed}, on {self.config.name} with {self.config.dram}"


def all_random(seed: int, each: int = EACH) -> list[list[ProgramCase]]:
    """Batches of `each` random programs on every machine with every memory."""
    found = []
    machines = [replace(machine, dram=dram) for dram in DRAMS for machine in MACHINES]
    for number, machine in enumerate(machines):
        found += random_batches(machine, (seed * len(machines) + number) * EACH_LONG, each)
    return found


def random_batches(machine: Config, first_seed: int, programs: int) -> list[list[ProgramCase]]:
    """Batches of random programs on one machine with its memory."""
    cases = [ProgramCase(machine, first_seed + at, COUNTS[at % len(COUNTS)]) for at in range(programs)]
    return [cases[at : at + BATCH] for at in range(0, programs, BATCH)]

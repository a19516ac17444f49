# SPDX-License-Identifier: Apache-2.0
"""The random programs on which devices are compared; seed and length replay a case.

Different benchmark seeds give disjoint sets of programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.verification.programs.device_pair import Conditions
from vdla.verification.programs.random_data import random_places
from vdla.verification.programs.random_machines import DRAMS, MACHINES
from vdla.verification.programs.random_programs import random_verified_program

COUNTS = (60, 90, 25, 90, 1, 60, 40, 90, 2, 90, 0, 60)
"""Lengths, in instructions, of the random programs of a batch, cyclically."""
EACH = len(COUNTS)
EACH_LONG = 24 * EACH
SLOW_SHARE = 3
"""On a memory whose reads take hundreds of cycles, a program takes five times as long: one of
three.
"""
_SLOW_LATENCY = 100
BATCH = 2 * EACH
MOST_STARTS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """A program on a machine with its memory; None: the random one of `seed` and `count`.

    The seed also decides the addresses, unless `places` has them; if `random_start`, the registers
    at power-up too.
    """

    config: Config
    seed: int
    count: int = 0
    program: Program | None = None
    random_start: bool = False
    places: Mapping[str, int] | None = None

    def made(self) -> Program:
        """The program."""
        return self.program or random_verified_program(self.config, self.seed, self.count)

    def conditions(self, program: Program) -> Conditions:
        """The conditions under which the program that `made` returned runs."""
        start = 1 + self.seed % MOST_STARTS if self.random_start else None
        return Conditions(random_places(program, self.seed) if self.places is None else self.places, start)

    def __str__(self) -> str:
        name = self.program.name if self.program else f"{self.count} random instructions"
        start = ", registers at random" if self.random_start else ""
        return f"{name}, seed {self.seed}, on {self.config.name} with {self.config.dram}{start}"


def all_random(seed: int, count: int = EACH) -> list[list[ProgramCase]]:
    """Batches of `count` random programs on every machine with every memory, fewer on slow ones."""
    result = []
    machines = [replace(machine, dram=dram) for dram in DRAMS for machine in MACHINES]
    for number, machine in enumerate(machines):
        first = (seed * len(machines) + number) * EACH_LONG
        programs = count // SLOW_SHARE if machine.dram.read_latency > _SLOW_LATENCY else count
        result += random_batches(machine, first, programs, random_start=number % 2 > 0)
    return result


def random_batches(
    machine: Config, first_seed: int, programs: int, random_start: bool = False
) -> list[list[ProgramCase]]:
    """Batches of random programs on one machine with its memory.

    Batches alternate between machines that keep their state and those that start at random; the
    first is of the given kind.
    """
    result = []
    for number, first in enumerate(range(0, programs, BATCH)):
        start = random_start ^ bool(number % 2)
        part = range(first, min(first + BATCH, programs))
        result.append(
            [ProgramCase(machine, first_seed + at, COUNTS[at % len(COUNTS)], random_start=start) for at in part]
        )
    return result

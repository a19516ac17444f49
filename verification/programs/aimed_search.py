# SPDX-License-Identifier: Apache-2.0
"""A search with aimed programs for a difference of two devices, shrunk to a small program.

The devices stay open from program to program, as a host would leave them; after a difference, and
while it is shrunk, they are opened anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices import MemoryDevice
from vdla.runtime.diagnosis.comparison import Comparison, compare, memory_bytes
from vdla.simulator.timing import time_program
from vdla.support.progress import Progress, silent
from vdla.verification.programs.aimed_programs import AimError, FieldAim, aimed_program
from vdla.verification.programs.device_pair import PATIENCE, SLACK_CYCLES
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.shrink import shrink

OpenPair = Callable[[int], AbstractContextManager[tuple[MemoryDevice, MemoryDevice]]]
"""Opens both devices with so many bytes of memory."""


@dataclass(frozen=True, slots=True)
class AimedDifference:
    """A program on which two devices differ, by its seed; the smallest one, and how they differ."""

    seed: int
    program: Program
    smallest: Program
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class AimedSearch:
    """What a search ran: programs, instructions of the form, values of its field in order."""

    aim: FieldAim
    programs: int
    instructions: int
    values: tuple[int, ...]
    difference: AimedDifference | None = None

    def __str__(self) -> str:
        """A line that says how much was compared."""
        values = f"{len(self.values)} values from {self.values[0]} to {self.values[-1]}"
        programs = f"{self.programs} program{'' if self.programs == 1 else 's'}"
        return f"{self.aim}: {programs}, {self.instructions} instructions, {values}"


def aimed_search(
    config: Config,
    aim: FieldAim,
    open_pair: OpenPair,
    seed: int = 0,
    programs: int = 100,
    progress: Progress = silent,
) -> AimedSearch:
    """Compare devices on aimed programs until they differ, or all of `programs` are equal.

    The seed is that of the first program; the next ones follow. AimError where the field has one
    value only in every program that is valid.
    """
    values, instructions = set[int](), 0
    with _Pair(open_pair) as pair:
        for number in range(programs):
            progress(f"seed {seed + number}", number, programs)
            program = aimed_program(config, aim, seed + number)
            instructions += len(aim.values(program))
            values |= set(aim.values(program))
            _require_choice(aim, values, number + 1)
            if pair.differ(program):
                difference = _shrunk(program, seed + number, pair)
                return AimedSearch(aim, number + 1, instructions, tuple(sorted(values)), difference)
    return AimedSearch(aim, programs, instructions, tuple(sorted(values)))


_ENOUGH = 8  # programs after which a field with one value has no other


def _require_choice(aim: FieldAim, values: set[int], programs: int) -> None:
    if programs == _ENOUGH and len(values) < 2:
        value = ", ".join(map(str, values)) or "nothing"
        raise AimError(f"compare: {aim} must have more than one valid value to be driven, got {value} alone")


def _shrunk(program: Program, seed: int, pair: _Pair) -> AimedDifference:
    smallest = shrink(program, pair.differ)
    return AimedDifference(seed, program, smallest, pair.compare(smallest))


class _Pair:
    """Both devices, open with the memory of the largest program so far."""

    def __init__(self, open_pair: OpenPair) -> None:
        self._open_pair = open_pair
        self._size = 0
        self._devices: tuple[MemoryDevice, MemoryDevice] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def differ(self, program: Program) -> bool:
        """Whether the devices differ on a program."""
        return not self.compare(program).equal

    def compare(self, program: Program) -> Comparison:
        """The comparison on a program with random data."""
        devices = self._open(memory_bytes(program))
        expected = time_program(program, devices[0].config).total_cycles
        for device in devices:
            device.timeout_cycles = PATIENCE * expected + SLACK_CYCLES
        result = compare(program, random_arrays(program, 0), devices)
        if not result.equal:
            self._close()
        return result

    def _open(self, nbytes: int) -> tuple[MemoryDevice, MemoryDevice]:
        if nbytes > self._size:
            self._close()
        if self._devices is None:
            self._size = max(self._size, nbytes)
            self._devices = self._stack.enter_context(self._open_pair(self._size))
        return self._devices

    def _close(self) -> None:
        self._stack.close()
        self._devices = None

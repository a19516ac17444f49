"""The instruction of a program from which on two devices differ, found by bisection.

Beginnings of the program run on both devices; what they leave in memory and on chip is compared.
A device that hides its buffers stores them, so the search works on a board, too. A fault that does
not repeat is not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from vdla.hardware.program import Program
from vdla.runtime.compare.comparison import BufferDifference, Comparison, MemoryDifference, compare
from vdla.runtime.compare.prefix import DUMPS, Prefixes
from vdla.runtime.devices import Device, MemoryDevice

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first instruction after which the devices differ, and what it left different.

    `failure` is the error that one device ends in from this instruction on.
    """

    instruction: int
    devices: tuple[str, str]
    memory: MemoryDifference | None
    buffer: BufferDifference | None
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return self.failure
        if self.buffer is not None:
            found = self.buffer
            place = f"element {found.element} of {found.buffer.name.lower()} entry {found.entry}"
            return f"{place}: {self._said(found.values)} ({found.count} elements differ)"
        assert self.memory is not None
        return f"{_place(self.memory)}: {self._said(self.memory.values)} ({self.memory.count} bytes differ)"

    def _said(self, values: tuple[int, int]) -> str:
        return ", ".join(f"{name} {value}" for name, value in zip(self.devices, values, strict=True))


def _place(found: MemoryDifference) -> str:
    buffer = next((buffer for buffer, name in DUMPS.items() if name == found.tensor), None)
    return f"byte {found.offset} of {found.tensor if buffer is None else f'the {buffer.name.lower()} buffer'}"


def find_culprit(program: Program, inputs: Mapping[str, Array], devices: tuple[Device, Device]) -> Culprit | None:
    """The instruction, or None where both devices do the same with the whole program."""
    prefixes, dump = Prefixes(program), not all(isinstance(device, MemoryDevice) for device in devices)

    def at(count: int) -> Comparison:
        return compare(prefixes.at(count, dump), inputs, devices, tensors_only=True)

    low, high, last = 0, len(program), at(len(program))
    if not _differs(last):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = at(middle)
        if _differs(found):
            high, last = middle, found
        else:
            low = middle
    failure = next((run.failure for run in last.runs if run.failure), "")
    names = (last.runs[0].device, last.runs[1].device)
    number = int(prefixes.order[high - 1]) if high else 0
    return Culprit(number, names, last.memory_difference, last.buffer_difference, failure)


def _differs(found: Comparison) -> bool:
    """Whether results differ; cycles may, as two memories are not alike."""
    failed = [bool(run.failure) for run in found.runs]
    return any(failed) or found.memory_difference is not None or found.buffer_difference is not None

"""The instruction of a program from which on two devices differ, found by bisection.

Beginnings of the program run on both devices; what they leave in memory and on chip is compared.
A device that hides its buffers stores them, so the search works on a board, too. A fault that does
not repeat is not found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from vdla.hardware.isa import Buffer
from vdla.hardware.program import Program
from vdla.runtime.compare.comparison import Comparison, begin_alike, compare, tensor_differences
from vdla.runtime.compare.prefix import DUMPS, Prefixes
from vdla.runtime.devices import Device

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class WrongEntry:
    """An entry that differs: its place in words, its value on each device, how many differ."""

    place: str
    values: tuple[int, int]
    count: int


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first instruction after which the devices differ, and the first entry that does.

    `store` is the first STORE after which memory differs, with the entry there; None where none
    does. `shown_by_stores`: the buffers were seen through stores, so these may be at fault instead.
    `failure` is the error that one device ends in from this instruction on.
    """

    instruction: int
    entry: WrongEntry | None
    store: tuple[int, WrongEntry] | None
    shown_by_stores: bool
    failure: str = ""


def find_culprit(program: Program, inputs: Mapping[str, Array], devices: tuple[Device, Device]) -> Culprit | None:
    """The instruction, or None where both devices do the same with the whole program."""
    prefixes, hidden = Prefixes(program), not begin_alike(devices)

    def run(count: int, dump: bool) -> Comparison:
        return compare(prefixes.at(count, dump), inputs, devices, tensors_only=True)

    whole = run(len(program), False)
    if not _differs(whole):
        return None
    count, found = _first(len(program), lambda count: run(count, hidden), _differs, whole)
    store = None
    if whole.memory_difference is not None:
        number, at = _first(len(program), lambda count: run(count, False), _in_memory, whole)
        store = int(prefixes.order[number - 1]), _stored(at)
    failure = next((each.failure for each in found.runs if each.failure), "")
    return Culprit(int(prefixes.order[count - 1]), None if failure else _entry(found), store, hidden, failure)


def _first(
    count: int, run: Callable[[int], Comparison], differs: Callable[[Comparison], bool], whole: Comparison
) -> tuple[int, Comparison]:
    """The smallest number of instructions after which the devices differ, by bisection."""
    low, high, last = 0, count, whole
    while high - low > 1:
        middle = (low + high) // 2
        found = run(middle)
        low, high = (low, middle) if differs(found) else (middle, high)
        last = found if high == middle else last
    return high, last


def _differs(found: Comparison) -> bool:
    """Whether results differ; cycles may, as two memories are not alike."""
    return any(run.failure for run in found.runs) or _in_memory(found) or found.buffer_difference is not None


def _in_memory(found: Comparison) -> bool:
    return found.memory_difference is not None


# --- the entry ------------------------------------------------------------------------------------


def _entry(found: Comparison) -> WrongEntry:
    """The entry of a buffer where one differs, else of a tensor."""
    buffer = found.buffer_difference
    if buffer is not None:
        return WrongEntry(_on_chip(buffer.buffer, buffer.entry, buffer.element), buffer.values, buffer.count)
    return _stored(found)


def _on_chip(buffer: Buffer, entry: int, element: int) -> str:
    return f"element {element} of {buffer.name.lower()} entry {entry}"


def _stored(found: Comparison) -> WrongEntry:
    """The first entry of the first tensor that differs."""
    ours, theirs = (run.memory for run in found.runs)
    first = next(tensor_differences(found.program, ours, theirs, ("output", "scratch")))
    return WrongEntry(_place(found.program, first.tensor, first.index), first.values, first.count)


def _place(program: Program, tensor: str, index: tuple[int, ...]) -> str:
    config = program.config
    buffer = next((buffer for buffer, name in DUMPS.items() if name == tensor), None)
    if buffer is None:
        return f"{tensor}[{', '.join(map(str, index))}]"
    elements = config.out_entry_bytes if buffer == Buffer.OUT else config.batch * config.block_out
    entry, element = divmod(index[0], elements)
    return _on_chip(buffer, entry, element) if buffer != Buffer.INP else f"element {element} of inp vector {entry}"

# SPDX-License-Identifier: Apache-2.0
"""The first instruction of a program at which two devices differ, found by bisection.

Prefixes of a program run as separate programs, whose result is the contents of the buffers.
Instructions are in an order in which every token is pushed before it is popped, so every prefix
ends; its instructions compute the same as in the whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.isa import (
    COL,
    QUEUES,
    Buffer,
    Emit,
    Instruction,
    Load,
    MicroOp,
    Operand,
    Source,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    encode,
    encode_uops,
)
from vdla.hardware.program import Program, ProgramTensor
from vdla.runtime.devices import Device
from vdla.runtime.diagnosis.comparison import Comparison, begin_alike, compare, tensor_differences
from vdla.simulator.function import token_order
from vdla.simulator.verify.accesses import program_accesses

Ints = NDArray[np.int64]
DUMPS = {Buffer.OUT: "dump:out", Buffer.ACC: "dump:acc", Buffer.INP: "dump:inp"}
"""The tensors that hold what a beginning left on chip."""
_UOP = "dump:uops"


class Prefixes:
    """The beginnings of a program; `order[k - 1]` is the last instruction of the k-th."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def order(self) -> Ints:
        """The instructions in the order in which beginnings take them."""
        return np.asarray(token_order(self.program.columns), np.int64)

    def at(self, count: int, dump: bool = False) -> Program:
        """The program of the first `count` instructions, followed by stores of its buffers."""
        prefix, program = self.order[:count], self.program
        begun = replace(
            program,
            words=program.words[prefix],
            tensor_of=program.tensor_of[prefix],
            source_of=program.source_of[prefix],
        )
        steps = list(_drain(begun))
        tensors: list[ProgramTensor] = []
        if dump:
            dumping = _Dump(program.config, _written(begun))
            steps += dumping.steps()
            tensors = dumping.tensors()
        return _extended(begun, steps, tensors)


_Step = tuple[Instruction, str | None]


def _drain(program: Program) -> Iterator[_Step]:
    """Take the tokens that the rest of the program would have taken."""
    columns = program.columns
    for queue in QUEUES:
        pushed = ((columns[:, COL["unit"]] == queue.producer) & (columns[:, COL[queue.push]] > 0)).sum()
        popped = ((columns[:, COL["unit"]] == queue.consumer) & (columns[:, COL[queue.pop]] > 0)).sum()
        for _ in range(int(pushed - popped)):
            yield Sync(queue.consumer, **{queue.pop: 1}), None


def _extended(program: Program, steps: Sequence[_Step], tensors: Sequence[ProgramTensor]) -> Program:
    """The program with instructions, which name their tensors, and tensors behind it."""
    if not steps:
        return program
    everything = (*program.tensors, *tensors)
    number = {tensor.name: k for k, tensor in enumerate(everything)}
    of = [-1 if name is None else number[name] for _, name in steps]
    return replace(
        program,
        tensors=everything,
        words=np.concatenate([program.words, encode(program.config, [step for step, _ in steps])]),
        tensor_of=np.concatenate([program.tensor_of, np.array(of, np.int32)]),
        source_of=np.concatenate([program.source_of, np.full(len(steps), -1, np.int32)]),
    )


# --- what is on chip ------------------------------------------------------------------------------


def _written(program: Program) -> dict[Buffer, list[tuple[int, int]]]:
    """The entries that a program writes of each buffer, as runs from begin to end."""
    masks = {buffer: np.zeros(program.config.depths[buffer], np.bool_) for buffer in DUMPS}
    for accesses in program_accesses(program).accesses:
        for _, access in accesses:
            if access.writes and access.buffer in masks:
                masks[access.buffer][access.where] = True
    return {buffer: _runs(mask) for buffer, mask in masks.items()}


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]


@dataclass(frozen=True, slots=True)
class _Dump:
    """Stores of the entries that were written: results first, then sums and activations as raw
    results. Weights and scales cannot be stored; they show in what is computed with them.
    """

    config: Config
    written: dict[Buffer, list[tuple[int, int]]]

    def tensors(self) -> list[ProgramTensor]:
        """The tensors that the stores fill, and the micro-op of the copies."""
        table = encode_uops(self.config, [MicroOp(first=1, last=1)])
        micro_op = ProgramTensor(
            name=_UOP, role="constant", shape=table.shape, dtype="uint8", layout="uops", nbytes=table.nbytes,
            data=table.tobytes(),
        )  # fmt: skip
        raw = self.config.acc_bits // self.config.out_bits * self.config.out_entry_bytes
        sizes = {
            Buffer.OUT: self.config.out_depth * self.config.out_entry_bytes,
            Buffer.ACC: self.config.acc_depth * raw,
            Buffer.INP: self.config.inp_vectors * raw,
        }
        dtypes = {Buffer.OUT: ("int8", 1), Buffer.ACC: ("int32", 4), Buffer.INP: ("int32", 4)}
        return [micro_op] + [
            ProgramTensor(
                name=name, role="output", shape=(sizes[buffer] // dtypes[buffer][1],), dtype=dtypes[buffer][0],
                layout="", nbytes=sizes[buffer], data=None,
            )
            for buffer, name in DUMPS.items()
        ]  # fmt: skip

    def steps(self) -> Iterator[_Step]:
        """The instructions; units are idle except for loads in flight, for which compute waits."""
        yield Sync(Unit.LOAD, push_next=1), None
        yield Sync(Unit.COMPUTE, pop_prev=1, push_next=1), None
        yield Sync(Unit.STORE, pop_prev=1), None
        beats = self.config.out_entry_bytes // self.config.axi_bytes
        for begin, end in self.written[Buffer.OUT]:
            yield Store(sram=begin, dram=begin * beats, x_size=end - begin), DUMPS[Buffer.OUT]
        yield Sync(Unit.STORE, push_prev=1), None
        yield Load(Buffer.UOP, pop_next=1), _UOP
        for buffer, source in ((Buffer.ACC, Source.ACC), (Buffer.INP, Source.INP)):
            for begin, end in self._vectors(buffer):
                yield from self._copied(DUMPS[buffer], source, begin, end)

    def _vectors(self, buffer: Buffer) -> Iterator[tuple[int, int]]:
        """The runs of sums, or of whole vectors of activations, in pieces that the results hold."""
        most = min(self.config.out_slots, self.config.acc_depth)
        for begin, end in self.written[buffer]:
            if buffer == Buffer.INP:
                entry, vector = self.config.inp_entry_bytes, self.config.out_entry_bytes
                begin, end = -(-begin * entry // vector), end * entry // vector
            for first in range(begin, end, most):
                yield first, min(end, first + most)

    def _copied(self, tensor: str, source: Source, begin: int, end: int) -> Iterator[_Step]:
        """A run of vectors as raw results, stored; sums stay what they are."""
        slot = self.config.acc_bits // self.config.out_bits
        beats = slot * self.config.out_entry_bytes // self.config.axi_bytes
        acc = begin if source == Source.ACC else 0
        yield Vector(op=VectorOp.MOV, operand=Operand.SRC, source=source, loop1=end - begin, acc=acc, acc1=1,
                     src=begin, src1=1, emit=Emit.RAW, push_next=1), None  # fmt: skip
        yield Store(dram=begin * beats, x_size=(end - begin) * slot, pop_prev=1, push_prev=1), tensor
        yield Sync(Unit.COMPUTE, pop_next=1), None


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

    `store` is the first STORE after which memory differs, with the entry that differs, or None.
    `shown_by_stores`: the buffers were seen through stores, so these may be at fault instead.
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
    count, outcome = _first(len(program), lambda count: run(count, hidden), _differs, whole)
    store = None
    if whole.memory_difference is not None:
        number, at = _first(len(program), lambda count: run(count, False), _in_memory, whole)
        store = int(prefixes.order[number - 1]), _stored(at)
    failure = next((item.failure for item in outcome.runs if item.failure), "")
    return Culprit(int(prefixes.order[count - 1]), None if failure else _entry(outcome), store, hidden, failure)


def _first(
    count: int, run: Callable[[int], Comparison], differs: Callable[[Comparison], bool], whole: Comparison
) -> tuple[int, Comparison]:
    """The smallest number of instructions after which the devices differ, by bisection."""
    low, high, last = 0, count, whole
    while high - low > 1:
        middle = (low + high) // 2
        outcome = run(middle)
        low, high = (low, middle) if differs(outcome) else (middle, high)
        last = outcome if high == middle else last
    return high, last


def _differs(comparison: Comparison) -> bool:
    """Whether results differ; cycles may, as two memories are not alike."""
    return (
        any(run.failure for run in comparison.runs)
        or _in_memory(comparison)
        or comparison.buffer_difference is not None
    )


def _in_memory(comparison: Comparison) -> bool:
    return comparison.memory_difference is not None


# --- the entry ------------------------------------------------------------------------------------


def _entry(comparison: Comparison) -> WrongEntry:
    """The entry of a buffer where one differs, else of a tensor."""
    buffer = comparison.buffer_difference
    if buffer is not None:
        return WrongEntry(_on_chip(buffer.buffer, buffer.entry, buffer.element), buffer.values, buffer.count)
    return _stored(comparison)


def _on_chip(buffer: Buffer, entry: int, element: int) -> str:
    return f"element {element} of {buffer.name.lower()} entry {entry}"


def _stored(comparison: Comparison) -> WrongEntry:
    """The first entry of the first tensor that differs."""
    ours, theirs = (run.memory for run in comparison.runs)
    first = next(tensor_differences(comparison.program, ours, theirs, ("output", "scratch")))
    return WrongEntry(_place(comparison.program, first.tensor, first.index), first.values, first.count)


def _place(program: Program, tensor: str, index: tuple[int, ...]) -> str:
    config = program.config
    buffer = next((buffer for buffer, name in DUMPS.items() if name == tensor), None)
    if buffer is None:
        return f"{tensor}[{', '.join(map(str, index))}]"
    elements = config.out_entry_bytes if buffer == Buffer.OUT else config.batch * config.block_out
    entry, element = divmod(index[0], elements)
    return _on_chip(buffer, entry, element) if buffer != Buffer.INP else f"element {element} of inp vector {entry}"

# SPDX-License-Identifier: Apache-2.0
"""Programs whose cycles depend on the memory: one for each figure of the DRAM model, and a few that
mix them.

They compute nothing useful; their rows have gaps, so that every row is a separate burst.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Instruction,
    Load,
    MicroOp,
    Operand,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    encode,
    encode_uops,
    instruction_bytes,
)
from vdla.hardware.program import UOPS, Program, ProgramTensor
from vdla.hardware.timing import fetch_buffer_beats, page_beats

ONE = (MicroOp(first=1, last=1),)
"""The kernel of a single micro-op, which starts and finishes a sum."""
BITS = {"int8": 8, "int32": 32, "int64": 64}


class StreamBuilder:
    """A program in the making; `uops` is its table of micro-ops."""

    def __init__(self, config: Config, name: str, uops: Sequence[MicroOp] = ONE) -> None:
        self.config, self.name = config, name
        table = encode_uops(config, list(uops))
        self._tensors = [
            ProgramTensor(
                name=UOPS,
                role="constant",
                shape=table.shape,
                dtype="uint8",
                layout="uops",
                nbytes=table.nbytes,
                data=table.tobytes(),
            )
        ]
        self._instructions: list[Instruction] = []
        self._tensor_of: list[int] = []

    def tensor(self, name: str, role: str, beats: int, dtype: str = "int8") -> str:
        """Declare a tensor of that many beats; returns its name."""
        nbytes = beats * self.config.axi_bytes
        shape = (nbytes * 8 // BITS[dtype],)
        self._tensors.append(
            ProgramTensor(name=name, role=role, shape=shape, dtype=dtype, layout="", nbytes=nbytes, data=None)
        )
        return name

    def add(self, instruction: Instruction, tensor: str | None = None) -> StreamBuilder:
        """Append an instruction; a LOAD or STORE of data names its tensor."""
        assert tensor is None or isinstance(instruction, Load | Store)
        names = [item.name for item in self._tensors]
        self._instructions.append(instruction)
        self._tensor_of.append(-1 if tensor is None else names.index(tensor))
        return self

    def program(self) -> Program:
        """The program so far."""
        count = len(self._instructions)
        return Program(
            config=self.config,
            name=self.name,
            words=encode(self.config, self._instructions),
            tensors=tuple(self._tensors),
            tensor_of=np.array(self._tensor_of, np.int32),
            source_lines=(f"self-test: {self.name}",),
            source_of=np.zeros(count, np.int32),
        )


_MOST_ROWS = 600
"""More than the bursts that any memory has outstanding, where the buffer is as large."""
_CHAIN = 8
_FETCHED_BURSTS = 8
"""Bursts of instructions to fetch beside loads, beyond those that the fetch buffer holds."""
_LONG_CYCLES = 1 << 17
"""What the instructions fetched last take: more than the loads beside them, whatever the memory."""
_MOST_PASSES = 255
"""Passes over the accumulator that the loop field of every machine holds."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A program to measure; `nbytes` is what it moves, where it shows the bandwidth."""

    name: str
    program: Program
    nbytes: int = 0


def probes(config: Config) -> dict[str, Probe]:
    """All probes of a machine, by name."""
    return {probe.name: probe for probe in (*_reads(config), *_mixed(config), *_writes(config))}


# --- reads ----------------------------------------------------------------------------------------


def _reads(config: Config) -> Iterator[Probe]:
    beats = config.inp_entry_bytes // config.axi_bytes
    burst, rows = max(1, config.burst_beats // beats), min(config.inp_depth, _MOST_ROWS)
    yield Probe("fetch one", StreamBuilder(config, "fetch_one").add(Sync(Unit.LOAD)).program())
    yield _loads(config, "read entry", Load(Buffer.INP))
    yield _loads(config, "read burst", Load(Buffer.INP, x_size=burst))
    yield _loads(config, "read few rows", _apart(config, 1 + config.axi_ports))  # so that a port has two
    yield _loads(config, "read rows", _apart(config, rows))
    for name, size in (("read half", config.inp_depth // 2), ("read all", config.inp_depth)):
        yield replace(_loads(config, name, Load(Buffer.INP, x_size=size)), nbytes=size * config.inp_entry_bytes)


def _apart(config: Config, rows: int) -> Load:
    """A LOAD of one entry a row, none directly behind the other."""
    return Load(Buffer.INP, y_size=rows, y_stride=_stride(config, config.inp_entry_bytes))


def _stride(config: Config, entry_bytes: int) -> int:
    """The beats from row to row: a power of two, so that no row crosses a page."""
    return min(page_beats(config), max(2 * (entry_bytes // config.axi_bytes), config.burst_beats))


def _loads(config: Config, name: str, *loads: Load) -> Probe:
    return Probe(name, _reading(config, name, *loads).program())


def _reading(config: Config, name: str, *loads: Load) -> StreamBuilder:
    builder = StreamBuilder(config, name.replace(" ", "_"))
    beats = config.inp_entry_bytes // config.axi_bytes
    ends = [(load.y_size - 1) * load.y_stride + load.x_size * beats for load in loads]
    source = builder.tensor("source", "input", max(ends))
    for load in loads:
        builder.add(load, source)
    return builder


# --- reads beside fetch, dependent reads ----------------------------------------------------------


def _mixed(config: Config) -> Iterator[Probe]:
    rows = min(config.inp_depth, _MOST_ROWS)
    builder = StreamBuilder(config, "reads_beside_fetch").add(Load(Buffer.UOP), UOPS)
    load = _apart(config, rows)
    builder.add(load, builder.tensor("source", "input", rows * load.y_stride))
    for _ in range(_syncs(config)):
        builder.add(Sync(Unit.COMPUTE))
    passes = min(_MOST_PASSES, _LONG_CYCLES // config.acc_depth)
    for _ in range(-(-_LONG_CYCLES // (passes * config.acc_depth))):
        builder.add(Vector(op=VectorOp.MOV, operand=Operand.IMM, loop0=passes, loop1=config.acc_depth, acc1=1))
    yield Probe("reads beside fetch", builder.program())
    builder = StreamBuilder(config, "dependent_reads")
    source = builder.tensor("source", "input", _CHAIN * _stride(config, config.inp_entry_bytes))
    for k in range(_CHAIN):
        place = k * _stride(config, config.inp_entry_bytes)
        builder.add(Load(Buffer.INP, dram=place, pop_next=int(k > 0), push_next=1), source)
        builder.add(Sync(Unit.COMPUTE, pop_prev=1, push_prev=int(k < _CHAIN - 1)))
    yield Probe("dependent reads", builder.program())


def _syncs(config: Config) -> int:
    beats = fetch_buffer_beats(config) + _FETCHED_BURSTS * config.burst_beats
    return beats * config.axi_bytes // instruction_bytes(config)


# --- writes ---------------------------------------------------------------------------------------


def _writes(config: Config) -> Iterator[Probe]:
    beats = config.out_entry_bytes // config.axi_bytes
    slots = min(config.acc_depth, config.out_slots)
    entries = slots * config.acc_bits // config.out_bits
    burst, rows = max(1, config.burst_beats // beats), min(entries, _MOST_ROWS)
    stride = _stride(config, config.out_entry_bytes)
    yield _store(config, "write entry", Store())
    yield _store(config, "write burst", Store(x_size=burst))
    yield _store(config, "write few rows", Store(y_size=2, y_stride=stride))
    yield _store(config, "write rows", Store(y_size=rows, y_stride=stride))
    for name, size in (("write half", entries // 2), ("write all", entries)):
        yield replace(_store(config, name, Store(x_size=size)), nbytes=size * config.out_entry_bytes)


def _store(config: Config, name: str, store: Store) -> Probe:
    """The output buffer filled with ones, then a STORE; all such programs fill it alike."""
    builder = StreamBuilder(config, name.replace(" ", "_"))
    beats = config.out_entry_bytes // config.axi_bytes
    target = builder.tensor("target", "output", (store.y_size - 1) * store.y_stride + store.x_size * beats)
    slots = min(config.acc_depth, config.out_slots)
    fill = Vector(op=VectorOp.MOV, operand=Operand.IMM, imm=1, loop1=slots, acc1=1, emit=Emit.RAW, push_next=1)
    builder.add(Load(Buffer.UOP), UOPS).add(fill).add(replace(store, pop_prev=1), target)
    return Probe(name, builder.program())

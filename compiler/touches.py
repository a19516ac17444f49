"""Which on-chip entries and which DRAM beats an instruction touches, exactly.

An index of GEMM and VECTOR is a base plus two loop terms plus a micro-op's. The sets of their sums are built term by
term without repeats and kept by shape: the operations of a program share few shapes, and differ in their bases.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.dependences import Where
from vdla.compiler.macro import field_unit
from vdla.compiler.uops import Kernel
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Instruction, Load, Operand, Source, Store, Sync, Vector, VectorOp

Indices = NDArray[np.int64]
Looped = Gemm | Vector
Terms = tuple[tuple[int, int], ...]  # (iterations, step) of each loop


class Footprints:
    """The footprints of the instructions of one program."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._sums: dict[tuple[int, str, Terms], Indices] = {}
        self._entries: dict[tuple[int, str, Terms, Fraction, int], Indices] = {}
        self._kernels: dict[int, Kernel] = {}  # keeps what the keys above name alive

    def on_chip(self, instruction: Instruction, kernel: Kernel) -> Iterator[tuple[str, Buffer, Where]]:
        """The base fields that the instruction uses, each with its buffer and the entries touched there."""
        match instruction:
            case Load(buffer=buffer):
                yield "sram", buffer, slice(instruction.sram, instruction.sram + load_entries(instruction))
            case Store():
                yield "sram", Buffer.OUT, slice(instruction.sram, instruction.sram + store_entries(instruction))
            case Gemm() | Vector():
                for name, buffer in _fields(instruction):
                    yield name, buffer, self._looped(instruction, name, kernel)
            case Sync():
                return

    def dram_beats(self, instruction: Load | Store) -> Indices:
        """The beats of the instruction's tensor that it moves."""
        run = instruction.x_size * self.entry_beats(instruction)
        planes = np.arange(instruction.z_size, dtype=np.int64) * instruction.z_stride
        rows = np.arange(instruction.y_size, dtype=np.int64) * instruction.y_stride
        starts = np.add.outer(planes, rows)
        return np.unique(np.add.outer(starts, np.arange(run, dtype=np.int64)) + instruction.dram)

    def dram_range(self, instruction: Load | Store) -> tuple[int, int]:
        """The first beat that the instruction moves and one past the last; equal where it only pads."""
        if not instruction.x_size or not instruction.y_size:
            return instruction.dram, instruction.dram
        last = (instruction.z_size - 1) * instruction.z_stride + (instruction.y_size - 1) * instruction.y_stride
        return instruction.dram, instruction.dram + last + instruction.x_size * self.entry_beats(instruction)

    def entry_beats(self, instruction: Load | Store) -> int:
        """Beats of one entry as the instruction finds it in DRAM."""
        buffer = Buffer.OUT if isinstance(instruction, Store) or instruction.widen else instruction.buffer
        return self.config.entry_bytes[buffer] // self.config.axi_bytes

    def _looped(self, instruction: Looped, name: str, kernel: Kernel) -> Where:
        unit = field_unit(self.config, instruction, name)
        base = getattr(instruction, name)
        column, terms = _shape(instruction, name)
        phase = base % unit.denominator
        key = (id(kernel), column, terms, unit, phase)
        if key not in self._entries:
            self._kernels[id(kernel)] = kernel
            self._entries[key] = _to_entries(self._indices(kernel, column, terms) + phase, unit)
        entries = self._entries[key]
        return _moved(entries, int((base - phase) * unit))

    def _indices(self, kernel: Kernel, column: str, terms: Terms) -> Indices:
        """Every index relative to the base, each once, in order."""
        key = (id(kernel), column, terms)
        if key not in self._sums:
            sums = np.unique(np.array(_offsets(kernel, column), np.int64))
            for count, step in terms:
                sums = np.unique(np.add.outer(np.arange(count if step else 1, dtype=np.int64) * step, sums))
            self._sums[key] = sums
        return self._sums[key]


def load_entries(load: Load) -> int:
    """Entries that a LOAD writes, padding included."""
    rows = load.y_before + load.y_size + load.y_after
    return load.z_size * rows * (load.x_before + load.x_size + load.x_after)


def store_entries(store: Store) -> int:
    """Entries that a STORE reads."""
    return store.z_size * store.y_size * store.x_size


def _fields(instruction: Looped) -> Iterator[tuple[str, Buffer]]:
    """The base fields in use, with the buffers they index."""
    yield "acc", Buffer.ACC
    if isinstance(instruction, Gemm):
        yield "src", Buffer.INP
        yield "wgt", Buffer.WGT
    else:
        if instruction.operand == Operand.SRC or instruction.op == VectorOp.MAC:
            yield "src", Buffer.INP if instruction.source == Source.INP else Buffer.ACC
        if instruction.operand == Operand.WGT:
            yield "wgt", Buffer.WGT
    if instruction.emit != Emit.NONE:
        yield "out", Buffer.OUT
    if instruction.emit == Emit.REQUANT:
        yield "scl", Buffer.SCL


def _shape(instruction: Looped, name: str) -> tuple[str, Terms]:
    """The micro-op column and the loop terms that move a base field; results move with the accumulator index."""
    moves = "acc" if name == "out" else name
    steps = (getattr(instruction, f"{moves}0"), getattr(instruction, f"{moves}1"))
    return name, tuple(zip((instruction.loop0, instruction.loop1), steps, strict=True))


def _offsets(kernel: Kernel, column: str) -> list[int]:
    match column:
        case "out":
            return [uop.acc for uop in kernel if uop.last]
        case "scl":
            return [0 for uop in kernel if uop.last]
        case _:
            return [getattr(uop, column) for uop in kernel]


def _to_entries(indices: Indices, unit: Fraction) -> Indices:
    """The entries that cover these indices, where one step of the index is `unit` entries."""
    if unit.denominator > 1:
        return np.unique(indices // unit.denominator)
    return np.add.outer(indices * unit.numerator, np.arange(unit.numerator)).ravel()


def _moved(entries: Indices, base: int) -> Where:
    """The entries from `base` on; a slice where they lie without gaps."""
    if not len(entries):
        return slice(base, base)
    first, last = int(entries[0]), int(entries[-1])
    if last - first + 1 == len(entries):
        return slice(base + first, base + last + 1)
    return entries + base

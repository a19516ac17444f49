"""Leaves out computation on padding: GEMMs and VECTORs do not read entries that change no result.

A convolution multiplies the zeros around its image like any pixel: a fifth of the work of a 3x3
kernel on 7x7 pixels. Padding is known here, since a LOAD writes it. An operation that reads padding
is cut into rectangles of its two loops in which the same micro-ops read it, and these micro-ops are
left out. Results do not change: sums are of integers, and a maximum is not below its other
elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import Base, BufferTile, MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import MacroOps, form_and_numbers
from vdla.compiler.codegen.vdla.uops import UopKernel
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, Gemm, Load, Source, Vector, VectorOp

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]
_Key = tuple[int, ...]

_DATA = 1 << 40  # what an entry holds that is not padding
_OFFSETS = ("acc", "src", "wgt")  # the indices that micro-ops move


def skip_padding(config: Config, ops: MacroOps) -> MacroOps:
    """The operations in order, without computation on padding that changes no result."""
    if not any(_pads(form.instruction) for form in ops.forms):
        return ops
    return _Columns(config, ops).run()


def _pads(instruction: isa.Instruction) -> bool:
    """Whether a LOAD of inputs writes padding."""
    if not isinstance(instruction, Load) or instruction.buffer != Buffer.INP:
        return False
    sides = instruction.y_before, instruction.y_after, instruction.x_before, instruction.x_after
    return any(sides) or not instruction.y_size or not instruction.x_size


@dataclass(frozen=True, slots=True)
class _Piece:
    """A rectangle of an operation's loops and its micro-ops, whose least offsets are `lows`."""

    rows: range
    cols: range
    uops: UopKernel
    lows: tuple[int, int, int]


class PaddingSkipper:
    """One walk over a list of operations."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.contents: dict[BufferTile, _Ints] = {}
        self._pieces: dict[_Key, list[_Piece]] = {}
        self._numbers: dict[bytes, int] = {}
        self._kernels: list[UopKernel] = []  # kept, as the keys of `_pieces` have their identities

    def run(self, op: MacroOp) -> list[MacroOp]:
        """The operations that replace `op`, itself if it reads no padding."""
        instruction = op.instruction
        if isinstance(instruction, Load) and instruction.buffer == Buffer.INP:
            self._record(op)
        if not isinstance(instruction, Gemm | Vector):
            return [op]
        neutral = _neutral(self.config, instruction)
        known = None if neutral is None else self.contents.get(op.bases["src"][0])
        padding = None if known is None else known == neutral
        return [op] if padding is None or not padding.any() else self.cut(op, padding)

    def cut(self, op: MacroOp, padding: _Bools) -> list[MacroOp]:
        """The operations that replace one whose input tile has padding in these entries."""
        instruction = op.instruction
        assert isinstance(instruction, Gemm | Vector)
        return [_part(op, instruction, piece) for piece in self._cut(op, instruction, padding)]

    def _record(self, op: MacroOp) -> None:
        """Note the padding that a LOAD writes."""
        tile = op.bases["sram"][0]
        before = self.contents.get(tile, np.full(tile.entries, _DATA, np.int64))
        self.contents[tile] = _loaded(before, op)

    def _cut(self, op: MacroOp, instruction: Gemm | Vector, padding: _Bools) -> list[_Piece]:
        """The pieces of an operation, which are the same wherever padding and indices are."""
        base, loops = int(op.bases["src"][1]), (instruction.loop0, instruction.loop1)
        mask = self._numbers.setdefault(padding.tobytes(), len(self._numbers))
        steps = instruction.src0, instruction.src1, instruction.acc0, instruction.acc1
        key = (id(op.uops), mask, base, *loops, *steps)
        if key not in self._pieces:
            unit = int(field_unit(self.config, instruction, "src"))
            skipped = _reads(op, instruction, np.asarray(padding.reshape(-1, unit).all(axis=1)))
            skipped &= _apart(op.uops, instruction)
            self._kernels.append(op.uops)
            self._pieces[key] = list(_pieces(op.uops, skipped))
        return self._pieces[key]


class _Columns:
    """All operations of a list: those that read the same padding alike are cut once."""

    def __init__(self, config: Config, ops: MacroOps) -> None:
        self.ops = ops
        self.skipper = PaddingSkipper(config)
        self.neutral = [_neutral_of(config, form) for form in ops.forms]
        self.contents: list[_Ints] = []  # what a tile holds, by number
        self.forms = list(ops.forms)

    def run(self) -> MacroOps:
        """The operations that replace these."""
        ops, found = self.ops, list(self._cuts())
        count = np.ones(len(ops), np.int64)
        for rows, parts in found:
            count[rows] = len(parts)
        whole = np.repeat(np.arange(len(ops)), count)
        form, offsets = ops.form[whole], ops.offsets[whole]
        first = np.cumsum(count) - count
        for rows, parts in found:
            for position, (number, distances) in enumerate(parts):
                form[first[rows] + position] = number
                offsets[first[rows] + position, : len(distances)] += distances
        return MacroOps(tuple(self.forms), form, offsets, ops.dram[whole])

    def _cuts(self) -> Iterator[tuple[_Ints, list[tuple[int, _Ints]]]]:
        """Operations that read padding alike; the form and the distances of each of their parts."""
        contents = self._contents()
        for form, rows in self.ops.rows():
            neutral = self.neutral[form]
            if neutral is None:
                continue
            src = self.ops.offsets[rows, list(self.ops.forms[form].bases).index("src")]
            kinds, which = np.unique(np.stack([contents[rows], src]), axis=1, return_inverse=True)
            for kind, (held, _) in enumerate(kinds.T.tolist()):
                if held < 0 or not (self.contents[held] == neutral).any():
                    continue
                alike = rows[which.reshape(-1) == kind]
                yield alike, self._parts(self.ops[int(alike[0])], self.contents[held] == neutral)

    def _parts(self, op: MacroOp, padding: _Bools) -> list[tuple[int, _Ints]]:
        before = np.array(form_and_numbers(op)[1], np.int64)
        found = []
        for part in self.skipper.cut(op, padding):
            form, offsets, _ = form_and_numbers(part)
            self.forms.append(form)
            found.append((len(self.forms) - 1, np.array(offsets, np.int64) - before))
        return found

    def _contents(self) -> _Ints:
        """The number of the contents of each operation's input tile; -1 before the first LOAD."""
        loads: dict[BufferTile, list[_Ints]] = {}
        readers: dict[BufferTile, list[_Ints]] = {}
        for form, rows in self.ops.rows():
            op = self.ops.forms[form]
            if isinstance(op.instruction, Load) and op.instruction.buffer == Buffer.INP:
                loads.setdefault(op.bases["sram"][0], []).append(rows)
            elif self.neutral[form] is not None:
                readers.setdefault(op.bases["src"][0], []).append(rows)
        found = np.full(len(self.ops), -1, np.int64)
        for tile in readers.keys() & loads.keys():
            writes, reads = np.sort(np.concatenate(loads[tile])), np.concatenate(readers[tile])
            after = np.array([-1, *self._after(tile, writes)], np.int64)
            found[reads] = after[np.searchsorted(writes, reads)]
        return found

    def _after(self, tile: BufferTile, loads: _Ints) -> Iterator[int]:
        """The number of the tile's contents after each of its LOADs; equal ones have one number."""
        known: dict[tuple[int, int, int], int] = {}
        numbers: dict[bytes, int] = {}
        held = -1
        pairs = zip(self.ops.form[loads].tolist(), self.ops.offsets[loads, 0].tolist(), strict=True)
        for row, (form, offset) in zip(loads.tolist(), pairs, strict=True):
            key = held, form, offset
            if key not in known:
                before = np.full(tile.entries, _DATA, np.int64) if held < 0 else self.contents[held]
                after = _loaded(before, self.ops[row])
                known[key] = numbers.setdefault(after.tobytes(), len(self.contents))
                if known[key] == len(self.contents):
                    self.contents.append(after)
            held = known[key]
            yield held


def _neutral_of(config: Config, form: MacroOp) -> int | None:
    return _neutral(config, form.instruction) if isinstance(form.instruction, Gemm | Vector) else None


def _loaded(before: _Ints, op: MacroOp) -> _Ints:
    """The contents of a tile after a LOAD: _DATA, or the value of padding."""
    load, first = op.instruction, int(op.bases["sram"][1])
    assert isinstance(load, Load)
    rows, cols = load.y_before + load.y_size + load.y_after, load.x_before + load.x_size + load.x_after
    grid = np.full((load.z_size, rows, cols), load.pad_value, np.int64)
    grid[:, load.y_before :, load.x_before :][:, : load.y_size, : load.x_size] = _DATA
    after = before.copy()
    after[first : first + grid.size] = grid.reshape(-1)[: len(after) - first]
    return after


def _neutral(config: Config, instruction: Gemm | Vector) -> int | None:
    """The input that does not change a result, None if there is none."""
    if isinstance(instruction, Gemm):
        return 0
    if instruction.source != Source.INP:
        return None
    match instruction.op:
        case VectorOp.ADD | VectorOp.MAC:
            return 0
        case VectorOp.MAX:
            return -(1 << (config.inp_bits - 1))
    return None


def _reads(op: MacroOp, instruction: Gemm | Vector, padding: _Bools) -> _Bools:
    """[i, j, micro-op]: whether the iteration reads padding."""
    i, j = np.arange(instruction.loop0), np.arange(instruction.loop1)
    uops = np.array([uop.src for uop in op.uops], np.int64)
    at = i[:, None, None] * instruction.src0 + j[:, None] * instruction.src1 + uops + op.bases["src"][1]
    return np.where((at >= 0) & (at < len(padding)), padding[at.clip(0, len(padding) - 1)], False)


def _apart(uops: UopKernel, instruction: Gemm | Vector) -> bool:
    """Whether no two iterations of the loops use one accumulator entry: their order is free."""
    i, j = np.arange(instruction.loop0), np.arange(instruction.loop1)
    at = i[:, None] * instruction.acc0 + j * instruction.acc1
    entries = at.reshape(-1, 1) + np.unique([uop.acc for uop in uops])
    return bool(len(np.unique(entries)) == entries.size)


def _pieces(uops: UopKernel, skipped: _Bools) -> Iterator[_Piece]:
    """The rectangles in which the same micro-ops read padding."""
    groups = _sums(uops)
    for rows in _equal(skipped):
        for cols in _equal(skipped[rows.start]):
            kept = _without(uops, skipped[rows.start, cols.start], groups)
            lows = min(u.acc for u in kept), min(u.src for u in kept), min(u.wgt for u in kept)
            moved = (replace(u, acc=u.acc - lows[0], src=u.src - lows[1], wgt=u.wgt - lows[2]) for u in kept)
            yield _Piece(rows, cols, tuple(moved), lows)


def _equal(patterns: _Bools) -> Iterator[range]:
    """The maximal ranges of equal rows of an array."""
    start = 0
    for end in range(1, len(patterns) + 1):
        if end == len(patterns) or (patterns[end] != patterns[start]).any():
            yield range(start, end)
            start = end


def _sums(uops: UopKernel) -> list[range]:
    """The micro-ops of each sum: consecutive ones on one entry, up to one marked last."""
    sums, start = [], 0
    for end in range(1, len(uops) + 1):
        if end == len(uops) or uops[end - 1].last or uops[end].first or uops[end].acc != uops[start].acc:
            sums.append(range(start, end))
            start = end
    return sums


def _without(uops: UopKernel, skipped: _Bools, sums: Sequence[range]) -> list[isa.MicroOp]:
    """The micro-ops that are not skipped, and one of each sum that reads padding only."""
    kept = []
    for group in sums:
        members = [at for at in group if not skipped[at]] or [group.start]
        kept += [replace(uops[at], first=0, last=0) for at in members]
        kept[-len(members)] = replace(kept[-len(members)], first=uops[group.start].first)
        kept[-1] = replace(kept[-1], last=uops[group[-1]].last)
    return kept


def _part(op: MacroOp, instruction: Gemm | Vector, piece: _Piece) -> MacroOp:
    """The operation on a rectangle of its loops."""
    lows = dict(zip(_OFFSETS, piece.lows, strict=True))
    bases: dict[str, Base] = {}
    for name, (tile, offset) in op.bases.items():
        index = "acc" if name == "out" else name  # results move as their sums do
        moved = piece.rows.start * getattr(instruction, f"{index}0") + piece.cols.start * getattr(
            instruction, f"{index}1"
        )
        bases[name] = tile, offset + moved + lows.get(index, 0)
    part = replace(instruction, loop0=len(piece.rows), loop1=len(piece.cols))
    return replace(op, instruction=part, bases=bases, uops=piece.uops)

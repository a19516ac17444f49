# SPDX-License-Identifier: Apache-2.0
"""Pieces of a compute instruction that reads padding: rectangles of its loops, each with the
micro-ops that read data in it.

Every sum keeps a micro-op, so that it is started and ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import MacroOp, field_unit
from vdla.compiler.codegen.vdla.macro_ops import form_and_numbers
from vdla.compiler.codegen.vdla.uops import UopKernel
from vdla.hardware import isa
from vdla.hardware.config import Config

_Bools = NDArray[np.bool_]
_Key = tuple[int, ...]

_OFFSETS = ("acc", "src", "wgt")  # the indices that micro-ops move


Looped = isa.Gemm | isa.Vector
"""An instruction with two loops; those of extensions have the same fields, unknown to mypy."""


def indices(instruction: Looped, index: str, offsets: Sequence[int]) -> NDArray[np.int64]:
    """[i, j, micro-op]: an index in each iteration of the loops, without its base."""
    i, j = np.arange(instruction.loop0), np.arange(instruction.loop1)
    steps = getattr(instruction, f"{index}0"), getattr(instruction, f"{index}1")
    return np.asarray(i[:, None, None] * steps[0] + j[:, None] * steps[1] + np.array(offsets, np.int64))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A rectangle of an operation's loops and its micro-ops, whose least offsets are `lows`."""

    rows: range
    cols: range
    uops: UopKernel
    lows: tuple[int, int, int]


class PaddingCutter:
    """Cuts operations; the pieces of those that read the same padding alike are found once."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._pieces: dict[_Key, list[_Piece]] = {}
        self._numbers: dict[bytes, int] = {}
        self._kernels: list[UopKernel] = []  # kept, as the keys of `_pieces` have their identities

    def cut(self, op: MacroOp, padding: _Bools) -> list[MacroOp]:
        """The operations that replace one whose input tile has padding in these entries."""
        form, offsets, _ = form_and_numbers(op)
        result = []
        for part, distances in self.parts(form, int(op.bases["src"][1]), padding):
            moved = (offset + distance for offset, distance in zip(offsets, distances, strict=True))
            bases = {name: (tile, offset) for (name, (tile, _)), offset in zip(op.bases.items(), moved, strict=True)}
            result.append(replace(part, bases=bases))
        return result

    def parts(self, form: MacroOp, base: int, padding: _Bools) -> list[tuple[MacroOp, list[int]]]:
        """The forms that replace an operation of a form whose inputs begin at `base`, each with
        what is added to the offsets.
        """
        instruction = cast("Looped", form.instruction)
        return [_part(form, instruction, piece) for piece in self._cut(form, instruction, base, padding)]

    def _cut(self, op: MacroOp, instruction: Looped, base: int, padding: _Bools) -> list[_Piece]:
        """The pieces of an operation, which are the same wherever padding and indices are."""
        loops = instruction.loop0, instruction.loop1
        mask = self._numbers.setdefault(padding.tobytes(), len(self._numbers))
        steps = instruction.src0, instruction.src1, instruction.acc0, instruction.acc1
        key = (id(op.uops), mask, base, *loops, *steps)
        if key not in self._pieces:
            unit = int(field_unit(self.config, op.instruction, "src"))
            skipped = _reads(op.uops, instruction, base, np.asarray(padding.reshape(-1, unit).all(axis=1)))
            skipped &= _apart(op.uops, instruction)
            self._kernels.append(op.uops)
            self._pieces[key] = list(_pieces(op.uops, skipped))
        return self._pieces[key]


def _reads(uops: UopKernel, instruction: Looped, base: int, padding: _Bools) -> _Bools:
    """[i, j, micro-op]: whether the iteration reads padding."""
    at = indices(instruction, "src", [uop.src for uop in uops]) + base
    return np.where((at >= 0) & (at < len(padding)), padding[at.clip(0, len(padding) - 1)], False)


def _apart(uops: UopKernel, instruction: Looped) -> bool:
    """Whether no two iterations of the loops use one accumulator entry: their order is free."""
    entries = indices(instruction, "acc", sorted({uop.acc for uop in uops}))
    return bool(len(np.unique(entries)) == entries.size)


def _pieces(uops: UopKernel, skipped: _Bools) -> Iterator[_Piece]:
    """The rectangles in which the same micro-ops read padding."""
    groups = _sums(uops)
    for rows in _equal(skipped):
        for cols in _equal(skipped[rows.start]):
            kept = _without(uops, skipped[rows.start, cols.start], groups)
            lows = min(u.acc for u in kept), min(u.src for u in kept), min(u.wgt for u in kept)
            acc, src, wgt = lows
            moved = (isa.MicroOp(u.acc - acc, u.src - src, u.wgt - wgt, u.first, u.last) for u in kept)
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
        for at in members:
            uop = uops[at]
            first = uops[group.start].first if at == members[0] else 0
            last = uops[group[-1]].last if at == members[-1] else 0
            kept.append(isa.MicroOp(uop.acc, uop.src, uop.wgt, first, last))
    return kept


def _part(form: MacroOp, instruction: Looped, piece: _Piece) -> tuple[MacroOp, list[int]]:
    """The operation on a rectangle of its loops: its form, and what is added to the offsets."""
    lows, distances = dict(zip(_OFFSETS, piece.lows, strict=True)), list[int]()
    for name in form.bases:
        index = "acc" if name == "out" else name  # results move as their sums do
        rows, cols = getattr(instruction, f"{index}0"), getattr(instruction, f"{index}1")
        distances.append(piece.rows.start * rows + piece.cols.start * cols + lows.get(index, 0))
    part = cast("isa.Instruction", replace(instruction, loop0=len(piece.rows), loop1=len(piece.cols)))
    return MacroOp(part, form.bases, piece.uops, form.tensor, form.source), distances

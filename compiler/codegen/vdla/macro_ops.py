# SPDX-License-Identifier: Apache-2.0
"""Macro-ops in columns: many operations that differ in a few numbers only.

A *form* is a macro-op whose offsets and `dram` are 0. Each row names its form and adds the numbers;
so a program of a large operator has many rows but few forms, and what depends on the form alone is
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.uops import UopKernel
from vdla.hardware.isa import Load, Store
from vdla.support.arrays import occurrences

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MacroOps(Sequence[MacroOp]):
    """A sequence of macro-ops in program order.

    Row `i` is `forms[form[i]]` with `offsets[i, k]` for its k-th base and with `dram[i]`. `form` is
    int64[n], `offsets` int64[n, w] with 0 in unused columns, `dram` int64[n].
    """

    forms: tuple[MacroOp, ...]
    form: Ints
    offsets: Ints
    dram: Ints

    @staticmethod
    def of(ops: Iterable[MacroOp]) -> MacroOps:
        """The operations, each as a form of its own; a `MacroOps` is returned as it is."""
        if isinstance(ops, MacroOps):
            return ops
        rows = [form_and_numbers(op) for op in ops]
        width = max((len(numbers) for _, numbers, _ in rows), default=0)
        offsets = np.zeros((len(rows), width), np.int64)
        for index, (_, numbers, _) in enumerate(rows):
            offsets[index, : len(numbers)] = numbers
        dram = np.array([dram for _, _, dram in rows], np.int64)
        return MacroOps(tuple(form for form, _, _ in rows), np.arange(len(rows)), offsets, dram)

    @staticmethod
    def joined(parts: Sequence[MacroOps]) -> MacroOps:
        """The operations of all parts, one part after the other."""
        starts = np.cumsum([0, *(len(part.forms) for part in parts)]).tolist()
        width = max((part.offsets.shape[1] for part in parts), default=0)
        padded = [np.pad(part.offsets, ((0, 0), (0, width - part.offsets.shape[1]))) for part in parts]
        return MacroOps(
            tuple(form for part in parts for form in part.forms),
            np.concatenate([part.form + start for part, start in zip(parts, starts, strict=False)] or [_NO_ROWS]),
            np.concatenate(padded or [np.zeros((0, 0), np.int64)]),
            np.concatenate([part.dram for part in parts] or [_NO_ROWS]),
        )

    def take(self, rows: Ints) -> MacroOps:
        """The chosen operations; their forms are in order of first use, equal ones once."""
        part = MacroOps(self.forms, self.form[rows], self.offsets[rows], self.dram[rows])
        table = FormTable()
        number = np.zeros(len(self.forms), np.int64)
        for index in part.used:
            number[index] = table.number(self.forms[index])
        return replace(part, forms=tuple(table.forms), form=number[part.form])

    def map(self, change: Callable[[MacroOp], MacroOp]) -> MacroOps:
        """The operations with changed forms: with other tiles, tensors or lines of the schedule.

        `change` keeps the order of the bases and leaves their offsets 0.
        """
        return MacroOps(tuple(map(change, self.forms)), self.form, self.offsets, self.dram)

    @cached_property
    def first(self) -> Ints:
        """The first row of each form; the number of rows for a form without one."""
        result = np.full(len(self.forms), len(self.form), np.int64)
        np.minimum.at(result, self.form, np.arange(len(self.form)))
        return result

    @cached_property
    def last(self) -> Ints:
        """The last row of each form; -1 for a form without one."""
        result = np.full(len(self.forms), -1, np.int64)
        result[self.form] = np.arange(len(self.form))
        return result

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The forms that have rows, in order of first use."""
        order: list[int] = np.argsort(self.first, kind="stable").tolist()
        return tuple(form for form in order if self.last[form] >= 0)

    def rows(self) -> Iterator[tuple[int, Ints]]:
        """Each form that has rows, with its rows in order."""
        rows = rows_of_forms(self.form, len(self.forms))
        return ((form, rows[form]) for form in self.used)

    def __len__(self) -> int:
        return len(self.form)

    @overload
    def __getitem__(self, index: int) -> MacroOp: ...
    @overload
    def __getitem__(self, index: slice) -> MacroOps: ...
    def __getitem__(self, index: int | slice) -> MacroOp | MacroOps:
        if isinstance(index, slice):
            return MacroOps(self.forms, self.form[index], self.offsets[index], self.dram[index])
        form = self.forms[self.form[index]]
        numbers = self.offsets[index, : len(form.bases)].tolist()
        bases = {name: (tile, number) for (name, (tile, _)), number in zip(form.bases.items(), numbers, strict=True)}
        instruction = form.instruction
        if isinstance(instruction, Load | Store):
            instruction = replace(instruction, dram=int(self.dram[index]))
        return MacroOp(instruction, bases, form.uops, form.tensor, form.source)


_NO_ROWS = np.zeros(0, np.int64)


def rows_of_forms(form: Ints, count: int) -> list[Ints]:
    """The rows of each of `count` forms, in order."""
    ends = np.cumsum(occurrences(form, count))
    return np.split(np.argsort(form, kind="stable"), ends[:-1])


class FormTable:
    """Distinct forms, in the order in which they are first asked for."""

    def __init__(self) -> None:
        self.forms: list[MacroOp] = []
        self._kernels: dict[UopKernel, int] = {}
        self._kernel_of: dict[int, tuple[UopKernel, int]] = {}  # saves hashing a long kernel again
        self._numbers: dict[tuple[object, ...], int] = {}

    def number(self, form: MacroOp) -> int:
        """The index of the form."""
        key = form.instruction, tuple(form.bases.items()), self._kernel(form.uops), form.tensor, form.source
        number = self._numbers.setdefault(key, len(self.forms))
        if number == len(self.forms):
            self.forms.append(form)
        return number

    def _kernel(self, uops: UopKernel) -> int:
        """The number of a kernel."""
        if id(uops) not in self._kernel_of:
            self._kernel_of[id(uops)] = uops, self._kernels.setdefault(uops, len(self._kernels))
        return self._kernel_of[id(uops)][1]


def form_and_numbers(op: MacroOp) -> tuple[MacroOp, list[int | Ints], int | Ints]:
    """The form of an operation, the offsets of its bases in order, and its `dram`."""
    bases = {name: (tile, 0) for name, (tile, _) in op.bases.items()}
    offsets = [offset for _, offset in op.bases.values()]
    if not isinstance(op.instruction, Load | Store):
        return MacroOp(op.instruction, bases, op.uops, op.tensor, op.source), offsets, 0
    form = MacroOp(replace(op.instruction, dram=0), bases, op.uops, op.tensor, op.source)
    return form, offsets, op.instruction.dram


# --- operations that differ in their tiles --------------------------------------------------------

NO_TILE = -1


@dataclass(frozen=True, eq=False)
class TiledOps(Sequence[MacroOp]):
    """Operations in program order, in groups of one unit that stay together.

    Row `i` is `ops[i]` with its k-th base on tile `tile[i, k]`, NO_TILE in unused columns. Tile `t`
    is the part of `origin[t]` with `entries[t]` entries of its buffer. `group` is sorted and counts
    from 0.
    """

    ops: MacroOps
    tile: Ints
    entries: Ints
    origin: tuple[BufferTile, ...]
    group: Ints

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.group[-1]) + 1 if len(self.group) else 0

    @property
    def starts(self) -> Ints:
        """The first row of each group, and the number of rows."""
        return np.searchsorted(self.group, np.arange(self.groups + 1))

    def cut(self, whole: Ints, parts: MacroOps) -> TiledOps:
        """With `parts` in place of the operations; row `i` is a part of operation `whole[i]`."""
        return replace(self, ops=parts, tile=self.tile[whole], group=self.group[whole])

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[MacroOp]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> MacroOp: ...
    @overload
    def __getitem__(self, index: slice) -> TiledOps: ...
    def __getitem__(self, index: int | slice) -> MacroOp | TiledOps:
        if isinstance(index, slice):
            return replace(self, ops=self.ops[index], tile=self.tile[index], group=self.group[index])
        op = self.ops[index]
        tiles = [self._tile(number) for number in self.tile[index, : len(op.bases)].tolist()]
        bases = {name: (tile, offset) for (name, (_, offset)), tile in zip(op.bases.items(), tiles, strict=True)}
        return replace(op, bases=bases)

    def _tile(self, number: int) -> BufferTile:
        return replace(self.origin[number], entries=int(self.entries[number]), ident=number)


def own_tiles(ops: MacroOps) -> tuple[Ints, tuple[BufferTile, ...]]:
    """The number of the tile of each base, NO_TILE in unused columns; and the tiles."""
    numbers: dict[BufferTile, int] = {}
    width = max((len(form.bases) for form in ops.forms), default=0)
    table = np.full((len(ops.forms), width), NO_TILE, np.int64)
    for number, form in enumerate(ops.forms):
        for position, (tile, _) in enumerate(form.bases.values()):
            table[number, position] = numbers.setdefault(tile, len(numbers))
    return table[ops.form], tuple(numbers)

"""Operations in columns that differ in their tiles too: each row names the tile of every base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps

Ints = NDArray[np.int64]
NO_TILE = -1


@dataclass(frozen=True, eq=False)
class TiledOps(Sequence[MacroOp]):
    """Operations in program order, in groups of one unit that stay together.

    Row `i` is `ops[i]` with its k-th base on tile `tile[i, k]`, NO_TILE in unused columns. Tile `t`
    has `entries[t]` entries of the buffer of `origin[t]`, of which it is a part. `group` is sorted
    and counts from 0.
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

"""The tiles of a matrix product: of a group, of a step over the terms, of a thread, of a fetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from vdla.compiler.operators.cpu.block_nest import BlockNest, nominal_extent
from vdla.compiler.operators.gpu.matmul_schedule import MatmulTiles
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.form import MOST_SUMS, MOST_WASTE, OWN_REGISTERS, GroupRoom, ceil_div, powers, waste
from vdla.compiler.tune.grid.model import WARP, GridWork


@dataclass(frozen=True, slots=True)
class MatmulForm:
    """A product of [rows, terms] and [terms, columns], `batch` times."""

    default: MatmulTiles
    batch: int
    rows: int
    columns: int
    terms: int
    itemsize: int
    room: GroupRoom
    operator: ClassVar[str] = "matmul"

    @staticmethod
    def of(nest: BlockNest, default: MatmulTiles, limits: GridLimits) -> MatmulForm:
        """Of the block that sums."""
        *batch, rows, columns, terms = (nominal_extent(axis.extent) for axis in nest.leaf.block.axes)
        room = GroupRoom.beside(limits, prod(default.threads.values()))
        return MatmulForm(
            default=default,
            batch=prod(batch),
            rows=rows,
            columns=columns,
            terms=terms,
            itemsize=nest.element_bytes,
            room=room,
        )

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        return {
            "rows": powers(4, 128),
            "columns": powers(4, 128),
            "depth": powers(4, 32),
            "thread_rows": powers(1, 8),
            "thread_columns": powers(1, 8),
            "lanes": powers(1, 4),
        }

    def fits(self, tiles: MatmulTiles) -> bool:
        """Whether threads divide the tile of a group, and it is not mostly outside."""
        if tiles.rows % tiles.thread_rows or tiles.columns % tiles.thread_columns:
            return False
        if tiles.thread_rows * tiles.thread_columns > MOST_SUMS or tiles.depth > self.terms:
            return False
        covered = waste((self.rows, self.columns), (tiles.rows, tiles.columns))
        least = waste((self.rows, self.columns), (self.default.rows, self.default.columns))
        if covered > max(MOST_WASTE, least):
            return False
        return self.room.holds(prod(tiles.threads.values()), tiles.shared_bytes(self.itemsize))

    def _shared_bytes(self, tiles: MatmulTiles) -> int:
        """Of a group: what lies outside of the matrices is not fetched."""
        return tiles.depth * (min(tiles.rows, self.rows) + min(tiles.columns, self.columns)) * self.itemsize

    def work(self, tiles: MatmulTiles) -> GridWork:
        """Each step moves two tiles to shared memory; each term fills registers from them."""
        threads = prod(tiles.threads.values())
        warps, steps = ceil_div(threads, WARP), ceil_div(self.terms, tiles.depth)
        sums = tiles.thread_rows * tiles.thread_columns
        moved = steps * tiles.depth * (tiles.rows + tiles.columns)
        loads = self.terms * (tiles.thread_rows + tiles.thread_columns)
        fetches = moved / (threads * tiles.lanes)
        return GridWork(
            groups=float(self.batch * ceil_div(self.rows, tiles.rows) * ceil_div(self.columns, tiles.columns)),
            threads=float(threads),
            shared_bytes=float(self._shared_bytes(tiles)),
            registers=float(OWN_REGISTERS + sums),
            memory_bytes=float((moved + tiles.rows * tiles.columns) * self.itemsize),
            shared_passes=warps * loads + moved / WARP,
            operations=warps * (2 * self.terms * sums + loads + 2 * fetches),
            waits=float(steps),
            barriers=2.0 * steps,
        )

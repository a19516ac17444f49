"""The tiles of a product on tensor cores: of a block, of a step over the terms, of a warp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.cpu.block_nest import BlockNest, nominal_extent
from vdla.compiler.operators.gpu.tensor_core_schedule import VECTOR_BYTES, TensorCoreOperands, TensorCoreTiles
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.form import OWN_REGISTERS, GroupRoom, ceil_div, powers
from vdla.compiler.tune.grid.model import BANK_BYTES, BANKS, IN_FLIGHT, TENSOR_CORE_STEP, WARP, GridWork

_STORED_BYTES = 4  # for each element of the result, as a row of a fragment moves a whole sector
_MOST_SUMS = 128  # of a thread, in registers: a product of 64 x 64 for each warp spills nothing


@dataclass(frozen=True, slots=True)
class TensorCoreForm:
    """A product of [rows, terms] and [terms, columns], `batch` times."""

    default: TensorCoreTiles
    batch: int
    rows: int
    columns: int
    terms: int
    operands: TensorCoreOperands
    room: GroupRoom
    operator: ClassVar[str] = "tensor_cores"

    @staticmethod
    def of(
        nest: BlockNest, operands: TensorCoreOperands, default: TensorCoreTiles, limits: GridLimits
    ) -> TensorCoreForm:
        """Of the block that sums."""
        *batch, rows, columns, terms = (nominal_extent(axis.extent) for axis in nest.leaf.block.axes)
        return TensorCoreForm(
            default=default,
            batch=prod(batch),
            rows=rows,
            columns=columns,
            terms=terms,
            operands=operands,
            room=GroupRoom.beside(limits, default.threads),
        )

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        (step_rows, step_terms), (_, step_columns) = self._shape("a"), self._shape("c")
        return {
            "rows": powers(step_rows, 256),
            "columns": powers(2 * step_columns, 256),
            "depth": powers(step_terms, 128),
            "warp_rows": powers(step_rows, 128),
            "warp_columns": powers(step_columns, 128),
        }

    def fits(self, tiles: TensorCoreTiles) -> bool:
        """Whether tiles divide the product, warps those of a block, and sums have registers."""
        whole = (
            (self.rows, tiles.rows),
            (self.columns, tiles.columns),
            (self.terms, tiles.depth),
            (tiles.rows, tiles.warp_rows),
            (tiles.columns, tiles.warp_columns),
        )
        if any(extent % tile for extent, tile in whole) or self._sums(tiles) > _MOST_SUMS:
            return False
        return self.room.holds(tiles.threads, self._shared_bytes(tiles))

    def work(self, tiles: TensorCoreTiles) -> GridWork:
        """Each step moves two tiles to shared memory; warps load each fragment of it once."""
        warps, steps = prod(tiles.warps), self.terms // tiles.depth
        (step_rows, step_terms), (_, step_columns) = self._shape("a"), self._shape("c")
        parts = tiles.warp_rows // step_rows, tiles.warp_columns // step_columns
        turns = self.terms // step_terms
        fetches = [
            ceil_div(side * tiles.depth * self._size, VECTOR_BYTES * tiles.threads) for side in self._sides(tiles)
        ]
        moved = steps * tiles.depth * sum(self._sides(tiles)) * self._size
        loaded = self.terms * (tiles.warp_rows + tiles.warp_columns) * self._size
        stored = tiles.rows * tiles.columns * _STORED_BYTES
        instructions = turns * (TENSOR_CORE_STEP * prod(parts) + sum(parts)) + 2 * steps * sum(fetches)
        return GridWork(
            groups=float(self.batch * (self.rows // tiles.rows) * (self.columns // tiles.columns)),
            threads=float(tiles.threads),
            shared_bytes=float(self._shared_bytes(tiles)),
            registers=float(OWN_REGISTERS + self._sums(tiles)),
            memory_bytes=float(moved + stored),
            shared_passes=(moved + warps * loaded) / (BANKS * BANK_BYTES),
            operations=float(warps * (instructions + self._sums(tiles))),
            waits=float(steps * _waits(fetches)),
            barriers=float(steps),
        )

    @property
    def _size(self) -> int:
        """The bytes of an element of both operands."""
        return storage_dtype(self.operands.step.fragments["a"].dtype).itemsize

    def _shape(self, operand: str) -> tuple[int, int]:
        """Of a fragment."""
        rows, columns = self.operands.step.fragments[operand].shape
        return rows, columns

    def _sides(self, tiles: TensorCoreTiles) -> tuple[int, int]:
        """The rows and the columns of a block."""
        return tiles.rows, tiles.columns

    def _sums(self, tiles: TensorCoreTiles) -> int:
        """Of a thread."""
        return tiles.warp_rows * tiles.warp_columns // WARP

    def _shared_bytes(self, tiles: TensorCoreTiles) -> int:
        return tiles.shared_bytes(self.operands.step.fragments["a"].dtype, self.operands.rows_of_b)


def _waits(fetches: list[int]) -> int:
    """The waits for memory of a step: fetches of one vector are under way together, and so are
    some iterations of a loop."""
    return any(count == 1 for count in fetches) + sum(ceil_div(count, IN_FLIGHT) for count in fetches if count > 1)

"""The tiles of a direct convolution: of a group, of a thread, of a step over input channels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from vdla.compiler.operators.cpu.block_nest import BlockNest, nominal_extent
from vdla.compiler.operators.gpu.conv2d_schedule import Conv2dTiles, ConvolutionShape, convolution_shape
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.form import MOST_SUMS, MOST_WASTE, OWN_REGISTERS, GroupRoom, ceil_div, powers, waste
from vdla.compiler.tune.grid.model import WARP, GridWork

_ROWS = (1, 2, 4, 7, 8, 14, 16)
_COLUMNS = (4, 7, 8, 14, 16, 28, 32)


@dataclass(frozen=True, slots=True)
class Conv2dForm:
    """A convolution of `images`, whose groups of channels are computed by groups of their own."""

    default: Conv2dTiles
    shape: ConvolutionShape
    images: int
    room: GroupRoom
    operator: ClassVar[str] = "conv2d"

    @staticmethod
    def of(nest: BlockNest, default: Conv2dTiles, limits: GridLimits) -> Conv2dForm:
        """Of the block that sums."""
        shape = convolution_shape(nest)
        batch, blocks = (nominal_extent(axis.extent) for axis in nest.leaf.block.axes[:2])
        room = GroupRoom.beside(limits, prod(default.threads(shape.lanes).values()))
        return Conv2dForm(default, shape, batch * ceil_div(blocks, shape.blocks), room)

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Sizes up to the extents; divisors where tiles must divide."""
        shape = self.shape
        return {
            "blocks": _divisors(shape.blocks, 8),
            "rows": sorted({min(n, shape.rows) for n in _ROWS}),
            "columns": sorted({min(n, shape.columns) for n in _COLUMNS}),
            "thread_channels": _divisors(shape.lanes, 8),
            "thread_rows": powers(1, 2),
            "thread_columns": powers(1, 4),
            "depth": _divisors(shape.channels, 16),
        }

    def fits(self, tiles: Conv2dTiles) -> bool:
        """Whether threads divide the tile of a group, and it is not mostly outside."""
        if tiles.rows % tiles.thread_rows or tiles.columns % tiles.thread_columns:
            return False
        if tiles.thread_channels * tiles.thread_rows * tiles.thread_columns > MOST_SUMS:
            return False
        extents = self.shape.rows, self.shape.columns
        least = waste(extents, (self.default.rows, self.default.columns))
        if waste(extents, (tiles.rows, tiles.columns)) > max(MOST_WASTE, least):
            return False
        return self.room.holds(prod(tiles.threads(self.shape.lanes).values()), self.shape.shared_bytes(tiles))

    def work(self, tiles: Conv2dTiles) -> GridWork:
        """Each step moves a window and weights to shared memory, and reads them for each term."""
        shape, threads = self.shape, prod(tiles.threads(self.shape.lanes).values())
        warps, steps = ceil_div(threads, WARP), shape.channels // tiles.depth
        pixels = tiles.thread_rows * tiles.thread_columns
        sums, terms = pixels * tiles.thread_channels, shape.channels * prod(shape.taps)
        moved = steps * shape.shared_bytes(tiles)
        results = tiles.rows * tiles.columns * tiles.blocks * shape.lanes
        loads = terms * (pixels + tiles.thread_channels)
        parts = ceil_div(shape.blocks, tiles.blocks), ceil_div(shape.rows, tiles.rows)
        return GridWork(
            groups=float(self.images * prod(parts) * ceil_div(shape.columns, tiles.columns)),
            threads=float(threads),
            shared_bytes=float(shape.shared_bytes(tiles)),
            registers=float(OWN_REGISTERS + sums),
            memory_bytes=float(moved + results * shape.itemsize),
            shared_passes=warps * loads + moved / (4 * WARP),
            operations=warps * (2 * terms * sums + loads + 2 * moved / shape.itemsize / threads),
            waits=float(steps),
            barriers=2.0 * steps,
        )


def _divisors(extent: int, most: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, min(extent, most) + 1) if extent % n == 0)

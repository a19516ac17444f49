"""The tiles of a depthwise convolution: of a group, in channels and pixels, and of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from vdla.compiler.operators.cpu.block_nest import BlockNest, nominal_extent
from vdla.compiler.operators.gpu.depthwise_schedule import DepthwiseTiles, halo_bytes
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.form import MOST_SUMS, MOST_WASTE, OWN_REGISTERS, GroupRoom, ceil_div, powers, waste
from vdla.compiler.tune.grid.model import WARP, GridWork

_PIXELS = (1, 2, 4, 7, 8, 14, 16, 28, 32)


@dataclass(frozen=True, slots=True)
class DepthwiseForm:
    """A depthwise convolution of `images` with sums [n, channels, rows, columns] over `taps`."""

    default: DepthwiseTiles
    nest: BlockNest
    room: GroupRoom
    operator: ClassVar[str] = "depthwise_conv2d"

    @staticmethod
    def of(nest: BlockNest, default: DepthwiseTiles, limits: GridLimits) -> DepthwiseForm:
        """Of the block that sums."""
        return DepthwiseForm(default, nest, GroupRoom.beside(limits, prod(default.threads.values())))

    @property
    def _extents(self) -> list[int]:
        return [nominal_extent(axis.extent) for axis in self.nest.leaf.block.axes]

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Sizes up to the extents; channels that divide."""
        _, channels, rows, columns, *_ = self._extents
        return {
            "channels": [n for n in powers(1, 32) if channels % n == 0],
            "rows": sorted({min(n, rows) for n in _PIXELS}),
            "columns": sorted({min(n, columns) for n in _PIXELS if n >= min(4, columns)}),
            "thread_rows": powers(1, 4),
            "thread_columns": powers(1, 4),
        }

    def fits(self, tiles: DepthwiseTiles) -> bool:
        """Whether threads divide the tile of a group, and it is not mostly outside."""
        if tiles.rows % tiles.thread_rows or tiles.columns % tiles.thread_columns:
            return False
        if tiles.thread_rows * tiles.thread_columns > MOST_SUMS:
            return False
        extents = self._extents[2:4]
        least = waste(extents, (self.default.rows, self.default.columns))
        if waste(extents, (tiles.rows, tiles.columns)) > max(MOST_WASTE, least):
            return False
        return self.room.holds(prod(tiles.threads.values()), halo_bytes(self.nest, tiles))

    def work(self, tiles: DepthwiseTiles) -> GridWork:
        """A group fetches its part of the image once; each sum reads a window of it."""
        batch, channels, rows, columns, *taps = self._extents
        threads, sums = prod(tiles.threads.values()), tiles.thread_rows * tiles.thread_columns
        warps, halo = ceil_div(threads, WARP), halo_bytes(self.nest, tiles)
        terms = sums * prod(taps)
        parts = channels // tiles.channels, ceil_div(rows, tiles.rows), ceil_div(columns, tiles.columns)
        results = tiles.channels * tiles.rows * tiles.columns * self.nest.element_bytes
        return GridWork(
            groups=float(batch * prod(parts)),
            threads=float(threads),
            shared_bytes=float(halo),
            registers=float(OWN_REGISTERS + sums),
            memory_bytes=float(halo + results),
            shared_passes=float(warps * terms + halo / (4 * WARP)),
            operations=float(warps * (3 * terms + 2 * halo / (4 * threads))),
            waits=float(ceil_div(halo, 4 * threads) + 1),
            barriers=1.0,
        )

"""The tiles of stages that share rows: the threads of a row, the rows of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log2
from typing import ClassVar

from vdla.compiler.operators.gpu.row_schedule import RowTiles
from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.form import OWN_REGISTERS, GroupRoom, ceil_div, powers
from vdla.compiler.tune.grid.model import WARP, GridWork

_MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class RowForm:
    """`rows` rows of `length` elements that `stages` stages pass over; the innermost loop over rows
    has `last` iterations."""

    default: RowTiles
    rows: int
    last: int
    length: int
    stages: int
    itemsize: int
    room: GroupRoom
    operator: ClassVar[str] = "rows"

    @staticmethod
    def room_of(default: RowTiles, limits: GridLimits) -> GroupRoom:
        """What a group may need."""
        return GroupRoom.beside(limits, default.threads * default.rows)

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two; a row of one thread stays one."""
        if self.default.threads == 1:
            return {"threads": (1,), "rows": powers(WARP, self.room.limits.threads)}
        rows = [n for n in range(1, _MOST_ROWS + 1) if self.last % n == 0]
        return {"threads": powers(WARP, self.room.limits.threads), "rows": rows}

    def fits(self, tiles: RowTiles) -> bool:
        """Whether there is an element for most threads, and shared memory for half of a group."""
        if tiles.threads > max(self.length, self.default.threads):
            return False
        held = 0 if tiles.threads == 1 else self.stages * (self.length + tiles.threads) * self.itemsize * tiles.rows
        allowed = self.room.limits.shared_bytes // 2
        return self.room.holds(tiles.threads * tiles.rows) and (tiles == self.default or held <= allowed)

    def work(self, tiles: RowTiles) -> GridWork:
        """Each stage passes over the row; a tree of threads combines what they reduced."""
        threads, own = tiles.threads * tiles.rows, ceil_div(self.length, tiles.threads)
        warps, levels = ceil_div(threads, WARP), log2(tiles.threads)
        shared = 0 if tiles.threads == 1 else self.stages * tiles.rows * self.length * self.itemsize
        return GridWork(
            groups=float(ceil_div(self.rows, tiles.rows)),
            threads=float(threads),
            shared_bytes=float(shared),
            registers=float(OWN_REGISTERS),
            memory_bytes=2.0 * tiles.rows * self.length * self.itemsize,
            shared_passes=float(self.stages * warps * (own + 2 * levels)) if tiles.threads > 1 else 0.0,
            operations=float(self.stages * warps * (3 * own + 2 * levels)),
            waits=float(ceil_div(own, 4)),
            barriers=self.stages * (levels + 1) if tiles.threads > 1 else 0.0,
        )

# SPDX-License-Identifier: Apache-2.0
"""The choice of tiles for the schedule of a block on a grid, among all that are legal for a device.

A schedule asks `TileChoices` for the tiles of a block, with a `TileProblem`: the default tiles, and
the values of each field of tiles with a rule of which combinations fit. The answer is the default,
or the tiles given for the block; the recorded problems are the tuner's space.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

from vdla.compiler.operators.cpu.block_nest import BlockNest, iteration_count
from vdla.compiler.schedule import ScheduleError
from vdla.compiler.target import GridLimits
from vdla.compiler.tensorize import LANES

Tiles = Any
"""One of the dataclasses of tiles of the schedules."""
_MOST_SUMS = 64  # of a thread, in registers
_MOST_WASTE = 1.5  # covered elements over elements of the result


@dataclass(frozen=True, kw_only=True)
class TileProblem(ABC):
    """The block to tile: `iterations` of its loops, elements of `itemsize` bytes, the device."""

    operator: ClassVar[str]
    limits: GridLimits
    iterations: int
    itemsize: int

    @property
    @abstractmethod
    def default(self) -> Tiles:
        """The tiles without tuning.

        Raises:
            ScheduleError: another kind of schedule is faster, or no tiles fit.
        """

    @property
    @abstractmethod
    def values(self) -> Mapping[str, Iterable[int]]:
        """The values of each field of tiles."""

    @abstractmethod
    def fits(self, tiles: Tiles) -> bool:
        """Whether tiles are legal for the schedule and fit the device."""

    @staticmethod
    def facts(nest: BlockNest, limits: GridLimits) -> dict[str, Any]:
        """The fields common to all problems, for the nest of a block."""
        iterations = iteration_count(nest.leaf.loops)
        return {"limits": limits, "iterations": iterations, "itemsize": nest.element_bytes}

    def threads(self, tiles: Tiles) -> int:
        """The threads of a group."""
        return prod(tiles.threads.values()) if isinstance(tiles.threads, dict) else int(tiles.threads)

    def holds(self, tiles: Tiles, shared_bytes: int = 0) -> bool:
        """Whether a group fits the device, and has at least a warp or the default number of
        threads.
        """
        fewest, threads = min(self.threads(self.default), LANES), self.threads(tiles)
        return fewest <= threads <= self.limits.threads and shared_bytes <= self.limits.shared_bytes

    def holds_image(self, tiles: Tiles, extents: Sequence[int], sums: int, shared_bytes: int) -> bool:
        """Whether threads divide a tile of rows and columns, the sums of a thread fit registers,
        and tiles waste little outside the extents, or no more than the default.
        """
        if tiles.rows % tiles.thread_rows or tiles.columns % tiles.thread_columns or sums > _MOST_SUMS:
            return False
        least, waste = (
            prod(padded_extent(n, tile) / n for n, tile in zip(extents, (sizes.rows, sizes.columns), strict=True))
            for sizes in (self.default, tiles)
        )
        return waste <= max(_MOST_WASTE, least) and self.holds(tiles, shared_bytes)


@dataclass(slots=True)
class TileChoices:
    """Tiles by block name: the given ones, and the `selection` of the schedule; `asked` are the
    problems.
    """

    given: Mapping[str, Tiles]
    selection: dict[str, Tiles] = field(default_factory=dict)
    asked: dict[str, TileProblem] = field(default_factory=dict)

    def tiles(self, block: str, problem: TileProblem) -> Tiles:
        """The given tiles of a block if they are for its schedule, else the default ones."""
        given, default = self.given.get(block), problem.default
        self.asked[block] = problem
        self.selection[block] = given if type(given) is type(default) else default
        return self.selection[block]

    def check_given(self) -> None:
        """Raise a ScheduleError unless all given tiles were legal."""
        for block, tiles in self.given.items():
            if self.selection.get(block) != tiles:
                selected = self.selection.get(block, "no tiles")
                raise ScheduleError(f"grid schedule of {block}: tiles must be legal, got {tiles}, not {selected}")


def padded_extent(extent: int, tile: int) -> int:
    """The extent that whole tiles cover."""
    return -(-extent // tile) * tile


def powers(least: int, most: int) -> tuple[int, ...]:
    """The powers of two from `least`, itself a power, to `most`."""
    return tuple(least << n for n in range((most // least).bit_length()))


def divisors(extent: int, most: int) -> list[int]:
    """The divisors of an extent up to a number."""
    return [n for n in range(1, min(extent, most) + 1) if extent % n == 0]

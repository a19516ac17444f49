"""What a form of schedule lets the tuner choose: values of its tiles, which fit, what they cost.

A form is made for one block of a function. Its tiles are the dataclass that the schedule takes;
each field is a knob.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from vdla.compiler.target import GridLimits
from vdla.compiler.tune.grid.model import WARP, GridWork

OWN_REGISTERS = 24  # of a thread, for addresses and loop variables
MOST_SUMS = 64  # of a thread, in registers
MOST_WASTE = 1.5  # elements that tiles cover, over those that there are
Tiles = Any
"""One of the dataclasses of tiles of `compiler/operators/gpu`."""


class GridForm(Protocol):
    """The tiles of a block."""

    @property
    def operator(self) -> str:
        """The kind of schedule, by name."""
        ...

    @property
    def default(self) -> Tiles:
        """What is taken without tuning."""
        ...

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """The values of each field."""
        ...

    def fits(self, tiles: Tiles) -> bool:
        """Whether the schedule takes tiles, and the device holds what they need."""
        ...

    def work(self, tiles: Tiles) -> GridWork:
        """What the launch of a block roughly does, without building it."""
        ...


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """What a group may need; a group has a warp at least, or the threads of the default tiles."""

    limits: GridLimits
    fewest: int

    @staticmethod
    def beside(limits: GridLimits, threads: int) -> GroupRoom:
        """For a schedule whose default tiles have some threads."""
        return GroupRoom(limits, min(threads, WARP))

    def holds(self, threads: int, shared_bytes: int = 0) -> bool:
        """Whether a group fits."""
        return self.fewest <= threads <= self.limits.threads and shared_bytes <= self.limits.shared_bytes


def powers(least: int, most: int) -> tuple[int, ...]:
    """The powers of two from `least`, which is one, to `most`."""
    return tuple(least << n for n in range((most // least).bit_length()))


def ceil_div(extent: int, tile: int) -> int:
    """The tiles that cover an extent."""
    return -(-extent // tile)


def waste(extents: Iterable[int], tiles: Iterable[int]) -> float:
    """Elements that whole tiles cover, over those that there are."""
    found = 1.0
    for extent, tile in zip(extents, tiles, strict=True):
        found *= ceil_div(extent, tile) * tile / extent
    return found

"""The tiles of stages in one dimension: reductions by groups, and elements by threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log2
from typing import ClassVar

from vdla.compiler.operators.gpu.element_schedule import ElementTiles
from vdla.compiler.operators.gpu.reduction_schedule import ReductionTiles
from vdla.compiler.tune.grid.form import OWN_REGISTERS, GroupRoom, ceil_div, powers
from vdla.compiler.tune.grid.model import WARP, GridWork

_MOST_GROUPS = 64  # that share the terms of a result


@dataclass(frozen=True, slots=True)
class ReductionForm:
    """`results` reductions of `terms` terms each."""

    default: ReductionTiles
    results: int
    terms: int
    itemsize: int
    room: GroupRoom
    operator: ClassVar[str] = "reduction"

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        return {"threads": powers(WARP, self.room.limits.threads), "groups": powers(1, _MOST_GROUPS)}

    def fits(self, tiles: ReductionTiles) -> bool:
        """Whether each thread has a term."""
        has_terms = tiles == self.default or tiles.threads * tiles.groups <= self.terms
        return has_terms and self.room.holds(tiles.threads, tiles.threads * self.itemsize)

    def work(self, tiles: ReductionTiles) -> GridWork:
        """Each thread reduces a part of the terms, and a tree what they leave."""
        own = ceil_div(self.terms, tiles.threads * tiles.groups)
        warps, levels = ceil_div(tiles.threads, WARP), log2(tiles.threads)
        return GridWork(
            groups=float(self.results * tiles.groups),
            threads=float(tiles.threads),
            shared_bytes=float(tiles.threads * self.itemsize),
            registers=float(OWN_REGISTERS),
            memory_bytes=float(own * tiles.threads * self.itemsize),
            shared_passes=3 * warps * levels,
            operations=warps * (2 * own + 4 * levels),
            waits=float(ceil_div(own, 4)),
            barriers=levels,
        )


@dataclass(frozen=True, slots=True)
class ElementForm:
    """`elements` results, each of `terms` terms; `contiguous` neighbours lie beside each other."""

    default: ElementTiles
    elements: int
    contiguous: int
    terms: int
    operands: int
    itemsize: int
    room: GroupRoom
    operator: ClassVar[str] = "elements"

    @property
    def values(self) -> Mapping[str, Iterable[int]]:
        """Powers of two."""
        lanes = [n for n in powers(1, 4) if self.contiguous % n == 0] if self.terms == 1 else [1]
        return {"threads": powers(WARP, self.room.limits.threads), "lanes": lanes}

    def fits(self, tiles: ElementTiles) -> bool:
        """Whether the threads of a group are allowed."""
        return self.room.holds(tiles.threads)

    def work(self, tiles: ElementTiles) -> GridWork:
        """Each thread reads the operands of its results and writes them."""
        warps, own = ceil_div(tiles.threads, WARP), tiles.lanes * self.terms
        moved = tiles.threads * (own * self.operands + tiles.lanes) * self.itemsize
        return GridWork(
            groups=float(ceil_div(self.elements, tiles.threads * tiles.lanes)),
            threads=float(tiles.threads),
            shared_bytes=0.0,
            registers=float(OWN_REGISTERS + tiles.lanes),
            memory_bytes=float(moved),
            shared_passes=0.0,
            operations=float(warps * own * (self.operands + 1)),
            waits=float(ceil_div(self.terms, 4)),
            barriers=0.0,
        )

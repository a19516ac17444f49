"""Mappings: which axes of a contraction become which axis of an intrinsic.

An axis may become only an axis of equal signature: one that indexes the same operands. Axes in
every operand stay outside, as sections of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from vdla.compiler import te
from vdla.compiler.map.contraction import Contraction, contractions
from vdla.compiler.map.errors import MapError
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import Intrinsic

RESULT = "result"
"""In a signature: the axis indexes the result."""

Signature = frozenset[str]


@dataclass(frozen=True, slots=True)
class Mapping:
    """The axes of a contraction, fused in order, that become each axis of an intrinsic.

    `streamed` is the operand whose window moves with the result; `held` the other one.
    """

    contraction: Contraction
    intrinsic: Intrinsic
    groups: MappingOf[str, tuple[str, ...]]
    streamed: str
    held: str

    def extent(self, axis: str) -> int:
        """Elements of the fused axes behind an axis of the intrinsic."""
        return prod(self.contraction.extents[member] for member in self.groups[axis])

    def blocks(self, axis: str) -> int:
        """Steps of the intrinsic along one of its axes."""
        return -(-self.extent(axis) // intrinsic_extents(self.intrinsic)[axis])

    @property
    def mapped(self) -> frozenset[str]:
        """The axes that are inside the intrinsic."""
        return frozenset(axis for group in self.groups.values() for axis in group)

    @property
    def used(self) -> float:
        """The share of the intrinsic's work that is not padding of its axes."""
        extents = intrinsic_extents(self.intrinsic)
        return prod(self.extent(axis) / (self.blocks(axis) * extents[axis]) for axis in self.groups)

    def __str__(self) -> str:
        parts = [f"{_plain((axis,))[0]} <- {' x '.join(_plain(group)) or '1'}" for axis, group in self.groups.items()]
        operands = self.contraction.operands
        reads = ", ".join(f"{name} = {operands[name].tensor.name}" for name in (self.streamed, self.held))
        return f"{self.intrinsic.name}: {', '.join(parts)} ({reads}; {self.used:.0%} of the lanes used)"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A mapping that is not legal, and the first reason."""

    mapping: str
    reason: str


def _plain(axes: tuple[str, ...]) -> list[str]:
    """The axes by the names that the user gave."""
    return [axis.removeprefix("v") for axis in axes]


def intrinsic_extents(intrinsic: Intrinsic) -> dict[str, int]:
    """The extents of the axes of an intrinsic, spatial ones first."""
    stage = _stage(intrinsic)
    found = dict(zip(map(axis_name, stage.axes), stage.shape, strict=True))
    if stage.reduction is not None:
        found |= {axis_name(axis.name): axis.extent for axis in stage.reduction.axes}
    return found


def _stage(intrinsic: Intrinsic) -> Stage:
    stage = intrinsic.output.stage
    assert isinstance(stage, Stage)
    return stage


def signatures(contraction: Contraction) -> dict[str, Signature]:
    """The operands that each axis indexes."""
    found = {}
    for axis in contraction.extents:
        reads = {name for name, access in contraction.operands.items() if axis in access.axes}
        found[axis] = frozenset(reads | ({RESULT} if axis in contraction.spatial else set()))
    return found


def mappings(sums: te.Tensor, intrinsic: Intrinsic) -> Iterator[Mapping]:
    """All legal mappings of the stage of `sums` onto an intrinsic.

    Raises:
        MapError: the stage computes something else than the intrinsic.
    """
    itself = next(contractions(intrinsic.output, intrinsic.output))
    own = signatures(itself)
    streamed, held = itself.operands
    for contraction in contractions(sums, intrinsic.output):
        found = signatures(contraction)
        choices = [_choices(contraction, found, own[axis], intrinsic_extents(intrinsic)[axis], held) for axis in own]
        for chosen in product(*choices):
            yield Mapping(contraction, intrinsic, dict(zip(own, chosen, strict=True)), streamed, held)


def _choices(
    contraction: Contraction, found: MappingOf[str, Signature], wanted: Signature, extent: int, held: str
) -> list[tuple[str, ...]]:
    """The groups of axes that may become an intrinsic axis of a signature and an extent."""
    axes = tuple(axis for axis, signature in found.items() if signature == wanted)
    if RESULT in wanted and held in wanted:
        return [axes]  # all results that share an entry of the streamed operand
    if extent == 1:
        return [()]
    subsets = [chosen for size in range(len(axes) + 1) for chosen in combinations(axes, size)]
    return subsets if RESULT in wanted else subsets[1:] or [()]


def require_covered(mapping: Mapping) -> None:
    """MapError unless every axis is inside the intrinsic or can be a loop around it."""
    found = signatures(mapping.contraction)
    for axis, signature in found.items():
        if RESULT in signature and mapping.streamed not in signature and axis not in mapping.mapped:
            raise MapError(f"axis {axis} must index {mapping.streamed} or be mapped, got neither")
        if not signature - {RESULT}:
            raise MapError(f"axis {axis} must index an operand, got none that it indexes")

# SPDX-License-Identifier: Apache-2.0
"""Mappings: which axes of a computation become which axis of an intrinsic.

Beside weights, an axis may become only an axis of equal signature: one that indexes the same
operands. Without weights, lanes are independent of one another, and any axis of the result may
become one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod

from vdla.compiler import ir
from vdla.compiler.map.computation import Computation
from vdla.compiler.map.cores import Core
from vdla.compiler.map.entries import axis_extents, entry_axes, lookup_tables, stage_of
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import Intrinsic

RESULT = "result"
"""In a signature: the axis indexes the result."""

Signature = frozenset[str]
Groups = MappingOf[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Mapping:
    """The axes of a computation, fused in order, that become each axis of its last intrinsic.

    Windows are read in pieces along `chunk`, an axis of the reduction, or whole. In a `fixed`
    mapping, which was not searched, blocks of rows of results are one after the other, and axes of
    the weights and the result alone may stay outside, as results of one position. With
    `terms_first`, blocks of terms of the weights lie before those of lanes, as templates leave the
    channels of results.
    """

    computation: Computation
    groups: Groups
    chunk: str | None = None
    fixed: bool = False
    terms_first: bool = False

    @property
    def intrinsic(self) -> Intrinsic:
        """The intrinsic of the last step."""
        return self.computation.core

    def extent(self, axis: str) -> int:
        """Elements of the fused axes behind an axis of the intrinsic."""
        return prod(self.computation.extents[member] for member in self.groups[axis])

    def blocks(self, axis: str) -> int:
        """Steps of the intrinsic along one of its axes."""
        return -(-self.extent(axis) // axis_extents(self.intrinsic)[axis])

    @property
    def mapped(self) -> frozenset[str]:
        """The axes that are inside the intrinsic."""
        return frozenset((*(axis for group in self.groups.values() for axis in group), *self.computation.whole))

    @property
    def terms(self) -> list[str]:
        """The axes of the intrinsic that add terms."""
        return list(self.groups)[2:]

    @property
    def chunks(self) -> str | None:
        """The axis of terms that has several blocks, or the first one; None where there is none.

        MapError where there are two.
        """
        several = [axis for axis in self.terms if self.blocks(axis) > 1]
        if len(several) > 1:
            names = " and ".join(_plain(tuple(several)))
            raise MapError(
                f"all but one of {names} must fit an entry, got {', '.join(map(str, map(self.extent, several)))}"
            )
        return next(iter([*several, *self.terms]), None)

    @property
    def used(self) -> float:
        """The share of the intrinsic's work that is not padding of its axes."""
        extents = axis_extents(self.intrinsic)
        return prod(self.extent(axis) / (self.blocks(axis) * extents[axis]) for axis in self.groups)

    def __str__(self) -> str:
        parts = [f"{_plain((axis,))[0]} <- {' x '.join(_plain(group)) or '1'}" for axis, group in self.groups.items()]
        operands = self.computation.operands
        tensors = {name: access.tensor for name, access in operands.items()}
        tensors |= {name: table.source for name, table in self.computation.tables.items()}
        tensors |= {name: lanes.tensor for name, lanes in self.computation.lanes.items()}
        reads = ", ".join(f"{name} = {tensor.name}" for name, tensor in tensors.items())
        names = " + ".join(step.intrinsic.name for step in self.computation.all_steps)
        pieces = f"; by {_plain((self.chunk,))[0]}" if self.chunk else ""
        return f"{names}: {', '.join(parts)}{pieces} ({reads}; {self.used:.0%} of the lanes used)"


def _plain(axes: tuple[str, ...]) -> list[str]:
    """The axes by the names that the user gave."""
    return [axis.removeprefix("v") for axis in axes]


def signatures(computation: Computation) -> dict[str, Signature]:
    """The operands that each axis indexes."""
    result = {}
    for axis in (*computation.spatial, *computation.reduce):
        reads = {name for name, access in computation.operands.items() if axis in access.axes}
        result[axis] = frozenset(reads | ({RESULT} if axis in computation.spatial else set()))
    return result


def mappings(computation: Computation, core: Core) -> Iterator[Mapping]:
    """All mappings of a computation onto the axes of its last intrinsic."""
    grouped = _lane_groups(computation, core) if computation.held is None else signature_groups(computation, core)
    for groups in grouped:
        yield Mapping(computation, groups)


# --- groups of axes -------------------------------------------------------------------------------


def signature_groups(computation: Computation, core: Core) -> Iterator[Groups]:
    """Groups of axes of equal signature, beside weights."""
    core_signatures = intrinsic_signatures(core)
    extents, groups = axis_extents(core.pattern), signatures(computation)
    choices = [_choices(groups, signature, extents[axis], core.held) for axis, signature in core_signatures.items()]
    for chosen in product(*choices):
        if sum(map(len, chosen)) == len({axis for group in chosen for axis in group}):
            yield dict(zip(core_signatures, chosen, strict=True))


def intrinsic_signatures(core: Core) -> dict[str, Signature]:
    """The operands that each axis of an intrinsic indexes, one after the other or whole."""
    pattern, result = core.pattern, {axis: set[str]() for axis in core.axes}
    tables, spatial = lookup_tables(pattern), {*map(axis_name, stage_of(pattern).axes)}
    for load in (e for e in ir.walk_expr(stage_of(pattern).value.expr) if isinstance(e, ir.Load)):
        for axis in () if load.buffer in tables else entry_axes(pattern, load.buffer) or ():
            if axis in result:
                result[axis].add(load.buffer)
    return {axis: frozenset(names | ({RESULT} if axis in spatial else set())) for axis, names in result.items()}


def _choices(
    choices: MappingOf[str, Signature], wanted: Signature, extent: int, held: str | None
) -> list[tuple[str, ...]]:
    """The groups of axes that may become an intrinsic axis of a signature and an extent."""
    axes = tuple(axis for axis, signature in choices.items() if signature == wanted)
    if RESULT in wanted and held in wanted:
        return [axes]  # all results that share an entry of the streamed operand
    if extent == 1:
        return [()]
    chosen = subsets(axes)
    return chosen if RESULT in wanted else chosen[1:] or [()]


def _lane_groups(computation: Computation, core: Core) -> Iterator[Groups]:
    """Groups of any axes of the result for the rows and the lanes of an entry, and of any axes of
    the reduction for its terms.
    """
    (rows, one), (lanes, _) = list(axis_extents(computation.core).items())[:2]
    axes = [axis for axis, extent in computation.spatial.items() if extent > 1]
    of_terms = list(_term_groups(core.axes[2:], [axis for axis, extent in computation.reduce.items() if extent > 1]))
    for of_lanes in (subsets(axes)[1:] if _reads(core, lanes) else []) or [()]:
        rest = [axis for axis in axes if axis not in of_lanes]
        for of_rows in subsets(rest) if one > 1 and _reads(core, rows) else [()]:
            yield from ({rows: of_rows, lanes: of_lanes, **terms} for terms in of_terms)


def _term_groups(terms: Sequence[str], axes: Sequence[str]) -> Iterator[Groups]:
    """Groups of any axes for each of `terms`, none of them in two; the last may be empty."""
    if not terms:
        yield {}
        return
    for chosen in subsets(axes)[1:] or [()]:
        for others in _term_groups(terms[1:], [axis for axis in axes if axis not in chosen]):
            yield {terms[0]: chosen, **others}


def _reads(core: Core, axis: str) -> bool:
    """Whether the rows or the lanes of results are apart in an operand; weights alone give all rows
    the same.
    """
    loads = (e for e in ir.walk_expr(stage_of(core.pattern).value.expr) if isinstance(e, ir.Load))
    return any(ir.Var(axis) in load.indices for load in loads)


def subsets(axes: Sequence[str]) -> list[tuple[str, ...]]:
    """All choices of axes, the smallest first."""
    return [chosen for size in range(len(axes) + 1) for chosen in combinations(axes, size)]


def require_covered(mapping: Mapping) -> None:
    """MapError unless every axis is inside the intrinsic or can be a loop around it."""
    windows = set(mapping.computation.streamed)
    placed = {e.name for place in mapping.computation.places for e in place.plain.terms if isinstance(e, ir.Var)}
    for axis, signature in signatures(mapping.computation).items():
        if mapping.computation.extents[axis] == 1:
            continue
        outside = axis not in mapping.mapped and not (mapping.fixed and mapping.computation.held in signature)
        if RESULT in signature and not windows & signature and outside:
            names = " or ".join(sorted(windows))
            raise MapError(f"axis {axis} must index {names} or be mapped, got neither")
        if not signature - {RESULT} and axis not in placed:
            raise MapError(f"axis {axis} must index an operand, got an axis that indexes none")


ROW_BLOCKS = "row blocks"
"""Among tiled axes: the blocks of the intrinsic's rows of results."""

_TILED = 2  # rows and columns


@dataclass(frozen=True)
class OuterLoops:
    """The axes outside of the intrinsic.

    Of the loops that only windows have, the last two that iterate are tiled as rows and columns.
    """

    mapping: Mapping

    @cached_property
    def _parts(self) -> dict[str, list[str]]:
        result: dict[str, list[str]] = {"sections": [], "phases": [], "free": [], "taps": []}
        computation = self.mapping.computation
        divided = {
            axis for name in computation.streamed for f in computation.operands[name].forms for axis in f.divided_axes
        }
        for axis, signature in signatures(computation).items():
            if axis in self.mapping.mapped:
                continue
            if RESULT not in signature:
                result["taps"].append(axis)
            elif computation.held not in signature:
                result["free"].append(axis)
            else:
                alone = signature == {RESULT, computation.held}
                result["phases" if alone or axis in divided else "sections"].append(axis)
        return result

    @property
    def sections(self) -> list[str]:
        """Axes in every operand: problems one after the other."""
        return self._parts["sections"]

    @property
    def phases(self) -> list[str]:
        """Axes of weights that are divided where they move a window, or move none: results of one
        position.
        """
        return self._parts["phases"]

    @property
    def taps(self) -> list[str]:
        """Axes of the reduction."""
        return self._parts["taps"]

    @cached_property
    def tiled(self) -> list[str | None]:
        """The axes of rows and of columns, ROW_BLOCKS among them, or None."""
        free, extents = self._parts["free"], self.mapping.computation.extents
        rows = next(iter(self.mapping.groups))
        tiled = not free if self.mapping.fixed else self.mapping.blocks(rows) > 1
        blocks = [ROW_BLOCKS] if tiled else []
        several = blocks + [axis for axis in free if extents[axis] > 1]
        axes = several[-_TILED:] if ROW_BLOCKS in several[-_TILED:] else free[-_TILED:]
        return [None] * (_TILED - len(axes)) + axes

    @property
    def rows_are_tiled(self) -> bool:
        """Whether blocks of rows of results are tiled."""
        return ROW_BLOCKS in self.tiled

    @property
    def batches(self) -> list[str]:
        """Axes of the result that are not tiled."""
        return [axis for axis in self._parts["free"] if axis not in self.tiled]

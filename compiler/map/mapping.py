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
from vdla.compiler.map.computation import Computation, contractions
from vdla.compiler.map.cores import Core
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.te import Stage
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
    the weights and the result alone may stay outside, as results of one position.
    """

    computation: Computation
    groups: Groups
    chunk: str | None = None
    fixed: bool = False

    @property
    def intrinsic(self) -> Intrinsic:
        """The intrinsic of the last step."""
        return self.computation.core

    def extent(self, axis: str) -> int:
        """Elements of the fused axes behind an axis of the intrinsic."""
        return prod(self.computation.extents[member] for member in self.groups[axis])

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
        operands = self.computation.operands
        tensors = {name: access.tensor for name, access in operands.items()}
        tensors |= {name: table.source for name, table in self.computation.tables.items()}
        reads = ", ".join(f"{name} = {tensor.name}" for name, tensor in tensors.items())
        names = " + ".join(step.intrinsic.name for step in self.computation.steps)
        pieces = f"; by {_plain((self.chunk,))[0]}" if self.chunk else ""
        return f"{names}: {', '.join(parts)}{pieces} ({reads}; {self.used:.0%} of the lanes used)"


def _plain(axes: tuple[str, ...]) -> list[str]:
    """The axes by the names that the user gave."""
    return [axis.removeprefix("v") for axis in axes]


def intrinsic_extents(intrinsic: Intrinsic) -> dict[str, int]:
    """The extents of the axes of an intrinsic, spatial ones first."""
    stage = _stage(intrinsic)
    result = dict(zip(map(axis_name, stage.axes), stage.shape, strict=True))
    if stage.reduction is not None:
        result |= {axis_name(axis.name): axis.extent for axis in stage.reduction.axes}
    return result


def _stage(intrinsic: Intrinsic) -> Stage:
    stage = intrinsic.output.stage
    assert isinstance(stage, Stage)
    return stage


def signatures(computation: Computation) -> dict[str, Signature]:
    """The operands that each axis indexes."""
    result = {}
    for axis in computation.extents:
        reads = {name for name, access in computation.operands.items() if axis in access.axes}
        result[axis] = frozenset(reads | ({RESULT} if axis in computation.spatial else set()))
    return result


def mappings(computation: Computation, core: Core) -> Iterator[Mapping]:
    """All mappings of a computation onto the axes of its last intrinsic."""
    grouped = _lane_groups(computation, core) if core.held is None else signature_groups(computation, core)
    for groups in grouped:
        yield Mapping(computation, groups)


# --- groups of axes -------------------------------------------------------------------------------


def signature_groups(computation: Computation, core: Core) -> Iterator[Groups]:
    """Groups of axes of equal signature, beside weights."""
    core_signatures = intrinsic_signatures(core)
    extents, groups = intrinsic_extents(core.pattern), signatures(computation)
    choices = [_choices(groups, signature, extents[axis], core.held) for axis, signature in core_signatures.items()]
    for chosen in product(*choices):
        yield dict(zip(core_signatures, chosen, strict=True))


def intrinsic_signatures(core: Core) -> dict[str, Signature]:
    """The operands that each axis of an accumulating intrinsic indexes."""
    itself = next(contractions(core.pattern.output, Core(core.pattern, core.pattern)))
    return {axis: signatures(itself)[axis] for axis in core.axes}


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
    (rows, one), (lanes, _) = list(intrinsic_extents(computation.core).items())[:2]
    axes = [axis for axis, extent in computation.spatial.items() if extent > 1]
    reduced = subsets([axis for axis, extent in computation.reduce.items() if extent > 1])
    of_terms = [dict.fromkeys(core.axes[2:], chosen) for chosen in (reduced[1:] or [()])] if core.axes[2:] else [{}]
    for of_lanes in subsets(axes)[1:] or [()]:
        rest = [axis for axis in axes if axis not in of_lanes]
        for of_rows in subsets(rest) if one > 1 and _reads_rows(core, rows) else [()]:
            yield from ({rows: of_rows, lanes: of_lanes, **terms} for terms in of_terms)


def _reads_rows(core: Core, rows: str) -> bool:
    """Whether the rows of an entry are apart in an operand; weights alone give all the same."""
    loads = (e for e in ir.walk_expr(_stage(core.pattern).value.expr) if isinstance(e, ir.Load))
    return any(ir.Var(rows) in load.indices for load in loads)


def subsets(axes: Sequence[str]) -> list[tuple[str, ...]]:
    """All choices of axes, the smallest first."""
    return [chosen for size in range(len(axes) + 1) for chosen in combinations(axes, size)]


def require_covered(mapping: Mapping) -> None:
    """MapError unless every axis is inside the intrinsic or can be a loop around it."""
    windows = set(mapping.computation.streamed)
    for axis, signature in signatures(mapping.computation).items():
        if mapping.computation.extents[axis] == 1:
            continue
        outside = axis not in mapping.mapped and not (mapping.fixed and mapping.computation.held in signature)
        if RESULT in signature and not windows & signature and outside:
            names = " or ".join(sorted(windows))
            raise MapError(f"axis {axis} must index {names} or be mapped, got neither")
        if not signature - {RESULT}:
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

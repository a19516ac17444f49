"""The packed form of an operand: blocks, loops around them and windows, then the lanes of an entry.

A dimension of a plain tensor is *kept* (a window moves over it), *clean* (one mapped axis, split
into blocks and lanes) or *patched* (mapped axes among others: laid out for every index, as by
im2col).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import gcd, prod
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.arith import conjuncts
from vdla.compiler.map.contraction import Access, IndexForm
from vdla.compiler.map.mapping import Mapping, intrinsic_extents
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name

Index = Any  # an int, or an element of a tensor expression


@dataclass(frozen=True, slots=True)
class BlockDim:
    """Blocks of an axis of the intrinsic."""

    axis: str


@dataclass(frozen=True, slots=True)
class LoopDim:
    """An axis of the contraction outside of the intrinsic."""

    axis: str


@dataclass(frozen=True, slots=True)
class WindowDim:
    """A dimension of the plain tensor over which a window moves, `step` elements apart."""

    dimension: int
    form: IndexForm
    step: int

    @property
    def strides(self) -> dict[str, int]:
        """Elements of the window that each axis moves by."""
        return {axis: factor // self.step for axis, factor in self.form.terms.items()}

    def extent(self, extents: dict[str, int]) -> int:
        """Elements that axes of these extents reach."""
        return 1 + sum(stride * (extents[axis] - 1) for axis, stride in self.strides.items())


Dimension = BlockDim | LoopDim | WindowDim


@dataclass(frozen=True)
class PackedOperand:
    """The packed form of one operand of a mapping; `entry` has the intrinsic's axes of an entry."""

    mapping: Mapping
    access: Access
    entry: tuple[str, ...]
    dimensions: tuple[Dimension, ...]

    @property
    def source(self) -> te.Tensor:
        """The plain tensor, without its padding."""
        return self.access.tensor if self.access.padding is None else self.access.padding.source

    @property
    def patched(self) -> bool:
        """Whether elements are laid out several times."""
        inside = {axis for axis in self.loops if isinstance(axis, str)}
        moved = [form for form in self.access.forms if len(form.terms) > 1]
        return any(set(form.terms) & (inside | self.mapping.mapped) for form in moved)

    @property
    def loops(self) -> tuple[str, ...]:
        """The axes that have a dimension of their own."""
        return tuple(dimension.axis for dimension in self.dimensions if isinstance(dimension, LoopDim))

    @property
    def windows(self) -> tuple[WindowDim, ...]:
        """The kept dimensions."""
        return tuple(dimension for dimension in self.dimensions if isinstance(dimension, WindowDim))

    @property
    def lanes(self) -> tuple[int, ...]:
        """Extents of an entry."""
        extents = intrinsic_extents(self.mapping.intrinsic)
        return tuple(extents[axis] for axis in self.entry)

    def shape(self, of_window: Callable[[WindowDim], int]) -> tuple[int, ...]:
        """The extents, those of windows by a function."""
        extents = self.mapping.contraction.extents
        outer = []
        for dimension in self.dimensions:
            match dimension:
                case BlockDim(axis):
                    outer.append(self.mapping.blocks(axis))
                case LoopDim(axis):
                    outer.append(extents[axis])
                case WindowDim():
                    outer.append(of_window(dimension))
        return (*outer, *self.lanes)

    def packed(self, name: str) -> te.Tensor:
        """The packed tensor as a computation over the plain one."""
        shape = self.shape(lambda window: self.source.shape[window.dimension])
        return te.compute(shape, lambda *at: self._element(at), name)

    def _element(self, at: tuple[te.Value, ...]) -> te.Value:
        outer, lanes = at[: len(self.dimensions)], at[len(self.dimensions) :]
        values, valid = axis_values(self.mapping, self._blocks(outer), dict(zip(self.entry, lanes, strict=True)))
        values |= {d.axis: at for d, at in zip(self.dimensions, outer, strict=True) if isinstance(d, LoopDim)}
        kept = {d.dimension: at for d, at in zip(self.dimensions, outer, strict=True) if isinstance(d, WindowDim)}
        indices = []
        before = self.access.padding.before if self.access.padding else (0,) * len(self.access.forms)
        padded: dict[str, te.Value] = {}
        for dimension, form in enumerate(self.access.forms):
            if dimension in kept:
                indices.append(kept[dimension])
                continue
            place = value_of(form, values)
            padded[f"p{dimension}"] = place
            indices.append(place - before[dimension] if before[dimension] else place)
        fill = self.access.padding.fill if self.access.padding else 0
        inside = [*valid, *(condition_of(part, padded) for part in self._host_conditions())]
        element = self.source[tuple(indices)]
        return te.select(te.all_of(*inside), element, te.const(fill, element.dtype)) if inside else element

    def _blocks(self, outer: tuple[te.Value, ...]) -> dict[str, te.Value]:
        return {d.axis: at for d, at in zip(self.dimensions, outer, strict=True) if isinstance(d, BlockDim)}

    def _host_conditions(self) -> list[ir.Expr]:
        return [part for part in self._conditions() if not self._on_chip(part)]

    def chip_conditions(self) -> list[ir.Expr]:
        """The conditions of the padding that windows check, over p0, p1, ..."""
        return [part for part in self._conditions() if self._on_chip(part)]

    def _conditions(self) -> list[ir.Expr]:
        return list(conjuncts(self.access.padding.inside)) if self.access.padding else []

    def _on_chip(self, condition: ir.Expr) -> bool:
        kept = {f"p{window.dimension}" for window in self.windows}
        names = {e.name for e in ir.walk_expr(condition) if isinstance(e, ir.Var)}
        return names <= kept


def pack_operand(mapping: Mapping, name: str) -> PackedOperand:
    """The packed form of the operand `name` of the intrinsic."""
    access, streamed = mapping.contraction.operands[name], name == mapping.streamed
    entry = _entry_axes(mapping, name)
    loops: list[str] = []
    windows: list[WindowDim] = []
    for dimension, form in enumerate(access.forms):
        free = [axis for axis in form.terms if axis not in mapping.mapped]
        if len(free) < len(form.terms):
            loops += free
        elif streamed and _moves(mapping, form):
            windows.append(WindowDim(dimension, form, 0))
        else:
            loops += free
    stepped = tuple(_with_step(window, window is windows[-1]) for window in windows)
    order = {axis: place for place, axis in enumerate(mapping.contraction.extents)}
    unique = sorted(dict.fromkeys(loops), key=lambda axis: (not _is_section(mapping, axis), order[axis]))
    sections = [axis for axis in unique if _is_section(mapping, axis)]
    others = [axis for axis in unique if axis not in sections]
    dimensions: list[Dimension] = [*map(LoopDim, sections), *map(BlockDim, entry), *map(LoopDim, others), *stepped]
    return PackedOperand(mapping, access, entry, tuple(dimensions))


def _is_section(mapping: Mapping, axis: str) -> bool:
    """Whether an axis indexes every operand and the result."""
    reads = all(axis in access.axes for access in mapping.contraction.operands.values())
    return reads and axis in mapping.contraction.spatial


def _moves(mapping: Mapping, form: IndexForm) -> bool:
    """Whether a window moves over a dimension by at most one axis of the result."""
    moving = [axis for axis in form.terms if axis in mapping.contraction.spatial]
    sections = [axis for axis in moving if _is_section(mapping, axis)]
    return bool(form.terms) and len(moving) <= 1 and not sections and all(f > 0 for f in form.terms.values())


def _with_step(window: WindowDim, innermost: bool) -> WindowDim:
    """Only every `step`-th element is loaded, except of contiguous ones."""
    step = 1 if innermost else reduce(gcd, window.form.terms.values())
    return WindowDim(window.dimension, window.form, step)


def _entry_axes(mapping: Mapping, name: str) -> tuple[str, ...]:
    stage = mapping.intrinsic.output.stage
    assert isinstance(stage, Stage)
    load = next(e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load) and e.buffer == name)
    return tuple(index.name for index in load.indices if isinstance(index, ir.Var))


# --- indices --------------------------------------------------------------------------------------


def axis_values(
    mapping: Mapping, blocks: dict[str, te.Value], lanes: dict[str, te.Value]
) -> tuple[dict[str, te.Value], list[te.Value]]:
    """The value of every mapped axis, and the conditions under which it is within its extent."""
    extents, intrinsic = mapping.contraction.extents, intrinsic_extents(mapping.intrinsic)
    values: dict[str, te.Value] = {}
    valid: list[te.Value] = []
    for axis, block in blocks.items():
        group = mapping.groups[axis]
        fused = block * intrinsic[axis] + lanes[axis]
        if mapping.extent(axis) < mapping.blocks(axis) * intrinsic[axis]:
            valid.append(fused < mapping.extent(axis))
        for place, member in enumerate(group):
            below = prod(extents[later] for later in group[place + 1 :])
            value = fused // below if below > 1 else fused
            values[member] = value % extents[member] if place else value
    return values, valid


def value_of(form: IndexForm, values: dict[str, Index]) -> te.Value:
    """An index with the axes replaced by values."""
    total: Index = te.const(form.const, "int32")
    for axis, factor in form.terms.items():
        total = values[axis] * factor + total
    return te.const(total, "int32") if isinstance(total, int) else total


def condition_of(condition: ir.Expr, values: dict[str, te.Value]) -> te.Value:
    """A condition over p0, p1, ... at values of these."""
    parts = tuple(values.values())
    expr = ir.substitute(condition, {name: value.expr for name, value in values.items()})
    return te.Value(expr, "bool", axes=te.expr.merge_unique(*(part.axes for part in parts)))


__all__ = ["BlockDim", "LoopDim", "PackedOperand", "WindowDim", "axis_name", "axis_values", "pack_operand", "value_of"]

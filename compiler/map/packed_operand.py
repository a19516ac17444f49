# SPDX-License-Identifier: Apache-2.0
"""The packed form of an operand: blocks, loops around them and windows, then the lanes of an entry.

A dimension of a plain tensor is *kept* (a window moves over it), *clean* (one mapped axis, split
into blocks and lanes) or *patched* (mapped axes among others: laid out for every index, as by
im2col).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd, prod
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.arith import conjuncts
from vdla.compiler.map.access import (
    Access,
    BlockDim,
    Dimension,
    IndexForm,
    LoopDim,
    VectorDim,
    WindowDim,
    form_values,
    place_name,
)
from vdla.compiler.map.entries import axis_extents, entry_axes, entry_extents
from vdla.compiler.map.mapping import ROW_BLOCKS, Mapping, OuterLoops
from vdla.compiler.map.padding import repeats_last, term_fills

Index = Any  # an int, or an element of a tensor expression


@dataclass(frozen=True)
class PackedOperand:
    """The packed form of one operand of a mapping; `entry` has the intrinsic's axes of an entry.
    Terms beyond the last one read `fill`, unless any element will do.
    """

    mapping: Mapping
    access: Access
    entry: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    fill: int | None = None

    @property
    def source(self) -> te.Tensor:
        """The plain tensor, without its padding."""
        return self.access.source

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
        extents = entry_extents(self.mapping.intrinsic)
        vectors = [dimension.count for dimension in self.dimensions if isinstance(dimension, VectorDim)]
        return (*vectors, *(extents[axis] for axis in self.entry))

    def shape(self, of_window: Callable[[WindowDim], int]) -> tuple[int, ...]:
        """The extents, those of windows by a function."""
        extents = self.mapping.computation.extents
        outer = []
        for dimension in self.dimensions:
            match dimension:
                case BlockDim(axis):
                    outer.append(self.mapping.blocks(axis))
                case LoopDim(axis):
                    outer.append(extents[axis])
                case VectorDim(axes, count):
                    outer.append(-(-prod(extents[axis] for axis in axes) // count))
                case WindowDim():
                    outer.append(of_window(dimension))
        return (*outer, *self.lanes)

    def packed(self, name: str) -> te.Tensor:
        """The packed tensor as a computation over the plain one."""
        shape = self.shape(lambda window: self.source.shape[window.dimension])
        return te.compute(shape, lambda *at: self._element(at), name)

    def _element(self, at: tuple[te.Value, ...]) -> te.Value:
        values, valid = self._axis_values(at)
        kept = {d.dimension: at for d, at in zip(self.dimensions, at, strict=False) if isinstance(d, WindowDim)}
        gather = self.access.gather
        if gather is None:
            indices = [kept[d] if d in kept else value_of(form, values) for d, form in enumerate(self.access.forms)]
            return _guarded(self.source[tuple(indices)], valid, self.fill or 0)
        windows = {window.place for window in self.windows}
        places = {place_name(d): value_of(form, values) for d, form in enumerate(self.access.forms) if d not in windows}
        indices = [kept[d] if d in kept else at_places(index, places) for d, index in enumerate(gather.indices)]
        inside = [at_places(part, places, "bool") for part in self._conditions() if not self._on_chip(part)]
        if self.fill in (None, gather.fill):
            return _guarded(self.source[tuple(indices)], [*valid, *inside], gather.fill if inside else self.fill or 0)
        return _guarded(_guarded(self.source[tuple(indices)], inside, gather.fill), valid, self.fill or 0)

    def _axis_values(self, at: tuple[te.Value, ...]) -> tuple[dict[str, te.Value], list[te.Value]]:
        """The value of every axis at a packed index, and the conditions under which it exists."""
        outer, lanes = at[: len(self.dimensions)], at[len(self.dimensions) :]
        placed = list(zip(self.dimensions, outer, strict=True))
        blocks = {d.axis: at for d, at in placed if isinstance(d, BlockDim)}
        entry = dict(zip(self.entry, lanes[len(lanes) - len(self.entry) :], strict=True))
        blocks |= {axis: te.const(0, "int32") for axis in entry if axis in self.mapping.terms and axis not in blocks}
        values, valid = axis_values(self.mapping, blocks, entry)
        values |= {axis: lane for axis, lane in entry.items() if axis in self.mapping.computation.whole}
        values |= {d.axis: at for d, at in placed if isinstance(d, LoopDim)}
        for dimension, block in placed:
            if isinstance(dimension, VectorDim):
                fused, extents = block * dimension.count + lanes[0], self.mapping.computation.extents
                sizes = {axis: extents[axis] for axis in dimension.axes}
                values |= _digits(fused, sizes)
                valid += [fused < prod(sizes.values())] if prod(sizes.values()) % dimension.count else []
        return values, valid

    def chip_conditions(self) -> list[ir.Expr]:
        """The conditions of the padding that windows check, over p0, p1, ..."""
        return [part for part in self._conditions() if self._on_chip(part)]

    def _conditions(self) -> list[ir.Expr]:
        return list(conjuncts(self.access.gather.inside)) if self.access.gather else []

    def _on_chip(self, condition: ir.Expr) -> bool:
        kept = {place_name(window.place) for window in self.windows}
        names = {e.name for e in ir.walk_expr(condition) if isinstance(e, ir.Var)}
        return names <= kept


def _guarded(element: te.Value, conditions: list[te.Value], fill: int) -> te.Value:
    return te.select(te.all_of(*conditions), element, te.const(fill, element.dtype)) if conditions else element


# --- making one -----------------------------------------------------------------------------------


def pack_operand(mapping: Mapping, name: str, vectors: int | None = None) -> PackedOperand:
    """The packed form of an operand of the computation; with `vectors`, that many vectors share an
    entry of the buffer.
    """
    computation, outer = mapping.computation, OuterLoops(mapping)
    access, streamed = computation.operands[name], name != computation.held
    loops: list[str] = []
    windows: list[WindowDim] = []
    for place, form in enumerate(access.forms):
        free = [axis for axis in form.terms if axis not in mapping.mapped]
        free += sorted(form.divided_axes - mapping.mapped - set(free))
        shift = access.shift(place)
        if streamed and shift is not None and _moves(outer, form):
            windows.append(WindowDim(shift[0], place, shift[1], form, 1, _offsets(mapping, form)))
        else:
            loops += free
    stepped = tuple(_with_step(window, window is windows[-1], computation.extents) for window in windows)
    order = {axis: place for place, axis in enumerate(computation.extents)}
    unique = sorted(dict.fromkeys(loops), key=order.__getitem__)
    sections = [axis for axis in unique if axis in outer.sections]
    others = [axis for axis in unique if axis not in sections]
    entry = _entry_axes(mapping, name)
    last = [axis for axis in entry[:1] if streamed and outer.rows_are_tiled]
    single = [*last, *(axis for axis in mapping.terms if axis != mapping.chunks), *computation.whole]
    blocks = [BlockDim(axis) for axis in entry if axis not in single]
    first = _in_plain_order(mapping, access, [*map(LoopDim, sections), *blocks])
    inner: list[Dimension] = [VectorDim(tuple(others), vectors)] if vectors else [*map(LoopDim, others)]
    moved = _placed(outer, stepped, [*map(BlockDim, last)])
    if mapping.terms_first and not vectors and len(entry) > 1:
        terms = sorted(blocks, key=lambda block: block.axis not in mapping.terms)
        return PackedOperand(mapping, access, entry, (*moved, *inner, *terms), term_fills(mapping).get(name))
    return PackedOperand(mapping, access, entry, (*first, *inner, *moved), term_fills(mapping).get(name))


def _in_plain_order(mapping: Mapping, access: Access, dimensions: list[LoopDim | BlockDim]) -> list[LoopDim | BlockDim]:
    """The sections and blocks of an operand; where places are fixed, in the order of the plain
    dimensions.
    """

    def place(dimension: LoopDim | BlockDim) -> int:
        axes = {dimension.axis} if isinstance(dimension, LoopDim) else {*mapping.groups[dimension.axis]}
        return next((d for d, form in enumerate(access.forms) if form.axes & axes), 0)

    return sorted(dimensions, key=place) if mapping.fixed else dimensions


def _placed(outer: OuterLoops, windows: tuple[WindowDim, ...], rows: list[BlockDim]) -> list[Dimension]:
    """The windows with the blocks of rows, where these are tiled, at their place among the tiled
    axes.
    """
    if not rows:
        return [*windows]
    before = outer.tiled[: outer.tiled.index(ROW_BLOCKS)]
    first = [window for window in windows if set(window.form.terms) & set(before)]
    return [*first, *rows, *(window for window in windows if window not in first)]


def _moves(loops: OuterLoops, form: IndexForm) -> bool:
    """Whether a window moves over a dimension by at most one axis of the result."""
    spatial = loops.mapping.computation.spatial
    moving = [axis for axis in form.axes if axis in spatial and axis not in loops.phases]
    if form.axes & loops.mapping.mapped or set(moving) & set(loops.sections) or form.divided_axes & set(moving):
        return False
    return bool(form.terms) and len(moving) <= 1 and min(form.terms.values()) > 0


def _offsets(mapping: Mapping, form: IndexForm) -> tuple[int, int]:
    """The least and the largest value of the divided part of a form."""
    if form.divided is None:
        return 0, 0
    extents = mapping.computation.extents
    values = form_values(IndexForm({}, 0, form.divided), {axis: extents[axis] for axis in sorted(form.divided_axes)})
    return int(values.min()), int(values.max())


def _with_step(window: WindowDim, innermost: bool, extents: MappingOf[str, int]) -> WindowDim:
    """Only every `step`-th element is loaded, except of contiguous ones."""
    moving = [factor for axis, factor in window.form.terms.items() if extents[axis] > 1]
    step = 1 if innermost or window.form.divided or not moving else reduce(gcd, moving)
    return replace(window, step=step)


def _entry_axes(mapping: Mapping, name: str) -> tuple[str, ...]:
    """The axes of the intrinsic that index an entry of an operand."""
    known = entry_axes(mapping.intrinsic, name)
    return tuple(axis_extents(mapping.intrinsic))[:2] if known is None else known  # element-wise: lanes of results


# --- indices --------------------------------------------------------------------------------------


def axis_values(
    mapping: Mapping, blocks: dict[str, te.Value], lanes: dict[str, te.Value]
) -> tuple[dict[str, te.Value], list[te.Value]]:
    """The value of every mapped axis, and the conditions under which it is within its extent."""
    extents, intrinsic = mapping.computation.extents, axis_extents(mapping.intrinsic)
    values: dict[str, te.Value] = {}
    valid: list[te.Value] = []
    for axis, block in blocks.items():
        fused = block * intrinsic[axis] + lanes[axis]
        if mapping.extent(axis) < mapping.blocks(axis) * intrinsic[axis]:
            if axis in mapping.terms and repeats_last(mapping):
                fused = te.minimum(fused, mapping.extent(axis) - 1)
            else:
                valid.append(fused < mapping.extent(axis))
        values |= _digits(fused, {member: extents[member] for member in mapping.groups[axis]})
    return values, valid


def _digits(fused: te.Value, extents: MappingOf[str, int]) -> dict[str, te.Value]:
    """The value of each fused axis, the last of which varies fastest."""
    result: dict[str, te.Value] = {}
    members = list(extents)
    for place, member in enumerate(members):
        below = prod(extents[later] for later in members[place + 1 :])
        value = fused // below if below > 1 else fused
        result[member] = value % extents[member] if place else value
    return result


def value_of(form: IndexForm, values: MappingOf[str, Index]) -> te.Value:
    """An index with the axes replaced by values."""
    total: Index = te.const(form.const, "int32")
    for axis, factor in form.terms.items():
        total = values[axis] * factor + total
    if form.divided is not None:
        total = total + at_places(form.divided, {axis: values[axis] for axis in sorted(form.divided_axes)})
    return te.const(total, "int32") if isinstance(total, int) else total


def at_places(expr: ir.Expr, values: MappingOf[str, Any], dtype: str = "int32") -> te.Value:
    """An expression over the names of `values` at these."""
    parts = {name: te.as_value(value, name) for name, value in values.items()}
    replaced = ir.substitute(expr, {name: value.expr for name, value in parts.items()})
    return te.Value(replaced, dtype, axes=te.expr.merge_unique(*(part.axes for part in parts.values())))

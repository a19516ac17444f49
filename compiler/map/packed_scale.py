# SPDX-License-Identifier: Apache-2.0
"""The packed scale of a requantisation: lanes of results in blocks, and classes of positions.

A dimension of the plain scale that lanes index is packed with them; any other, as the borders of an
average or the phases of a transposed convolution, is kept.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import simplify, var_names
from vdla.compiler.map.access import IndexForm, form_values
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_operand import at_places, axis_values
from vdla.compiler.operators.vdla.roles import SCALE
from vdla.compiler.te.expr import axis_name


@dataclass(frozen=True)
class PackedScale:
    """The scale of a form whose results are requantised."""

    form: PackedForm

    @property
    def plain(self) -> te.Tensor:
        """The plain scale."""
        return self.form.scale

    @cached_property
    def _index(self) -> list[ir.Expr]:
        """The index of each plain dimension, over the axes of the computation."""
        form, stage = self.form, self.form.epilogue
        loads = {e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load)}
        axis_vars = tuple(ir.Var(axis_name(axis)) for axis in stage.axes)
        for load in loads:
            if load.buffer == form.computation.result.name and load.indices != axis_vars:
                rule = f"{stage.name} must read {load.buffer} at its own index"
                raise MapError(f"{rule}, got {ir.expr_text(load)}")
        mine = [load for load in loads if load.buffer == self.plain.name]
        if len(mine) != 1:
            got = ", ".join(sorted(map(ir.expr_text, mine)))
            raise MapError(f"{self.plain.name} must be read at one index, got {got}")
        places = {axis_name(axis): whole for axis, whole in zip(stage.axes, whole_axes(form), strict=True)}
        ranges = {axis: (0, extent - 1) for axis, extent in form.computation.extents.items()}
        return [simplify(ir.substitute(index, places), ranges) for index in mine[0].indices]

    @cached_property
    def kept(self) -> list[int]:
        """The plain dimensions that at most positions outside of the intrinsic index.

        Raises:
            MapError: lanes and positions index one dimension together.
        """
        lanes = {*self.form.loops.sections, *self.form.mapping.groups[self.form.axes[1]]}
        result = []
        for dimension, index in enumerate(self._index):
            axes = var_names(index)
            if axes and axes <= lanes:
                continue
            if axes & (lanes | self.form.mapping.mapped):
                got = f"{self.plain.name}[{', '.join(map(ir.expr_text, self._index))}]"
                raise MapError(f"{self.plain.name} must have one element for each lane of results, got {got}")
            result.append(dimension)
        return result

    @property
    def classes(self) -> int:
        """Elements for one lane."""
        return prod(self.plain.shape[dimension] for dimension in self.kept)

    def breaks(self, axis: str | None) -> set[int]:
        """The places along an axis of the result from which on the elements of a lane follow one
        another in another step.
        """
        result: set[int] = set()
        for dimension in self.kept:
            index = IndexForm({}, 0, self._index[dimension])
            if axis in index.axes:
                extents = {other: self.form.computation.extents[other] if other == axis else 1 for other in index.axes}
                result |= _breaks(np.diff(form_values(index, extents).reshape(-1)))
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        """Sections, blocks of lanes, classes of positions, lanes."""
        form = self.form
        sections = [form.computation.extents[axis] for axis in form.loops.sections]
        kept = [self.plain.shape[dimension] for dimension in self.kept]
        return (*sections, form.mapping.blocks(form.axes[1]), *kept, form.entry_extent(form.axes[1]))

    def placeholder(self) -> te.Tensor:
        """The program's tensor."""
        return te.placeholder(self.shape, self.plain.dtype, SCALE)

    def indices(self, named: MappingOf[str, Any]) -> tuple[Any, ...]:
        """Its index for a packed result, by the names of the packed axes."""
        form = self.form
        places = {axis: named[form.name(axis)] for axis in form.computation.spatial if form.name(axis) in named}
        kept = [self._at(dimension, places) for dimension in self.kept]
        return (*(places[axis] for axis in form.loops.sections), named["co"], *kept, named["o"])

    def packed(self) -> te.Tensor:
        """The program's tensor as a computation over the plain one."""
        form = self.form
        first, lanes = len(form.loops.sections), form.axes[1]

        def value(*at: te.Value) -> te.Value:
            values, valid = axis_values(form.mapping, {lanes: at[first]}, {lanes: at[-1]})
            values |= dict(zip(form.loops.sections, at, strict=False))
            kept = dict(zip(self.kept, at[first + 1 :], strict=False))
            index = [kept[d] if d in kept else self._at(d, values) for d in range(len(self._index))]
            element = self.plain[tuple(index)]
            return te.select(te.all_of(*valid), element, te.const(0, element.dtype)) if valid else element

        scale: te.Tensor = te.compute(self.shape, value, f"{self.plain.name}_packed")
        return scale

    def _at(self, dimension: int, values: MappingOf[str, Any]) -> te.Value:
        index = self._index[dimension]
        return at_places(index, {axis: values[axis] for axis in sorted(var_names(index))})


def _breaks(steps: npt.NDArray[np.int64]) -> set[int]:
    """Where runs of equal steps end, the longest one first."""
    result: set[int] = set()
    first = 0
    while (changes := np.flatnonzero(steps[first:] != steps[first : first + 1])).size:
        first += int(changes[0]) + 1
        result.add(first)
    return result


def whole_axes(form: PackedForm) -> list[ir.Expr]:
    """The index of each dimension of the result, over the axes of the computation."""
    digits_of = form.computation.digits
    return [IndexForm(dict(zip(digits, radices(form, digits), strict=True))).expr() for digits in digits_of]


def radices(form: PackedForm, digits: tuple[str, ...]) -> list[int]:
    """What an index rises by with each of its digits."""
    extents = form.computation.extents
    return [prod(extents[later] for later in digits[place + 1 :]) for place in range(len(digits))]

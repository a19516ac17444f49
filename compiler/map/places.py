# SPDX-License-Identifier: Apache-2.0
"""Immediates that follow loops: what a mapping makes of the places of its computation.

A place is a part of a value that is no data but a sum of axes, such as the number of a term. An
immediate in it makes up the difference between the axes of a step and those of the plain
expression. Without one, both must be the same in every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.map.computation import AxisPlace
from vdla.compiler.map.entries import axis_extents, entry_axes
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.mapping import Mapping as AxisMapping
from vdla.compiler.tensorize import Intrinsic


@dataclass(frozen=True, slots=True)
class MovingValue:
    """The value of an immediate: coefficient * axis over axes outside of the intrinsic, and
    coefficient * block over the blocks of its axes.
    """

    axes: Mapping[str, int]
    blocks: Mapping[str, int]
    const: int

    def limits(self, mapping: AxisMapping) -> tuple[int, int]:
        """The least and the greatest value."""
        extents = mapping.computation.extents
        ends = [factor * (extents[axis] - 1) for axis, factor in self.axes.items()]
        ends += [factor * (mapping.blocks(axis) - 1) for axis, factor in self.blocks.items()]
        return self.const + sum(min(0, end) for end in ends), self.const + sum(max(0, end) for end in ends)


def moving_values(mapping: AxisMapping) -> dict[str, MovingValue]:
    """The immediates that follow loops.

    Raises:
        MapError: a place of the plain expression is another one in some step.
    """
    result: dict[str, MovingValue] = {}
    for place in mapping.computation.places:
        value = _difference(mapping, place)
        if place.immediate is None:
            if value != MovingValue({}, {}, 0) or _has_more(mapping, place):
                got = ir.expr_text(place.plain.expr())
                raise MapError(f"{ir.expr_text(place.pattern.expr())} must be the same in every step, got {got}")
            continue
        name = place.immediate
        if result.setdefault(name, value) != value:
            raise MapError(f"{name} must have one value in a step, got two")
        low, high = mapping.intrinsic.ranges.get(name, value.limits(mapping))
        least, most = value.limits(mapping)
        if least < low or most > high:
            raise MapError(f"{name} must be from {low} to {high}, got {least} to {most}")
    return result


def _has_more(mapping: AxisMapping, place: AxisPlace) -> bool:
    """Whether a step has more places than the plain expression, which no operand can take away."""
    sizes, indexed = axis_extents(mapping.intrinsic), _indexed_axes(mapping.intrinsic)
    axes = [axis for axis in _factors(place.pattern.terms) if axis not in indexed]
    return any(mapping.extent(axis) != sizes[axis] for axis in axes if axis in mapping.groups)


def _indexed_axes(intrinsic: Intrinsic) -> set[str]:
    """The axes that are a dimension of an operand."""
    return {axis for operand in intrinsic.scopes for axis in entry_axes(intrinsic, operand) or ()}


def _difference(mapping: AxisMapping, place: AxisPlace) -> MovingValue:
    """What a plain place has beyond that of an entry."""
    plain, pattern = _factors(place.plain.terms), _factors(place.pattern.terms)
    extents, sizes = mapping.computation.extents, axis_extents(mapping.intrinsic)
    blocks: dict[str, int] = {}
    for axis, members in mapping.groups.items():
        factor = pattern.get(axis, 0)
        for number, member in enumerate(members):
            wanted = factor * prod(extents[later] for later in members[number + 1 :])
            if plain.pop(member, 0) != wanted and extents[member] > 1:
                text = f"{ir.expr_text(place.pattern.expr())} to be {ir.expr_text(place.plain.expr())}"
                raise MapError(f"{' x '.join(members)} must rise by {factor} with {axis} for {text}, got another order")
        if factor and mapping.blocks(axis) > 1:
            blocks[axis] = factor * sizes[axis]
    sign = place.sign
    return MovingValue(
        {axis: sign * factor for axis, factor in plain.items() if extents[axis] > 1},
        {axis: sign * factor for axis, factor in blocks.items()},
        sign * (place.plain.const - place.pattern.const),
    )


def _factors(terms: Mapping[ir.Expr, int]) -> dict[str, int]:
    return {term.name: factor for term, factor in terms.items() if isinstance(term, ir.Var)}

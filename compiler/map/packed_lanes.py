# SPDX-License-Identifier: Apache-2.0
"""The packed form of an operand that depends on the lane of a result alone, such as a slope for
each channel: an entry for each block of lanes, all of which are loaded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.arith import simplify, var_names
from vdla.compiler.map.computation import LaneRead
from vdla.compiler.map.entries import axis_extents, entry_axes
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_operand import at_places, axis_values
from vdla.compiler.map.packed_scale import whole_axes
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Buffer


@dataclass(frozen=True)
class PackedLanes:
    """An operand of the lanes of a form; `name` is that of its `FromLanes`."""

    form: PackedForm
    name: str
    read: LaneRead

    @property
    def source(self) -> te.Tensor:
        """The plain tensor."""
        return self.read.tensor

    @property
    def parameter(self) -> str:
        """The program's tensor, called like the plain one unless that is another operand, too."""
        shared = any(operand.source is self.source for operand in self.form.operands.values())
        return f"{self.name}_lanes{self.form.suffix}" if shared else self.name + self.form.suffix

    @property
    def buffer(self) -> Buffer:
        """The buffer that holds it."""
        return Buffer[self.read.intrinsic.scopes[self.read.operand].upper()]

    @property
    def entry(self) -> tuple[int, ...]:
        """The extents of an operand of one step."""
        return self.read.buffer.dims

    @cached_property
    def count(self) -> int:
        """Vectors of weights that share an entry of their buffer; 1 where a step reads entries.

        MapError where a step reads less than an entry of another buffer.
        """
        bits, whole = self._bits, 8 * self.form.config.entry_bytes[self.buffer]
        if self.buffer is Buffer.WGT and bits < whole:
            return whole // bits
        if bits % whole:
            kind = self.buffer.name.lower()
            rule = f"vectors of {self.source.name} must fill entries of {whole} bits of the {kind} buffer"
            raise MapError(f"{rule}, got {bits}")
        return 1

    @property
    def lanes(self) -> tuple[int, ...]:
        """The extents of what one load brings: vectors that share an entry, or an operand."""
        return (self.count, *self.entry) if self.count > 1 else self.entry

    @property
    def _bits(self) -> int:
        return prod(self.entry) * ir.INTEGER_BITS[self.read.buffer.dtype]

    @cached_property
    def _outer(self) -> dict[str, int]:
        """The sections, and the blocks of lanes, whose vectors lie one after the other."""
        form = self.form
        sections = {axis: form.computation.extents[axis] for axis in form.loops.sections}
        return {**sections, form.axes[1]: form.mapping.blocks(form.axes[1])}

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the program's tensor."""
        return (-(-prod(self._outer.values()) // self.count), *self.lanes)

    @property
    def entries(self) -> int:
        """Entries of its buffer."""
        bits = prod(self.shape) * ir.INTEGER_BITS[self.read.buffer.dtype]
        return bits // (8 * self.form.config.entry_bytes[self.buffer])

    @cached_property
    def _roles(self) -> list[str]:
        """What each dimension of an operand is: an axis of the form, or a whole dimension."""
        inner = tuple(axis_extents(self.read.intrinsic))
        known = dict(zip(inner, self.form.axes, strict=False))
        axes = entry_axes(self.read.intrinsic, self.read.operand)
        assert axes is not None, "an operand that the step reads"
        return [str(known.get(axis, axis)) for axis in axes]

    @cached_property
    def indices(self) -> list[ir.Expr]:
        """The index of each plain dimension, over axes of lanes and whole dimensions."""
        form, after = self.form, self.form.computation.after
        places = {} if after is None else dict(zip(map(axis_name, after.stage.axes), whole_axes(form), strict=True))
        ranges = {axis: (0, extent - 1) for axis, extent in form.computation.extents.items()}
        return [simplify(ir.substitute(index, places), ranges) for index in self.read.indices]

    def require_lanes(self) -> None:
        """MapError where the operand depends on the position of a result, too."""
        form = self.form
        of_lanes = {*form.loops.sections, *form.mapping.groups[form.axes[1]]}
        used = {name for index in self.indices for name in var_names(index) if "." not in name}
        if not all(axis in of_lanes or form.computation.extents[axis] == 1 for axis in used):
            got = f"{self.source.name}[{', '.join(map(ir.expr_text, self.indices))}]"
            raise MapError(f"{self.source.name} must have one element for each lane of results, got {got}")

    def placeholder(self) -> te.Tensor:
        """The program's tensor."""
        return te.placeholder(self.shape, self.read.buffer.dtype, self.parameter)

    def at(self, named: dict[str, Any]) -> tuple[Any, ...]:
        """The index of an element for a packed result, by the names of the packed axes."""
        form, vector = self.form, te.const(0, "int32")
        for axis, extent in self._outer.items():
            vector = vector * extent + (named["co"] if axis == form.axes[1] else named[form.name(axis)])
        inner = {form.axes[0]: named["b"], form.axes[1]: named["o"]}
        entry = [inner[role] if role in inner else te.Value(ir.Var(role), "int32") for role in self._roles]
        return (vector // self.count, vector % self.count, *entry) if self.count > 1 else (vector, *entry)

    def packed(self) -> te.Tensor:
        """The program's tensor as a computation over the plain one."""
        form, lanes = self.form, self.form.axes[1]

        def value(*at: te.Value) -> te.Value:
            vector = at[0] * self.count + at[1] if self.count > 1 else at[0]
            blocks, valid = dict[str, te.Value](), list[te.Value]()
            if prod(self._outer.values()) % self.count:
                valid.append(vector < prod(self._outer.values()))
            for axis, extent in reversed(self._outer.items()):
                blocks[axis], vector = vector % extent, vector // extent
            inner = dict(zip(self._roles, at[-len(self.entry) :], strict=True))
            values, inside = axis_values(form.mapping, {lanes: blocks.pop(lanes)}, {lanes: inner[lanes]})
            values |= blocks | {role: place for role, place in inner.items() if "." in role}
            values = {axis: te.const(0, "int32") for axis in form.computation.extents} | values
            names = {name: values[name] for index in self.indices for name in sorted(var_names(index))}
            element = self.source[tuple(at_places(index, names) for index in self.indices)]
            valid += inside
            return te.select(te.all_of(*valid), element, te.const(0, element.dtype)) if valid else element

        made: te.Tensor = te.compute(self.shape, value, self.parameter)
        return made


def lanes_of(form: PackedForm) -> dict[str, PackedLanes]:
    """The operands of the lanes of a form, by name."""
    return {name: PackedLanes(form, name, read) for name, read in form.computation.lanes.items()}

"""Packing and unpacking of a mapping as tensor expressions: each is a gather of its source."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.map.gather import gather
from vdla.compiler.map.outer_loops import ROW_BLOCKS
from vdla.compiler.map.packed_expression import result_axes
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_scale import radices
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.roles import OUTPUT, SCALE
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name

Array = npt.NDArray[Any]


def pack_array(untiled: UntiledForm, parameter: str, array: Array) -> Array:
    """An input of the program from the elements of its plain tensor."""
    if parameter == SCALE and untiled.scale is not None:
        return gather(untiled.scale.packed(), array)
    form = untiled.form
    (operand,) = (operand for name, operand in form.operands.items() if form.parameter(name) == parameter)
    return gather(operand.packed(parameter), array.astype(ir.storage_dtype(operand.source.dtype), copy=False))


def packed_inputs(untiled: UntiledForm) -> dict[str, te.Tensor]:
    """Each input of the program as a computation over its plain tensor."""
    form = untiled.form
    packed = {form.parameter(name): operand.packed(form.parameter(name)) for name, operand in form.operands.items()}
    tables = [*form.tables.values(), *([form.result_table] if form.result_table else [])]
    packed |= {name: table.packed(name) for name, table in tables}
    return packed if untiled.scale is None else packed | {str(SCALE): untiled.scale.packed()}


def unpacked(form: PackedForm, view: te.Tensor | None = None) -> te.Tensor:
    """The plain result as a computation over the program's output; of its elements, those of a
    `view`.
    """
    packed = te.placeholder(result_axes(form)[1], form.output.dtype, OUTPUT)
    shape = form.output.shape if view is None else view.shape
    return te.compute(shape, lambda *at: packed[_packed_index(form, _viewed(view, at))], "plain")


def _viewed(view: te.Tensor | None, at: tuple[te.Value, ...]) -> tuple[te.Value, ...]:
    """The index of the result that an element of a view is."""
    if view is None:
        return at
    stage = view.stage
    assert isinstance(stage, Stage) and isinstance(stage.value.expr, ir.Load)
    places = {axis_name(axis): index.expr for axis, index in zip(stage.axes, at, strict=True)}
    return tuple(te.Value(ir.substitute(index, places), "int32") for index in stage.value.expr.indices)


def _packed_index(form: PackedForm, at: tuple[te.Value, ...]) -> tuple[Any, ...]:
    rows, lanes, _ = form.axes
    values = _digit_values(form, at)
    fused = {axis: _fused(form, axis, values) for axis in (rows, lanes)}
    named = {form.name(axis): value for axis, value in values.items()}
    named |= {
        form.name(ROW_BLOCKS): fused[rows] // form.entry_extent(rows),
        "co": fused[lanes] // form.entry_extent(lanes),
    }
    named |= {"b": fused[rows] % form.entry_extent(rows), "o": fused[lanes] % form.entry_extent(lanes)}
    return tuple(named.get(name, 0) for name in result_axes(form)[0])


def _digit_values(form: PackedForm, at: tuple[te.Value, ...]) -> dict[str, te.Value]:
    """The value of every axis of the result at an index of it."""
    values: dict[str, te.Value] = {}
    for index, digits in zip(at, form.computation.digits, strict=True):
        for place, (axis, radix) in enumerate(zip(digits, radices(form, digits), strict=True)):
            part = index // radix if radix > 1 else index
            values[axis] = part % form.computation.extents[axis] if place else part
    return values


def _fused(form: PackedForm, axis: str, values: dict[str, te.Value]) -> te.Value:
    """The index along an axis of the intrinsic."""
    total: Any = te.const(0, "int32")
    for member in form.mapping.groups[axis]:
        total = total * form.computation.extents[member] + values[member]
    return te.as_value(total, form.output.name)

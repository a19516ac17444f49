# SPDX-License-Identifier: Apache-2.0
"""Packing and unpacking as tensor expressions: every element is one element of a tensor, or 0.

An expression is evaluated on open grids of indices, so packing takes a few NumPy calls: a
transposition of the dimensions of the source whose indices have no axis in common.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import index_function
from vdla.compiler.map.mapping import ROW_BLOCKS
from vdla.compiler.map.packed_expression import result_axes
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packed_lanes import lanes_of
from vdla.compiler.map.packed_scale import radices
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.roles import OUTPUT, SCALE
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name

Array = npt.NDArray[Any]


def gather(tensor: te.Tensor, array: Array, constant: Callable[[int], Any] | None = None) -> Array:
    """The elements of a computed `tensor` whose one source is `array`; `constant` makes an element
    of it from an integer, if its elements are no integers.

    Its value is an element of the source, or a choice by a condition on indices between that and
    a constant.
    """
    stage = tensor.stage
    assert isinstance(stage, Stage)
    grid = np.ogrid[tuple(slice(0, extent) for extent in stage.shape)]
    values = {axis_name(axis): axis_grid for axis, axis_grid in zip(stage.axes, grid, strict=True)}
    inside, load, fill = _parts(stage.value.expr)
    mask = True if inside is None else _evaluated(inside, values)
    array = np.ascontiguousarray(array)
    places = [_evaluated(index, values) for index in load.indices]
    if inside is not None:
        places = [np.clip(place, 0, extent - 1) for place, extent in zip(places, array.shape, strict=True)]
    elements = _elements(array, places)
    filling = np.asarray(fill, array.dtype) if constant is None else constant(fill)
    packed = elements if mask is True else np.where(mask, elements, filling)
    return np.ascontiguousarray(np.broadcast_to(packed, stage.shape))


def is_gather(tensor: te.Tensor) -> bool:
    """Whether `gather` can evaluate a computed tensor."""
    stage = tensor.stage
    if not isinstance(stage, Stage) or stage.reduction is not None or len(stage.reads) != 1:
        return False
    match stage.value.expr:
        case ir.Select(cond=inside, a=ir.Load(indices=indices), b=ir.Const()):
            exprs = (inside, *indices)
        case ir.Load(indices=indices):
            exprs = indices
        case _:
            return False
    return all(index_function(expr) is not None for expr in exprs)


def _elements(array: Array, places: list[Array]) -> Array:
    """The elements at the given places of each dimension, as `array[*places]`."""
    rank = max(place.ndim for place in places)
    order: list[int] = []
    extents: list[int] = []
    groups = _groups(places)
    merged = array.transpose([d for group in groups for d in group])
    merged = merged.reshape([prod(array.shape[d] for d in group) for group in groups])
    for dimension, group in enumerate(groups):
        place: Array = np.zeros((1,) * rank, np.int64)
        for d in group:
            place = place * array.shape[d] + places[d]
        axes = _axes(place)
        order += axes
        extents += [place.shape[axis] for axis in axes]
        if not np.array_equal(place.reshape(-1), np.arange(merged.shape[dimension])):
            merged = merged.take(place.reshape(-1), axis=dimension)
    moved = merged.reshape(extents).transpose(np.argsort(order))
    return np.expand_dims(moved, [axis for axis in range(rank) if axis not in order])


def _axes(place: Array) -> list[int]:
    """The axes that an index depends on."""
    return [axis for axis, extent in enumerate(place.shape) if extent > 1]


def _groups(places: list[Array]) -> list[list[int]]:
    """The dimensions in groups whose indices have no axis in common, in the order of their axes."""
    groups: list[list[int]] = []
    for dimension, place in enumerate(places):
        shared = [group for group in groups if any({*_axes(places[d])} & {*_axes(place)} for d in group)]
        groups = [group for group in groups if group not in shared]
        groups.append([*(d for group in shared for d in group), dimension])
    return sorted(groups, key=lambda group: min((axis for d in group for axis in _axes(places[d])), default=0))


def _parts(value: ir.Expr) -> tuple[ir.Expr | None, ir.Load, int]:
    match value:
        case ir.Select(cond=inside, a=ir.Load() as load, b=ir.Const(value=fill)):
            return inside, load, int(fill)
        case ir.Load() as load:
            return None, load, 0
    raise AssertionError(f"a gather must be an element or a choice, got {ir.expr_text(value)}")


def _evaluated(expr: ir.Expr, values: dict[str, Array]) -> Array:
    function = index_function(expr)
    assert function is not None, ir.expr_text(expr)
    return np.asarray(function(values))


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
    packed |= {operand.parameter: operand.packed() for operand in lanes_of(form).values()}
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
    """The value of every axis of the result at one of its indices."""
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

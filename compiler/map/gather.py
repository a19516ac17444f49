"""Packing and unpacking as tensor expressions: every element is one element of a tensor, or 0.

An expression is evaluated on open grids of indices, so packing takes a few NumPy calls: a
transposition of the dimensions of the source whose indices have no axis in common.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import index_function
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name

Array = npt.NDArray[Any]


def gather(tensor: te.Tensor, array: Array) -> Array:
    """The elements of a computed `tensor` whose one source is `array`.

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
    found = _elements(array, places)
    packed = found if mask is True else np.where(mask, found, np.asarray(fill, array.dtype))
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
        own = _axes(place)
        order += own
        extents += [place.shape[axis] for axis in own]
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

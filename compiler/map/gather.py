"""Packing and unpacking as tensor expressions: every element is one element of a tensor, or 0.

An expression is evaluated on open grids of indices, so packing takes a few NumPy calls.
"""

from __future__ import annotations

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
    steps = np.array(array.strides) // array.itemsize
    found = array.reshape(-1).take(sum(place * step for place, step in zip(places, steps, strict=True)))
    packed = found if mask is True else np.where(mask, found, np.asarray(fill, array.dtype))
    return np.ascontiguousarray(np.broadcast_to(packed, stage.shape))


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

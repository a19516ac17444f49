# SPDX-License-Identifier: Apache-2.0
"""RESIZE_BILINEAR: of floats, and of int8 with places in units of 1/1024."""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import check_float
from vdla.compiler.graph.tflite.movement import check_same_scale, resized_image

_UNIT = 1 << 10
_MOST = 1 << 24  # elements of a matrix of weights


def resize_bilinear(at: OperatorContext) -> None:
    """Of an image to a constant size: its rows and columns times matrices of weights."""
    x, size = resized_image(at)
    batch, channels, *plane = at.builder.type_of(x).extents
    if max(n * m for n, m in zip(plane, size, strict=True)) > _MOST:
        decline(f"have a size of at most {_MOST} over that of the image, got {list(size)}")
    options = {"corners": bool(at.option("AlignCorners")), "centres": bool(at.option("HalfPixelCenters"))}
    is_integer = at.is_quantised
    if is_integer:
        check_same_scale(at, 0)
        x = at.add("Cast", [x], {"to": "int32"})
    else:
        check_float(at)
    weigh = integer_weights if is_integer else float_weights
    rows, columns = (weigh(n, m, **options) for n, m in zip(plane, size, strict=True))
    names = [at.builder.constant(v, f"{at.builder.label}_{n}") for v, n in ((rows, "rows"), (columns.T, "columns"))]
    shape = (batch, channels, size[0], plane[1])
    kind = TensorType("int32" if is_integer else "float32", shape)
    total = at.add("MatMul", [names[0], x], {}, kind)
    total = at.add("MatMul", [total, names[1]], {}, TensorType(kind.dtype, (batch, channels, *size)))
    at.define(_divided(at, total) if is_integer else total, is_image=True)


def _divided(at: OperatorContext, total: str) -> str:
    """Sums of two weights' products over 2**20, rounded half away from zero, as int8."""
    half, whole = (at.builder.constant(np.array(n, np.int32), f"{at.builder.label}_unit") for n in (1 << 19, 1 << 20))
    magnitude = at.add("Div", [at.add("Add", [at.add("Abs", [total]), half]), whole])
    signed = at.add("Mul", [magnitude, at.add("Sign", [total])])
    return at.add("Cast", [signed], {"to": "int8"})


def integer_weights(before: int, after: int, *, corners: bool, centres: bool) -> Array:
    """[after, before]: the weight of each element, in units of 1/1024."""
    spread = corners and after > 1
    top, bottom = (before - 1, after - 1) if spread else (before, after)
    scale = (_UNIT * top + bottom // 2) // bottom
    place = np.arange(after) * scale + (scale // 2 - _UNIT // 2 if centres else 0)
    lower = np.maximum(np.trunc(place / _UNIT).astype(np.int64), 0)
    upper = np.minimum(np.trunc((place + _UNIT - 1) / _UNIT).astype(np.int64), before - 1)
    return _matrix(np.minimum(lower, before - 1), upper, place - _UNIT * lower, _UNIT, before).astype(np.int32)


def float_weights(before: int, after: int, *, corners: bool, centres: bool) -> Array:
    """[after, before]: the weight of each element."""
    spread = corners and after > 1
    scale = np.float32(before - 1) / np.float32(after - 1) if spread else np.float32(before) / np.float32(after)
    place = np.arange(after, dtype=np.float32)
    place = (place + np.float32(0.5)) * scale - np.float32(0.5) if centres else place * scale
    lower = np.floor(place).astype(np.int64)
    part = place - lower
    ends = np.clip(lower, 0, before - 1), np.clip(lower + 1, 0, before - 1)
    return _matrix(*ends, part, 1, before).astype(np.float32)


def _matrix(lower: Array, upper: Array, part: Array, unit: int, before: int) -> Array:
    """Rows with the weight of `upper`, and the rest of the unit at `lower`."""
    rows, made = np.arange(len(lower)), np.zeros((len(lower), before), np.float64)
    np.add.at(made, (rows, lower), unit - part)
    np.add.at(made, (rows, upper), part)
    return made

# SPDX-License-Identifier: Apache-2.0
"""Means, sums, extrema along dimensions, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.tflite.builder import IMAGE
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import check_float
from vdla.compiler.graph.tflite.movement import check_same_scale, integers
from vdla.hardware.fixed_point import fixed_point

_PLANE = (1, 2)  # the spatial dimensions of an image in the file
_MOST = 1 << 23  # elements whose int8 sums are int32


def _axes(at: OperatorContext) -> tuple[int, ...]:
    return tuple(sorted({at.axis(axis) for axis in at.integers(1, "axes")}))


def _reduced(shape: Sequence[int], axes: Sequence[int], *, keeps: bool) -> tuple[int, ...]:
    if keeps:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def reduction(op: str) -> Callable[[OperatorContext], None]:
    """MEAN, SUM, REDUCE_MAX and others along constant axes."""

    def convert(at: OperatorContext) -> None:
        axes, keeps, shape = _axes(at), bool(at.option("KeepDims")), at.tensor(0).shape
        count = prod(shape[axis] for axis in axes)
        if count < 1 or count > _MOST:
            decline(f"reduce from 1 to {_MOST} elements, got {count}")
        if at.is_quantised and op in ("ReduceMean", "ReduceSum"):
            return _quantised(at, op, axes, keeps, count)
        if at.is_quantised and op in ("ReduceMax", "ReduceMin"):
            check_same_scale(at, 0)
        elif at.output.dtype not in ("int32", "int64"):
            check_float(at)
        made = at.add(op, [at.read(0), integers(at, axes, "axes")], {"keepdims": int(keeps)})
        return at.define(made)

    return convert


def _quantised(at: OperatorContext, op: str, axes: tuple[int, ...], keeps: bool, count: int) -> None:
    """int32 sums of all elements, rescaled by a factor that has the count in it."""
    x, shape = at.affine(0), at.tensor(0).shape
    factor = x.wide / at.result.wide
    attributes = {**at.rescaled(factor / count if op == "ReduceMean" else factor, (-128, 127))}
    attributes["fixed_point"] = _over_count(fixed_point(factor), count) if op == "ReduceMean" else fixed_point(factor)
    reduced = _reduced(shape, axes, keeps=keeps)
    if op == "ReduceMean" and axes == _PLANE and len(shape) == IMAGE:
        return _mean_of_images(at, attributes | at.rescaled(factor, (-128, 127)) | _only_fixed(attributes), reduced)
    wide = at.add("Cast", [at.read(0)], {"to": "int32"}, TensorType("int32", shape))
    total = at.add("ReduceSum", [wide, integers(at, axes, "axes")], {"keepdims": int(keeps)})
    attributes["x_zero_point"] = x.zero_point * count
    return at.define(at.add("vdla.QRescale", [total], attributes, TensorType("int8", reduced)))


def _only_fixed(attributes: dict[str, Array]) -> dict[str, Array]:
    return {"fixed_point": attributes["fixed_point"]}


def _mean_of_images(at: OperatorContext, attributes: dict[str, Array], reduced: tuple[int, ...]) -> None:
    """vdla.QAveragePool over whole images."""
    x = at.read_image(0)
    batch, channels, *plane = at.builder.type_of(x).extents
    window = {
        "kernel_shape": tuple(plane),
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "count_include_pad": 0,
        "x_zero_point": at.affine(0).zero_point,
    }
    made = at.add("vdla.QAveragePool", [x], {**window, **attributes}, TensorType("int8", (batch, channels, 1, 1)))
    if len(reduced) == IMAGE:
        return at.define(made, is_image=True)
    return at.define(at.builder.reshape(made, reduced))


def _over_count(factor: Array, count: int) -> Array:
    """A fixed-point factor over a count, as precise as 31 bits allow."""
    [multiplier], [shift], once = factor.tolist()
    more = min(count.bit_length() - 1, 32, 31 + shift)
    return np.array([[(multiplier << more) // count], [shift - more], once], np.int64)


def arg_extreme(op: str) -> Callable[[OperatorContext], None]:
    """ARG_MAX and ARG_MIN along a constant axis; the first of equal ones."""

    def convert(at: OperatorContext) -> None:
        axes = at.integers(1, "axis")
        if len(axes) != 1 or at.output.dtype not in ("int32", "int64"):
            decline(f"have one axis and an int32 or int64 result, got {list(axes)} and {at.output.dtype}")
        made = at.add(op, [at.read(0)], {"axis": at.axis(axes[0]), "keepdims": 0})
        if at.output.dtype != "int64":
            made = at.add("Cast", [made], {"to": at.output.dtype})
        at.define(made)

    return convert

# SPDX-License-Identifier: Apache-2.0
"""Sums, products and other functions of two tensors, element by element; shapes broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vdla.compiler.graph.graph import TensorType
from vdla.compiler.graph.integer.affine import multipliers
from vdla.compiler.graph.tflite.builder import IMAGE
from vdla.compiler.graph.tflite.context import HIGH, LOW, OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import activated, check_float
from vdla.hardware.factors import residual_factors
from vdla.hardware.fixed_point import EXTRA_BITS, fixed_point, scale_fixed_point

_COMPARED_BITS, _DIFFERENCE_BITS = 8, 7  # that int8 numbers gain before they are rescaled


def operands(at: OperatorContext) -> tuple[list[str], TensorType, bool]:
    """The values of two inputs in one order, the result's type, and whether they are images."""
    indices = [at.index(0), at.index(1)]
    kinds = [at.builder.tensor(index) for index in indices]
    images = any(at.builder.has_image(index) for index in indices)
    fit = all(len(kind.shape) == IMAGE or (kind.data is not None and kind.data.size == 1) for kind in kinds)
    is_image = images and fit
    names = [
        at.builder.read_image(index) if is_image and len(kind.shape) == IMAGE else at.builder.read(index)
        for index, kind in zip(indices, kinds, strict=True)
    ]
    shapes = [at.builder.type_of(name).extents for name in names]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        decline(f"have inputs whose shapes broadcast, got {list(kinds[0].shape)} and {list(kinds[1].shape)}")
    return names, TensorType(at.output.dtype, shape), is_image


def add(at: OperatorContext) -> None:
    """ADD."""
    _sum(at, "Add", 1)


def subtract(at: OperatorContext) -> None:
    """SUB."""
    _sum(at, "Sub", -1)


def _sum(at: OperatorContext, op: str, sign: int) -> None:
    if not at.is_quantised:
        return arithmetic(op)(at)
    names, kind, is_image = operands(at)
    a, b, y = at.affine(0), at.affine(1), at.result
    (first, second), factor = residual_factors(a.scale, b.scale, y.scale)
    twice = 2 * max(a.wide, b.wide)
    attributes = {
        "factors": (first, sign * second),
        "a_zero_point": a.zero_point,
        "b_zero_point": b.zero_point,
        **at.rescaled(1.0),
        **multipliers(factor),
        "fixed_point": fixed_point([a.wide / twice, b.wide / twice, twice / ((1 << EXTRA_BITS) * y.wide)]),
    }
    at.define(at.add("vdla.QAdd", names, attributes, kind), is_image=is_image)
    return None


def multiply(at: OperatorContext) -> None:
    """MUL."""
    if not at.is_quantised:
        return arithmetic("Mul")(at)
    names, kind, is_image = operands(at)
    a, b = at.affine(0), at.affine(1)
    zeros = {"a_zero_point": a.zero_point, "b_zero_point": b.zero_point}
    factor = float(a.scale * b.scale / at.result.scale)
    at.define(at.add("vdla.QMul", names, {**zeros, **at.rescaled(factor)}, kind), is_image=is_image)
    return None


def arithmetic(op: str) -> Callable[[OperatorContext], None]:
    """An operator on floats or on plain integers, with its fused activation."""

    def convert(at: OperatorContext) -> None:
        names, kind, is_image = operands(at)
        if at.output.quantisation is not None and at.output.dtype != "float32":
            check_float(at, 0, 1)
        made = at.add(op, names, {}, kind)
        at.define(activated(at, made) if kind.dtype == "float32" else made, is_image=is_image)

    return convert


def choice(op: str) -> Callable[[OperatorContext], None]:
    """MAXIMUM and MINIMUM: of int8 tensors of one scale, their integers are compared."""

    def convert(at: OperatorContext) -> None:
        if at.is_quantised and not at.affine(0) == at.affine(1) == at.result:
            decline("have inputs and a result of one scale and zero point")
        names, kind, is_image = operands(at)
        at.define(at.add(op, names, {}, kind), is_image=is_image)

    return convert


def comparison(op: str) -> Callable[[OperatorContext], None]:
    """Comparisons; int8 numbers are compared as integers in a common scale."""

    def convert(at: OperatorContext) -> None:
        kinds = [at.tensor(position).dtype for position in (0, 1)]
        if kinds[0] != kinds[1] or kinds[0] in ("uint8", "int16"):
            decline(f"compare numbers of one type, of int8 or not quantised, got {kinds[0]} and {kinds[1]}")
        names, kind, is_image = operands(at)
        if kinds[0] == "int8":
            names = [_scaled(at, names[n], n, at.affine(n).wide, _COMPARED_BITS) for n in (0, 1)]
        kind = TensorType("bool", kind.shape)
        if op == "NotEqual":
            return at.define(at.add("Not", [at.add("Equal", names, {}, kind)], {}, kind), is_image=is_image)
        return at.define(at.add(op, names, {}, kind), is_image=is_image)

    return convert


def squared_difference(at: OperatorContext) -> None:
    """SQUARED_DIFFERENCE."""
    names, kind, is_image = operands(at)
    if not at.is_quantised:
        check_float(at, 0, 1)
        difference = at.add("Sub", names, {}, kind)
        return at.define(at.add("Mul", [difference, difference], {}, kind), is_image=is_image)
    a, b, y = at.affine(0), at.affine(1), at.result
    twice = 2 * max(a.wide, b.wide)
    scaled = [_scaled(at, names[n], n, at.affine(n).wide / twice, _DIFFERENCE_BITS) for n in (0, 1)]
    difference = at.add("Sub", scaled)
    attributes = at.rescaled(twice * twice / ((1 << 2 * _DIFFERENCE_BITS) * y.wide), (LOW, HIGH))
    square = at.add("Mul", [difference, difference])
    made = at.add("vdla.QRescale", [square], {"x_zero_point": 0, **attributes}, kind)
    return at.define(made, is_image=is_image)


def _scaled(at: OperatorContext, name: str, position: int, factor: float, bits: int) -> str:
    """int8 numbers with more bits times a factor as int32, by a table of what each becomes."""
    centred = np.arange(LOW, HIGH + 1) - at.affine(position).zero_point
    values = scale_fixed_point(centred << bits, *fixed_point(factor)).astype(np.int32)
    ordered = at.builder.constant(np.roll(values, LOW), f"{at.builder.label}_scaled")  # -1 is the last index
    return at.add("Gather", [ordered, at.add("Cast", [name], {"to": "int32"})], {"axis": 0})

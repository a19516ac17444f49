# SPDX-License-Identifier: Apache-2.0
"""Rules of inverse trigonometric and hyperbolic functions, of float32 and shorter floats.

The arctangent begins with a rough angle; the tangent of the residual angle is a quotient of the
sine and cosine of the rough one, and small enough for three terms of its series. Series replace
logarithms that would cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.record import OperatorRecord, Trait
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, in_float32
from vdla.compiler.ir import SMALL_FLOATS

_Body = Callable[[te.Value], te.Value]
_LARGE = 1e4  # beyond it, x * x + 1 is x * x


def _arctangent(x: te.Tensor, name: str, argument: _Body = lambda v: v, factor: float = 1.0) -> te.Tensor:
    """factor * atan(argument(x)); stages, as each value is used several times."""
    tangent = operators.elementwise(x, argument, f"{name}_tangent")

    def ratio(v: te.Value) -> te.Value:
        return te.select(te.abs(v) > 1, 1 / te.abs(v), te.abs(v))

    z = operators.elementwise(tangent, ratio, f"{name}_ratio")
    rough = operators.elementwise(z, lambda v: v / (1 + v * v * 0.28), f"{name}_rough")
    sine, cosine = operators.sin(rough, f"{name}_sine"), operators.cos(rough, f"{name}_cosine")

    def tangent_of_residual(v: te.Value, s: te.Value, c: te.Value) -> te.Value:
        return (v * c - s) / (c + v * s)

    residual = operators.combine_elements("Atan", tangent_of_residual, (z, sine, cosine), f"{name}_rest")

    def add(angle: te.Value, r: te.Value) -> te.Value:
        return angle + r * (1 - r * r * (1 / 3) * (1 - r * r * 0.6))

    angle = operators.combine_elements("Atan", add, (rough, residual), f"{name}_angle")

    def unfold(v: te.Value, part: te.Value) -> te.Value:
        whole = te.select(te.abs(v) > 1, math.pi / 2 - part, part)
        return te.select(v < 0, -whole, whole) * factor

    return operators.combine_elements("Atan", unfold, (tangent, angle), name)


def _arcsine(x: te.Tensor, name: str) -> te.Tensor:
    return _arctangent(x, name, lambda v: v / te.sqrt((1 - v) * (1 + v)))


def _arccosine(x: te.Tensor, name: str) -> te.Tensor:
    return _arctangent(x, name, lambda v: te.sqrt((1 - v) / (1 + v)), 2.0)


def _by_element(body: _Body) -> Callable[..., te.Tensor]:
    """A function of one element as one of tensors."""
    return lambda x, name: operators.elementwise(x, body, name)


def _area_sine(v: te.Value) -> te.Value:
    size, square = te.abs(v), v * v
    series = v * (1 - square * (1 / 6) * (1 - square * (9 / 20) * (1 - square * (25 / 42))))
    logarithm = te.select(size > _LARGE, te.log(size) + math.log(2), te.log(size + te.sqrt(square + 1)))
    return te.select(size < 0.1, series, te.select(v < 0, -logarithm, logarithm))


def _area_cosine(v: te.Value) -> te.Value:
    excess = v - 1
    series = te.sqrt(excess * 2) * (1 - excess * (1 / 12) + excess * excess * (3 / 160))
    logarithm = te.select(v > _LARGE, te.log(v) + math.log(2), te.log(v + te.sqrt(excess * (v + 1))))
    return te.select(v < 1.02, series, logarithm)


def _area_tangent(v: te.Value) -> te.Value:
    square = v * v
    series = v * (1 + square * (1 / 3 + square * (1 / 5 + square * (1 / 7 + square * (1 / 9)))))
    return te.select(te.abs(v) < 0.15, series, te.log((1 + v) / (1 - v)) * 0.5)


def _of_short_floats(name: str, function: Callable[..., te.Tensor]) -> OperatorRecord:
    def expression(call: NodeCall) -> te.Tensor:
        x = call.tensor(0)
        if x.dtype not in (*SMALL_FLOATS, "float32"):
            call.decline(f"have floats of at most 32 bits, got {x.dtype}")
        return in_float32(call, function, x)

    traits = Trait.ELEMENTWISE | Trait.FUNCTION
    return OperatorRecord(name=name, fusion=FusionClass.INJECTIVE, expression=expression, traits=traits)


INVERSE_FUNCTIONS = (
    _of_short_floats("Acos", _arccosine),
    _of_short_floats("Acosh", _by_element(_area_cosine)),
    _of_short_floats("Asin", _arcsine),
    _of_short_floats("Asinh", _by_element(_area_sine)),
    _of_short_floats("Atan", _arctangent),
    _of_short_floats("Atanh", _by_element(_area_tangent)),
)

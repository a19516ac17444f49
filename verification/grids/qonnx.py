# SPDX-License-Identifier: Apache-2.0
"""QONNX's quantisers: drafts of their nodes, and a naive model of what they compute.

QONNX is defined by the documents and the package of that name; the model follows its definition
operation by operation, in float32, and equals version 1.0.0 of the package. Inputs lie at or well
away from the edges of two integers, since whether a value right beside one is rounded up depends on
the order of divisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vdla.verification.grids.draw import Array, Draw, NodeDraft
from vdla.verification.grids.elementwise import Drafter

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas")
_MODES = ("ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "round", "ceil")
_WIDTHS = (*range(1, 9), *range(2, 9), 10, 16)
_FRACTIONS = (0.125, 0.25, 0.75, 0.875)


# --- drafts ---------------------------------------------------------------------------------------


def _parameter_shape(draw: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """Of a tensor, a channel in any place, or every element."""
    kind = draw.pick(["tensor", "tensor", "one", "axis", "axis", "all"])
    if kind == "tensor" or not shape:
        return ()
    if kind == "axis":
        axis = draw.axis(len(shape), negative=False)
        return tuple(extent if place == axis else 1 for place, extent in enumerate(shape))
    return tuple(shape) if kind == "all" and np.prod(shape) else (1,)


def _scales(draw: Draw, shape: tuple[int, ...]) -> tuple[Array, bool]:
    """Positive scales, and whether they are powers of two, with which divisions are exact."""
    exact = draw.chance()
    if exact:
        return np.asarray(np.exp2(draw.random.integers(-5, 2, size=shape)), np.float32), True
    return draw.array(shape, "float32", 0.02, 0.6), False


def _between(draw: Draw, shape: Sequence[int], low: float, high: float, exact: bool) -> Array:
    """Numbers between two limits: whole ones and halves only where divisions are exact."""
    whole = draw.random.integers(int(low), int(high) + 1, size=tuple(shape))
    fractions = np.array([*_FRACTIONS, *((0.0, 0.5) if exact else ())])
    return np.asarray(whole + draw.random.choice(fractions, size=tuple(shape)))


def _data(y: Array, scale: Array, zero: Array) -> Array:
    """What becomes `y` when it is divided by a scale and added to a zero point."""
    return np.asarray((y - zero) * scale.astype(np.float64)).astype(np.float32)


def _quant(draw: Draw) -> NodeDraft:
    bits, signed = draw.pick(_WIDTHS), draw.pick([0, 1])
    attributes: dict[str, Any] = {"signed": signed, "narrow": draw.pick([0, 1])}
    if draw.chance(0.6):
        attributes["rounding_mode"] = draw.pick(_MODES)
    shape = draw.shape(draw.rank(0, 5))
    scale, exact = _scales(draw, _parameter_shape(draw, shape))
    zeros = _parameter_shape(draw, shape) if draw.chance(0.3) else ()
    zero = np.zeros(zeros, np.float32) if draw.chance() else _whole(draw, zeros)
    least, most = limits(bits, bool(signed), bool(attributes["narrow"]))
    span = min(most - least, 300.0) / 2
    middle = (least + most) / 2
    y = _between(draw, np.broadcast_shapes(shape, scale.shape, zeros), middle - span - 3, middle + span + 3, exact)
    inputs = [_data(y, scale, zero), scale, zero, _width(draw, bits, y)]
    return NodeDraft(inputs, attributes, constant=frozenset({1, 2, 3}), fixed=frozenset({3}))


def _whole(draw: Draw, shape: tuple[int, ...]) -> Array:
    return np.asarray(draw.random.integers(-3, 7, size=shape), np.float32)


def _width(draw: Draw, bits: int, y: Array) -> Array:
    return np.full(draw.pick([(), (), (1,) if y.ndim else ()]), bits, np.float32)


def _bipolar_quant(draw: Draw) -> NodeDraft:
    shape = draw.shape(draw.rank(0, 5))
    scale, _ = _scales(draw, _parameter_shape(draw, shape))
    x = _between(draw, shape, -3, 3, exact=True).astype(np.float32)
    return NodeDraft([x, scale], constant=frozenset({1}))


def _trunc(draw: Draw) -> NodeDraft:
    """Integers of one width to those of another; from version 2 on with a scale of the result."""
    newer, shape = draw.version.since > 1, draw.shape(draw.rank(0, 5))
    bits = int(draw.random.integers(2, 13))
    result_bits = int(draw.random.integers(1, min(bits, 8) + 1))
    scale, _ = _scales(draw, _parameter_shape(draw, shape))
    zero = np.zeros((), np.float32) if draw.chance() else _whole(draw, ())
    whole = np.broadcast_shapes(shape, scale.shape)
    y = np.asarray(draw.random.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), size=whole))
    inputs = [_data(y, scale, zero), scale, zero, _width(draw, bits, y)]
    attributes: dict[str, Any] = {"rounding_mode": draw.pick(_MODES)} if draw.chance(0.7) else {}
    if newer:
        inputs.append(np.asarray(scale * np.float32(2.0 ** (bits - result_bits))))
        attributes |= {"signed": draw.pick([0, 1]), "narrow": draw.pick([0, 1])}
    inputs.append(_width(draw, result_bits, y))
    places = frozenset(range(1, len(inputs)))
    fixed = places - {2} if newer else frozenset({3, 4})
    return NodeDraft(inputs, attributes, constant=places, fixed=fixed)


QONNX: Mapping[str, Drafter] = {
    "BipolarQuant": _bipolar_quant,
    "IntQuant": _quant,
    "Quant": _quant,
    "Trunc": _trunc,
}
"""Operators of QONNX, whose schemas the package `onnx` lacks."""


# --- the naive model ------------------------------------------------------------------------------


def naive_qonnx(operator: str, inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    """The result of a node, float32."""
    match operator:
        case "BipolarQuant":
            x, scale = inputs
            return (np.where(x >= 0, np.float32(1), np.float32(-1)) * scale).astype(np.float32)
        case "Trunc" if len(inputs) == 5:
            return _naive_trunc(inputs, attributes)
        case "Trunc":
            return _naive_trunc_with_scale(inputs, attributes)
        case _:
            return _naive_quant(inputs, attributes)


def limits(bits: float, signed: bool, narrow: bool) -> tuple[float, float]:
    """The least and the greatest integer of a width."""
    if not signed:
        return 0.0, 2.0**bits - (2 if narrow else 1)
    return -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1


def _naive_quant(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    x, scale, zero, width = inputs
    bits, signed = float(width.reshape(())), bool(attributes["signed"])
    y = x / scale + zero
    if signed and bits == 1:
        y = np.where(y >= 0, np.float32(1), np.float32(-1))
    else:
        low, high = limits(bits, signed, bool(attributes["narrow"]))
        y = _rounding(attributes.get("rounding_mode", "ROUND"))(y.clip(np.float32(low), np.float32(high)))
    return np.asarray((y - zero) * scale, np.float32)


def _naive_trunc(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    x, scale, zero, width, result_width = inputs
    y = np.round(x / scale + zero) / np.float32(2.0 ** float((width - result_width).reshape(())))
    y = _rounding(attributes.get("rounding_mode", "FLOOR"))(y)
    return np.asarray((y - zero) * scale, np.float32)


def _naive_trunc_with_scale(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    x, scale, zero, _, result_scale, width = inputs
    steps = np.exp2(np.round(np.log2(result_scale / scale))).astype(np.float32)
    low, high = limits(float(width.reshape(())), bool(attributes["signed"]), bool(attributes["narrow"]))
    y = (np.round(x / scale + zero) / steps).clip(np.float32(low), np.float32(high))
    y = _rounding(attributes.get("rounding_mode", "FLOOR"))(y)
    return np.asarray((y - zero / steps) * result_scale, np.float32)


def _rounding(mode: str) -> Callable[[Array], Array]:
    """A rounding by its name."""
    half = np.float32(0.5)
    match mode.upper():
        case "CEIL":
            return np.ceil
        case "FLOOR":
            return np.floor
        case "UP":
            return lambda y: np.sign(y) * np.ceil(np.abs(y))
        case "DOWN":
            return np.trunc
        case "HALF_UP":
            return lambda y: np.sign(y) * np.floor(np.abs(y) + half)
        case "HALF_DOWN":
            return lambda y: np.sign(y) * np.ceil(np.abs(y) - half)
        case _:
            return np.round

# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor, element by element.

Those of int8 are tables of 256 results: the arithmetic of the reference kernels is done here, once
for each element that there can be.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt
from typing import Any

import numpy as np

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.tflite.builder import IMAGE, TO_IMAGE
from vdla.compiler.graph.tflite.context import HIGH, LIMITS, LOW, OperatorContext, activation_bounds
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import check_float
from vdla.hardware.fixed_point import divide_by_power, fixed_point, scale_fixed_point
from vdla.hardware.inverse_root import inverse_root

_EVERY = np.arange(LOW, HIGH + 1)
_Float = Callable[[Array], Array]


def operand(at: OperatorContext) -> tuple[str, bool]:
    """The value of the input, as an image where it is one already."""
    is_image = at.builder.has_image(at.index(0))
    return (at.read_image(0) if is_image else at.read(0)), is_image


def elementwise(at: OperatorContext, op: str, attributes: dict[str, Any], *more: str) -> None:
    """A node of the input's shape."""
    name, is_image = operand(at)
    kind = TensorType(at.output.dtype, at.builder.type_of(name).extents)
    at.define(at.add(op, [name, *more], attributes, kind), is_image=is_image)


def table(at: OperatorContext, values: Array) -> None:
    """The results for all int8 elements, saturated."""
    elementwise(at, "vdla.QTable", {"table": np.clip(values, LOW, HIGH).astype(np.int8)})


def function(op: str, compute: _Float | None = None, **attributes: Any) -> Callable[[OperatorContext], None]:  # noqa: ANN401
    """An operator of ONNX on floats; of int8 the function of float32 between two roundings."""

    def convert(at: OperatorContext) -> None:
        if not at.is_quantised or compute is None:
            check_float(at)
            return elementwise(at, op, attributes)
        return tabulate(at, compute)

    return convert


def tabulate(at: OperatorContext, compute: _Float) -> None:
    """The table of a function of float32 between two roundings; infinities saturate."""
    x, y = at.affine(0), at.result
    with np.errstate(over="ignore"):
        values = compute((_EVERY - x.zero_point).astype(np.float32) * x.scale).astype(np.float32)
        quotients = values * (np.float32(1) / y.scale)
    table(at, half_away(quotients) + y.zero_point)


def half_away(values: Array) -> Array:
    """Floats rounded half away from zero, as int64."""
    near = np.clip(values, -(2.0**31), 2.0**31)
    whole = np.trunc(near)
    return np.asarray(whole + np.where(np.abs(near - whole) >= 0.5, np.sign(near), 0)).astype(np.int64)


def relu(name: str) -> Callable[[OperatorContext], None]:
    """RELU, RELU6, RELU_0_TO_1 and RELU_N1_TO_1, perhaps with another scale."""

    def convert(at: OperatorContext) -> None:
        if at.is_quantised:
            x, bounds = at.affine(0), activation_bounds(name, at.result)
            factor = float(x.scale / at.result.scale)
            return elementwise(at, "vdla.QRescale", {"x_zero_point": x.zero_point, **at.rescaled(factor, bounds)})
        check_float(at)
        low, high = LIMITS[name]
        if high is None:
            return elementwise(at, "Relu", {})
        limits = [at.builder.constant(np.array(v, np.float32), f"{at.builder.label}_limit") for v in (low, high)]
        return elementwise(at, "Clip", {}, *limits)

    return convert


def leaky_relu(at: OperatorContext) -> None:
    """LEAKY_RELU: a factor for elements below zero, another for the rest."""
    alpha = np.float32(at.option("Alpha", 0.0))
    if not np.isfinite(alpha):
        decline(f"have a finite slope, got {alpha}")
    if not at.is_quantised:
        check_float(at)
        return elementwise(at, "LeakyRelu", {"alpha": float(alpha)})
    x, y = at.affine(0), at.result
    centred = _EVERY - x.zero_point
    sign = -1 if alpha < 0 else 1
    same, below = (float(factor) for factor in (x.scale / y.scale, x.scale * abs(alpha) / y.scale))
    values = [scale_fixed_point(centred * s, *fixed_point(f)) for s, f in ((1, same), (sign, below))]
    return table(at, np.where(centred >= 0, *values) + y.zero_point)


def prelu(at: OperatorContext) -> None:
    """PRELU: a constant slope for elements below zero, one or one a channel."""
    slope, rank = at.constant(1, "slope"), len(at.tensor(0).shape)
    name, is_image = operand(at)
    ordered = slope.reshape((1,) * (rank - slope.ndim) + slope.shape) if slope.ndim <= rank else slope
    ordered = ordered.transpose(TO_IMAGE) if is_image and ordered.ndim == IMAGE else ordered
    kind = at.builder.type_of(name)
    try:
        fits = np.broadcast_shapes(kind.extents, ordered.shape) == kind.extents
    except ValueError:
        fits = False
    if not fits:
        decline(f"have a slope that broadcasts to {list(at.tensor(0).shape)}, got {list(slope.shape)}")
    if not at.is_quantised:
        check_float(at)
        made = at.add("PRelu", [name, at.builder.constant(ordered, f"{at.builder.label}_slope")], {}, kind)
        return at.define(made, is_image=is_image)
    x, a, y = at.affine(0), at.affine(1), at.result
    zero, factors = np.array(x.zero_point, np.int32), ordered.astype(np.int32) - a.zero_point
    offset, slopes = (
        at.builder.constant(v, f"{at.builder.label}_{n}") for v, n in ((zero, "zero"), (factors, "slope"))
    )
    centred = at.add("Sub", [at.add("Cast", [name], {"to": "int32"}), offset])
    below = at.add("Mul", [centred, slopes])
    results = [
        at.add("vdla.QRescale", [value], {"x_zero_point": 0, **at.rescaled(factor, (LOW, HIGH))}, kind)
        for value, factor in ((centred, float(x.scale / y.scale)), (below, float(x.scale * a.scale / y.scale)))
    ]
    none = at.builder.constant(np.array(0, np.int32), f"{at.builder.label}_none")
    is_above = at.add("GreaterOrEqual", [centred, none])
    return at.define(at.add("Where", [is_above, *results], {}, kind), is_image=is_image)


def absolute(at: OperatorContext) -> None:
    """ABS."""
    if not at.is_quantised:
        return elementwise(at, "Abs", {})
    x, y = at.affine(0), at.result
    magnitude = np.abs(_EVERY - x.zero_point)
    if x.scale == y.scale:
        return table(at, magnitude + y.zero_point)
    return table(at, scale_fixed_point(magnitude, *fixed_point(float(x.scale / y.scale))) + y.zero_point)


# --- hard swish -----------------------------------------------------------------------------------


_INT16 = (1 << 15) - 1
_HIGH_BITS = 7
_REACH = np.float32(3.0 / 32768.0)  # the scale at which +-3 fill 16 bits


def hard_swish(at: OperatorContext) -> None:
    """HARD_SWISH: x * clip(x + 3, 0, 6) / 6; of int8, with 16-bit intermediate results."""
    if not at.is_quantised:
        check_float(at)
        return elementwise(at, "HardSwish", {})
    x, y = at.affine(0), at.result
    fine = x.scale * np.float32(1 / 128)
    (factor, shift), (gate_factor, gate_shift) = (_short_factor(fine / y.scale), _short_factor(fine / _REACH))
    data = (_EVERY - x.zero_point) << _HIGH_BITS
    before_shift = _short_product(data, factor)
    gate = _short(data << max(gate_shift - 1, 0)) if gate_shift > 0 else data
    gate = _short_product(gate, gate_factor)
    gate = _short(gate << 1) if gate_shift > 0 else divide_by_power(gate, -gate_shift)
    gate = (gate + (1 << 15)) >> 1
    product = np.trunc(gate * before_shift / (1 << 15)).astype(np.int64)
    return table(at, _shifted(product, shift) + y.zero_point)


def _short_factor(real: np.float32) -> tuple[int, int]:
    """A factor as a multiplier of 15 bits and a left shift."""
    [multiplier], [shift], _ = fixed_point(float(real)).tolist()
    return min((multiplier + (1 << 15)) >> 16, _INT16), shift


def _short_product(values: Array, factor: int) -> Array:
    """The upper half of a product of 16 bits, rounded half up."""
    return np.asarray((values * factor + (1 << 14)) >> 15)


def _short(values: Array) -> Array:
    return np.clip(values, -_INT16 - 1, _INT16)


def _shifted(values: Array, shift: int) -> Array:
    return values << shift if shift > 0 else divide_by_power(values, -shift)


# --- functions with a definition of their own -----------------------------------------------------


def gelu(at: OperatorContext) -> None:
    """GELU, by the error function or by a hyperbolic tangent."""
    is_approximate = bool(at.option("Approximate", False))
    if not at.is_quantised:
        check_float(at)
        return elementwise(at, "Gelu", {"approximate": "tanh" if is_approximate else "none"})
    return tabulate(at, gelu_by_tanh if is_approximate else gelu_by_erf)


def logarithm(at: OperatorContext) -> None:
    """LOG: of int8, the least result where there is no logarithm."""
    if not at.is_quantised:
        check_float(at)
        return elementwise(at, "Log", {})
    least = np.float32(LOW - at.result.zero_point) * at.result.scale
    return tabulate(at, lambda x: np.where(x > 0, np.log(np.where(x > 0, x, np.float32(1))), least))


def square_root(at: OperatorContext) -> None:
    """SQRT: of int8 rounded towards zero; of numbers below zero, which have none, as of zero."""
    if not at.is_quantised:
        check_float(at)
        return elementwise(at, "Sqrt", {})
    x, y = at.affine(0), at.result
    roots = np.sqrt(x.scale * np.maximum(_EVERY - x.zero_point, 0).astype(np.float32))
    return table(at, np.trunc(roots / y.scale).astype(np.int64) + y.zero_point)


_ROOT_BITS = 20  # of a fraction in 1 / sqrt of an integer


def inverse_square_root(at: OperatorContext) -> None:
    """RSQRT: of int8 in fixed point; the greatest result from zero down, where there is no root."""
    if not at.is_quantised:
        check_float(at)
        name, is_image = operand(at)
        return at.define(at.add("Reciprocal", [at.add("Sqrt", [name])]), is_image=is_image)
    x, y = at.affine(0), at.result
    centred = np.maximum(_EVERY - x.zero_point, 0)
    root, up = inverse_root(centred)
    [factor], [shift], _ = fixed_point(1 / (float(np.sqrt(x.scale)) * y.wide))
    scaled = scale_fixed_point(scale_fixed_point(1, root, up + _ROOT_BITS), factor, shift - _ROOT_BITS)
    return table(at, np.where(centred > 0, scaled + y.zero_point, HIGH))


# --- functions of float32 -------------------------------------------------------------------------


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)))


def elu(x: Array) -> Array:
    """e^x - 1 below zero."""
    return np.where(x < 0, np.expm1(x), x)


def gelu_by_erf(x: Array) -> Array:
    """x times the normal distribution up to x, in double precision."""
    wide = x.astype(np.float64)
    return np.asarray(wide / 2 * (1 + np.array([erf(value / sqrt(2)) for value in wide])))


def gelu_by_tanh(x: Array) -> Array:
    """The approximation with a hyperbolic tangent, in double precision."""
    wide = x.astype(np.float64)
    return np.asarray(wide / 2 * (1 + np.tanh(sqrt(2 / pi) * (wide + 0.044715 * wide**3))))

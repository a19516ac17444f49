# SPDX-License-Identifier: Apache-2.0
"""Operators on one element at a time: activations and mathematical functions.

Each maps a tensor to one of the same shape and dtype, by the formula of its docstring. No
intermediate float overflows: sigmoid(-1000) is 0, not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from vdla.compiler import te
from vdla.compiler.ir import is_float, limits
from vdla.compiler.operators.checks import OperatorError, check_choice, check_float, check_number, check_tensor, number
from vdla.compiler.operators.results import result_name

Body = Callable[[te.Value], te.Value]
_GELU_FORMS = ("none", "tanh")


def elementwise(x: te.Tensor, body: Body, name: str) -> te.Tensor:
    """The tensor whose elements are `body` of those of `x`."""
    return te.compute(x.shape, lambda *i: body(x[i]), name)


class ElementwiseOperator(Protocol):
    """An operator on each element of a tensor, which may name its result."""

    def __call__(self, x: te.Tensor, name: str | None = None) -> te.Tensor:
        """The operator on the elements of `x`."""


def _operator(
    check: Callable[[str, str, te.Tensor], None], operator: str, body: Body, formula: str
) -> ElementwiseOperator:
    """The operator that applies `body`; `formula` is its docstring."""

    def apply(x: te.Tensor, name: str | None = None) -> te.Tensor:
        check(operator, "x", x)
        return elementwise(x, body, result_name(x, operator, name))

    apply.__name__, apply.__doc__ = operator, formula
    return apply


def _of_floats(operator: str, body: Body, formula: str = "") -> ElementwiseOperator:
    return _operator(check_float, operator, body, formula)


def _of_numbers(operator: str, body: Body, formula: str = "") -> ElementwiseOperator:
    return _operator(check_number, operator, body, formula)


# --- parts ----------------------------------------------------------------------------------------


def _zero(v: te.Value) -> te.Value:
    """0 of the dtype of `v`."""
    return te.const(0, v.dtype)


def _minus_one(v: te.Value) -> te.Value:
    """-1 of the dtype of `v`; 0 for an unsigned dtype, which has no negative elements."""
    return te.const(-1 if limits(v.dtype)[0] < 0 else 0, v.dtype)


def magnitude(v: te.Value) -> te.Value:
    """|v|; 0 for -0."""
    return te.maximum(v, -v) if limits(v.dtype)[0] < 0 else v


def integer_power(v: te.Value, order: int) -> te.Value:
    """v to an integer power of at least 1: products for small ones."""
    if order > 4:
        return te.pow(v, float(order))
    power = v
    for _ in range(order - 1):
        power = power * v
    return power


def root(v: te.Value, order: int) -> te.Value:
    """The root of an integer order of at least 1."""
    if order > 2:
        return te.pow(v, 1 / order)
    return te.sqrt(v) if order == 2 else v


def _softplus(v: te.Value) -> te.Value:
    """max(v, 0) + log(1 + e), e = exp(-|v|); e / ((1 + e) - 1) corrects the rounding of 1 + e."""
    small = te.exp(-magnitude(v))
    rounded = 1 + small
    return te.maximum(v, 0) + te.select(rounded == 1, small, te.log(rounded) * small / (rounded - 1))


def _gelu(v: te.Value) -> te.Value:
    """v / 2 * (1 + erf(v / sqrt(2)))."""
    return v * 0.5 * (1 + te.erf(v * math.sqrt(0.5)))


def _gelu_tanh(v: te.Value) -> te.Value:
    """v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3)))."""
    return v * 0.5 * (1 + te.tanh((v + v * v * v * 0.044715) * math.sqrt(2 / math.pi)))


# --- any dtype ------------------------------------------------------------------------------------


def identity(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """A copy."""
    check_tensor("identity", "x", x)
    return elementwise(x, lambda v: v, result_name(x, "identity", name))


def cast(x: te.Tensor, dtype: str, name: str | None = None) -> te.Tensor:
    """`x` as `dtype`: integers wrap, floats truncate and saturate to integers, bool is x != 0."""
    check_tensor("cast", "x", x)
    return elementwise(x, lambda v: te.cast(dtype, v), result_name(x, dtype, name))


def logical_not(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """not x, of bools."""
    check_tensor("logical_not", "x", x)
    if x.dtype != "bool":
        raise OperatorError(f"logical_not: x must be of dtype bool, got {x.dtype}")
    return elementwise(x, lambda v: v == te.const(False, "bool"), result_name(x, "logical_not", name))


# --- numbers --------------------------------------------------------------------------------------

negative = _of_numbers(
    "negative",
    lambda v: v * -1.0 if is_float(v.dtype) else -v,
    "-x; the lowest integer wraps to itself, and floats include -0.",
)

absolute = _of_numbers("absolute", magnitude, "|x|; the lowest integer wraps to itself.")

sign = _of_numbers(
    "sign",
    lambda v: te.select(v > 0, te.const(1, v.dtype), te.select(v < 0, _minus_one(v), v * _zero(v))),
    "-1, 0 or 1; NaN for NaN.",
)

square = _of_numbers("square", lambda v: v * v, "x * x; integers wrap.")


def clip(
    x: te.Tensor, min: te.Number | None = None, max: te.Number | None = None, name: str | None = None
) -> te.Tensor:
    """`x` limited to `min`..`max`; None is no limit."""
    least = None if min is None else number("clip", "min", min)
    most = None if max is None else number("clip", "max", max)

    def body(v: te.Value) -> te.Value:
        raised = v if least is None else te.maximum(v, least)
        return raised if most is None else te.minimum(raised, most)

    return _of_numbers("clip", body)(x, name)


relu = _of_numbers("relu", lambda v: te.maximum(v, 0), "max(x, 0).")

relu6 = _of_numbers("relu6", lambda v: te.clip(v, 0, 6), "min(max(x, 0), 6).")


# --- functions of floats --------------------------------------------------------------------------

exp = _of_floats("exp", te.exp, "exp(x).")

log = _of_floats("log", te.log, "The natural logarithm.")

sqrt = _of_floats("sqrt", te.sqrt, "The square root.")

reciprocal = _of_floats("reciprocal", lambda v: 1 / v, "1 / x.")

erf = _of_floats("erf", te.erf, "The error function.")

sin = _of_floats("sin", te.sin, "The sine.")

cos = _of_floats("cos", te.cos, "The cosine.")

floor = _of_floats("floor", te.floor, "The largest integer not greater than x.")

ceil = _of_floats("ceil", te.ceil, "The smallest integer not less than x.")

round = _of_floats("round", te.round, "The nearest integer, ties to even.")

isnan = _of_floats("isnan", te.isnan, "Whether an element is NaN, as bool.")

tanh = _of_floats("tanh", te.tanh, "The hyperbolic tangent.")


# --- activations ----------------------------------------------------------------------------------

sigmoid = _of_floats("sigmoid", te.sigmoid, "1 / (1 + exp(-x)).")

silu = _of_floats("silu", lambda v: v * te.sigmoid(v), "x * sigmoid(x), also called swish; -0 for very negative x.")

softplus = _of_floats("softplus", _softplus, "log(1 + exp(x)), accurate where exp(x) is tiny.")

mish = _of_floats("mish", lambda v: v * te.tanh(_softplus(v)), "x * tanh(softplus(x)).")

softsign = _of_floats("softsign", lambda v: v / (1 + magnitude(v)), "x / (1 + |x|).")


def leaky_relu(x: te.Tensor, alpha: float = 0.01, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else alpha * x."""
    slope = number("leaky_relu", "alpha", alpha)
    return _of_floats("leaky_relu", lambda v: te.select(v < 0, v * slope, v))(x, name)


def elu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else alpha * (exp(x) - 1)."""
    factor = number("elu", "alpha", alpha)
    return _of_floats("elu", lambda v: te.select(v < 0, (te.exp(v) - 1) * factor, v))(x, name)


def selu(
    x: te.Tensor, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805, name: str | None = None
) -> te.Tensor:
    """gamma * elu(x, alpha)."""
    inner, outer = number("selu", "alpha", alpha), number("selu", "gamma", gamma)
    return _of_floats("selu", lambda v: te.select(v > 0, v, (te.exp(v) - 1) * inner) * outer)(x, name)


def celu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    factor = number("celu", "alpha", alpha)
    if not factor:
        raise OperatorError(f"celu: alpha must not be 0, got {factor}")
    return _of_floats("celu", lambda v: te.select(v > 0, v, (te.exp(v / factor) - 1) * factor))(x, name)


def thresholded_relu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """x where x > alpha, else 0."""
    threshold = number("thresholded_relu", "alpha", alpha)
    return _of_floats("thresholded_relu", lambda v: te.select(v > threshold, v, _zero(v)))(x, name)


def hard_sigmoid(x: te.Tensor, alpha: float = 0.2, beta: float = 0.5, name: str | None = None) -> te.Tensor:
    """min(max(alpha * x + beta, 0), 1)."""
    slope, offset = number("hard_sigmoid", "alpha", alpha), number("hard_sigmoid", "beta", beta)
    return _of_floats("hard_sigmoid", lambda v: te.clip(v * slope + offset, 0, 1))(x, name)


hard_swish = _of_floats(
    "hard_swish", lambda v: v * te.clip(v * (1 / 6) + 0.5, 0, 1), "x * min(max(x / 6 + 1 / 2, 0), 1)."
)


def gelu(x: te.Tensor, approximate: str = "none", name: str | None = None) -> te.Tensor:
    """x / 2 * (1 + erf(x / sqrt(2))); `approximate="tanh"` approximates erf by tanh."""
    check_choice("gelu", "approximate", approximate, _GELU_FORMS)
    return _of_floats("gelu", _gelu if approximate == "none" else _gelu_tanh)(x, name)

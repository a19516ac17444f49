"""Operators on one element at a time: activations and mathematical functions.

Each maps a tensor to one of the same shape and dtype, by the formula of its docstring. No
intermediate float overflows: sigmoid(-1000) is 0, not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.ir import is_float, limits
from vdla.compiler.operators.checks import OperatorError, check_choice, check_float, check_number, check_tensor, number
from vdla.compiler.operators.results import result_name

Body = Callable[[te.Value], te.Value]
_GELU_FORMS = ("none", "tanh")


def elementwise(x: te.Tensor, body: Body, name: str) -> te.Tensor:
    """The tensor whose elements are `body` of those of `x`."""
    return te.compute(x.shape, lambda *i: body(x[i]), name)


def _of_floats(x: te.Tensor, operator: str, body: Body, name: str | None) -> te.Tensor:
    """`elementwise` for floats only."""
    check_float(operator, "x", x)
    return elementwise(x, body, result_name(x, operator, name))


def _of_numbers(x: te.Tensor, operator: str, body: Body, name: str | None) -> te.Tensor:
    """`elementwise` for integers and floats."""
    check_number(operator, "x", x)
    return elementwise(x, body, result_name(x, operator, name))


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


def negative(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """-x; the lowest integer wraps to itself, and floats include -0."""
    float_x = is_float(x.dtype) if isinstance(x, te.Tensor) else False
    return _of_numbers(x, "negative", lambda v: v * -1.0 if float_x else -v, name)


def absolute(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """|x|; the lowest integer wraps to itself."""
    return _of_numbers(x, "absolute", magnitude, name)


def sign(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """-1, 0 or 1; NaN for NaN."""
    return _of_numbers(
        x, "sign", lambda v: te.select(v > 0, _one(v), te.select(v < 0, _minus_one(v), v * _zero(v))), name
    )


def square(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * x; integers wrap."""
    return _of_numbers(x, "square", lambda v: v * v, name)


def clip(
    x: te.Tensor, min: te.Number | None = None, max: te.Number | None = None, name: str | None = None
) -> te.Tensor:
    """`x` limited to `min`..`max`; None is no limit."""
    least = None if min is None else number("clip", "min", min)
    most = None if max is None else number("clip", "max", max)

    def body(v: te.Value) -> te.Value:
        raised = v if least is None else te.maximum(v, least)
        return raised if most is None else te.minimum(raised, most)

    return _of_numbers(x, "clip", body, name)


def relu(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """max(x, 0)."""
    return _of_numbers(x, "relu", lambda v: te.maximum(v, 0), name)


def relu6(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """min(max(x, 0), 6)."""
    return _of_numbers(x, "relu6", lambda v: te.clip(v, 0, 6), name)


# --- functions of floats --------------------------------------------------------------------------


def exp(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """exp(x)."""
    return _of_floats(x, "exp", te.exp, name)


def log(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The natural logarithm."""
    return _of_floats(x, "log", te.log, name)


def sqrt(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The square root."""
    return _of_floats(x, "sqrt", te.sqrt, name)


def reciprocal(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """1 / x."""
    return _of_floats(x, "reciprocal", lambda v: 1 / v, name)


def erf(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The error function."""
    return _of_floats(x, "erf", te.erf, name)


def sin(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The sine."""
    return _of_floats(x, "sin", te.sin, name)


def cos(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The cosine."""
    return _of_floats(x, "cos", te.cos, name)


def floor(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The largest integer not greater than x."""
    return _of_floats(x, "floor", te.floor, name)


def ceil(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The smallest integer not less than x."""
    return _of_floats(x, "ceil", te.ceil, name)


def round(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The nearest integer, ties to even."""
    return _of_floats(x, "round", te.round, name)


def isnan(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether an element is NaN, as bool."""
    return _of_floats(x, "isnan", te.isnan, name)


def tanh(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The hyperbolic tangent."""
    return _of_floats(x, "tanh", te.tanh, name)


# --- activations ----------------------------------------------------------------------------------


def sigmoid(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """1 / (1 + exp(-x))."""
    return _of_floats(x, "sigmoid", te.sigmoid, name)


def silu(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * sigmoid(x), also called swish; -0 for very negative x."""
    return _of_floats(x, "silu", lambda v: v * te.sigmoid(v), name)


def softplus(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """log(1 + exp(x)), accurate where exp(x) is tiny."""
    return _of_floats(x, "softplus", _softplus, name)


def mish(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * tanh(softplus(x))."""
    return _of_floats(x, "mish", lambda v: v * te.tanh(_softplus(v)), name)


def softsign(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x / (1 + |x|)."""
    return _of_floats(x, "softsign", lambda v: v / (1 + magnitude(v)), name)


def leaky_relu(x: te.Tensor, alpha: float = 0.01, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else alpha * x."""
    slope = number("leaky_relu", "alpha", alpha)
    return _of_floats(x, "leaky_relu", lambda v: te.select(v < 0, v * slope, v), name)


def elu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else alpha * (exp(x) - 1)."""
    factor = number("elu", "alpha", alpha)
    return _of_floats(x, "elu", lambda v: te.select(v < 0, (te.exp(v) - 1) * factor, v), name)


def selu(
    x: te.Tensor, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805, name: str | None = None
) -> te.Tensor:
    """gamma * elu(x, alpha)."""
    inner, outer = number("selu", "alpha", alpha), number("selu", "gamma", gamma)
    return _of_floats(x, "selu", lambda v: te.select(v > 0, v, (te.exp(v) - 1) * inner) * outer, name)


def celu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    factor = number("celu", "alpha", alpha)
    if not factor:
        raise OperatorError(f"celu: alpha must not be 0, got {factor}")
    return _of_floats(x, "celu", lambda v: te.select(v > 0, v, (te.exp(v / factor) - 1) * factor), name)


def thresholded_relu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """x where x > alpha, else 0."""
    threshold = number("thresholded_relu", "alpha", alpha)
    return _of_floats(x, "thresholded_relu", lambda v: te.select(v > threshold, v, _zero(v)), name)


def hard_sigmoid(x: te.Tensor, alpha: float = 0.2, beta: float = 0.5, name: str | None = None) -> te.Tensor:
    """min(max(alpha * x + beta, 0), 1)."""
    slope, offset = number("hard_sigmoid", "alpha", alpha), number("hard_sigmoid", "beta", beta)
    return _of_floats(x, "hard_sigmoid", lambda v: te.clip(v * slope + offset, 0, 1), name)


def hard_swish(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * min(max(x / 6 + 1 / 2, 0), 1)."""
    return _of_floats(x, "hard_swish", lambda v: v * te.clip(v * (1 / 6) + 0.5, 0, 1), name)


def gelu(x: te.Tensor, approximate: str = "none", name: str | None = None) -> te.Tensor:
    """x / 2 * (1 + erf(x / sqrt(2))); `approximate="tanh"` approximates erf by tanh."""
    check_choice("gelu", "approximate", approximate, _GELU_FORMS)
    return _of_floats(x, "gelu", _gelu if approximate == "none" else _gelu_tanh, name)


# --- parts ----------------------------------------------------------------------------------------


def _zero(v: te.Value) -> te.Value:
    """0 of the dtype of `v`."""
    return te.const(0, v.dtype)


def _one(v: te.Value) -> te.Value:
    """1 of the dtype of `v`."""
    return te.const(1, v.dtype)


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

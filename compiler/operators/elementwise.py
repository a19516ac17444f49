"""Operators on one element at a time: activations and mathematical functions.

Each is a function from a tensor to a tensor of the same shape and dtype. Values are those of the formula in the
docstring, evaluated so that no float overflows on the way: a sigmoid of -1000 is 0, not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.ir import is_float, limits
from vdla.compiler.operators.checks import OperatorError, check_choice, check_float, check_number, check_tensor, number
from vdla.compiler.operators.results import result_name

Body = Callable[[te.Value], te.Value]
GELU_FORMS = ("none", "tanh")


def elementwise(x: te.Tensor, body: Body, name: str) -> te.Tensor:
    """The tensor whose elements are `body` of those of `x`."""
    return te.compute(x.shape, lambda *i: body(x[i]), name)


def of_float(x: te.Tensor, operator: str, body: Body, name: str | None) -> te.Tensor:
    """`elementwise` for floats only."""
    check_float(operator, "x", x)
    return elementwise(x, body, result_name(x, operator, name))


def of_number(x: te.Tensor, operator: str, body: Body, name: str | None) -> te.Tensor:
    """`elementwise` for integers and floats."""
    check_number(operator, "x", x)
    return elementwise(x, body, result_name(x, operator, name))


# --- any dtype -------------------------------------------------------------------------------------------------------


def identity(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """A copy."""
    check_tensor("identity", "x", x)
    return elementwise(x, lambda v: v, result_name(x, "identity", name))


def cast(x: te.Tensor, dtype: str, name: str | None = None) -> te.Tensor:
    """`x` in another dtype: integers wrap, floats to integers round towards zero and saturate; to bool: not 0."""
    check_tensor("cast", "x", x)
    return elementwise(x, lambda v: te.cast(dtype, v), result_name(x, dtype, name))


def logical_not(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """True where `x`, of bools, is False."""
    check_tensor("logical_not", "x", x)
    if x.dtype != "bool":
        raise OperatorError(f"logical_not: x must be of dtype bool, got {x.dtype}")
    return elementwise(x, lambda v: v == te.const(False, "bool"), result_name(x, "logical_not", name))


# --- numbers ---------------------------------------------------------------------------------------------------------


def negative(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """-x; the lowest integer stays itself. A float's sign changes, that of 0 too."""
    float_x = is_float(x.dtype) if isinstance(x, te.Tensor) else False
    return of_number(x, "negative", lambda v: v * -1.0 if float_x else -v, name)


def absolute(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """|x|; the lowest integer stays itself."""
    return of_number(x, "absolute", magnitude, name)


def sign(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """-1, 0 or 1; NaN of NaN."""
    return of_number(x, "sign", lambda v: te.select(v > 0, unit(v), te.select(v < 0, minus_unit(v), v * zero(v))), name)


def square(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * x; integers wrap."""
    return of_number(x, "square", lambda v: v * v, name)


def clip(
    x: te.Tensor, low: te.Number | None = None, high: te.Number | None = None, name: str | None = None
) -> te.Tensor:
    """min(max(x, low), high); None is no bound."""
    least = None if low is None else number("clip", "low", low)
    most = None if high is None else number("clip", "high", high)

    def body(v: te.Value) -> te.Value:
        raised = v if least is None else te.maximum(v, least)
        return raised if most is None else te.minimum(raised, most)

    return of_number(x, "clip", body, name)


def relu(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """max(x, 0)."""
    return of_number(x, "relu", lambda v: te.maximum(v, 0), name)


def relu6(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """min(max(x, 0), 6)."""
    return of_number(x, "relu6", lambda v: te.clip(v, 0, 6), name)


# --- functions of floats ---------------------------------------------------------------------------------------------


def exp(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """e to the power of x."""
    return of_float(x, "exp", te.exp, name)


def log(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The natural logarithm."""
    return of_float(x, "log", te.log, name)


def sqrt(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The square root."""
    return of_float(x, "sqrt", te.sqrt, name)


def reciprocal(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """1 / x."""
    return of_float(x, "reciprocal", lambda v: 1 / v, name)


def erf(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The error function."""
    return of_float(x, "erf", te.erf, name)


def sin(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The sine."""
    return of_float(x, "sin", te.sin, name)


def cos(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The cosine."""
    return of_float(x, "cos", te.cos, name)


def floor(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The largest whole number that is not greater."""
    return of_float(x, "floor", te.floor, name)


def ceil(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The smallest whole number that is not less."""
    return of_float(x, "ceil", te.ceil, name)


def round(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The nearest whole number, of two the even one."""
    return of_float(x, "round", te.round, name)


def isnan(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """Whether an element is no number, as bool."""
    return of_float(x, "isnan", te.isnan, name)


def tanh(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """The hyperbolic tangent."""
    return of_float(x, "tanh", te.tanh, name)


# --- activations -----------------------------------------------------------------------------------------------------


def sigmoid(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """1 / (1 + exp(-x))."""
    return of_float(x, "sigmoid", te.sigmoid, name)


def silu(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * sigmoid(x), also called swish; -0 towards minus infinity."""
    return of_float(x, "silu", lambda v: v * te.sigmoid(v), name)


def softplus(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """log(1 + exp(x)), to the last places where exp(x) is tiny too."""
    return of_float(x, "softplus", softplus_of, name)


def mish(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * tanh(softplus(x))."""
    return of_float(x, "mish", lambda v: v * te.tanh(softplus_of(v)), name)


def softsign(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x / (1 + |x|)."""
    return of_float(x, "softsign", lambda v: v / (1 + magnitude(v)), name)


def leaky_relu(x: te.Tensor, alpha: float = 0.01, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else alpha * x."""
    slope = number("leaky_relu", "alpha", alpha)
    return of_float(x, "leaky_relu", lambda v: te.select(v < 0, v * slope, v), name)


def elu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """x where x >= 0, else alpha * (exp(x) - 1)."""
    factor = number("elu", "alpha", alpha)
    return of_float(x, "elu", lambda v: te.select(v < 0, (te.exp(v) - 1) * factor, v), name)


def selu(
    x: te.Tensor, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805, name: str | None = None
) -> te.Tensor:
    """gamma * elu(x, alpha)."""
    inner, outer = number("selu", "alpha", alpha), number("selu", "gamma", gamma)
    return of_float(x, "selu", lambda v: te.select(v > 0, v, (te.exp(v) - 1) * inner) * outer, name)


def celu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    factor = number("celu", "alpha", alpha)
    if not factor:
        raise OperatorError(f"celu: alpha must not be 0, got {factor}")
    return of_float(x, "celu", lambda v: te.select(v > 0, v, (te.exp(v / factor) - 1) * factor), name)


def thresholded_relu(x: te.Tensor, alpha: float = 1.0, name: str | None = None) -> te.Tensor:
    """x where x > alpha, else 0."""
    threshold = number("thresholded_relu", "alpha", alpha)
    return of_float(x, "thresholded_relu", lambda v: te.select(v > threshold, v, zero(v)), name)


def hard_sigmoid(x: te.Tensor, alpha: float = 0.2, beta: float = 0.5, name: str | None = None) -> te.Tensor:
    """min(max(alpha * x + beta, 0), 1)."""
    slope, offset = number("hard_sigmoid", "alpha", alpha), number("hard_sigmoid", "beta", beta)
    return of_float(x, "hard_sigmoid", lambda v: te.clip(v * slope + offset, 0, 1), name)


def hard_swish(x: te.Tensor, name: str | None = None) -> te.Tensor:
    """x * min(max(x / 6 + 1 / 2, 0), 1)."""
    return of_float(x, "hard_swish", lambda v: v * te.clip(v * (1 / 6) + 0.5, 0, 1), name)


def gelu(x: te.Tensor, approximate: str = "none", name: str | None = None) -> te.Tensor:
    """x / 2 * (1 + erf(x / sqrt(2))), or with approximate="tanh" the form in which tanh stands for erf."""
    check_choice("gelu", "approximate", approximate, GELU_FORMS)
    return of_float(x, "gelu", gelu_of if approximate == "none" else gelu_by_tanh, name)


# --- parts -----------------------------------------------------------------------------------------------------------


def zero(v: te.Value) -> te.Value:
    """0 of the dtype of `v`."""
    return te.const(0, v.dtype)


def unit(v: te.Value) -> te.Value:
    """1 of the dtype of `v`."""
    return te.const(1, v.dtype)


def minus_unit(v: te.Value) -> te.Value:
    """-1 of the dtype of `v`; of an unsigned one, where nothing is negative, the 0 that no element takes."""
    return te.const(-1 if limits(v.dtype)[0] < 0 else 0, v.dtype)


def magnitude(v: te.Value) -> te.Value:
    """|v|, and 0 of -0."""
    return te.maximum(v, -v) if limits(v.dtype)[0] < 0 else v


def softplus_of(v: te.Value) -> te.Value:
    """max(v, 0) + log(1 + exp(-|v|)); the logarithm of a rounded 1 + e is put right by e / (the rounded sum - 1)."""
    small = te.exp(-magnitude(v))
    rounded = 1 + small
    return te.maximum(v, 0) + te.select(rounded == 1, small, te.log(rounded) * small / (rounded - 1))


def gelu_of(v: te.Value) -> te.Value:
    """v / 2 * (1 + erf(v / sqrt(2)))."""
    return v * 0.5 * (1 + te.erf(v * math.sqrt(0.5)))


def gelu_by_tanh(v: te.Value) -> te.Value:
    """v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 * v^3)))."""
    return v * 0.5 * (1 + te.tanh((v + v * v * v * 0.044715) * math.sqrt(2 / math.pi)))

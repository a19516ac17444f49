"""Rules of operators on one element at a time: functions, activations, predicates, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.precision import in_float32
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, OperatorRule
from vdla.compiler.ir import DTYPES, is_float, limits

_Function = Callable[..., te.Tensor]
_SUB_BYTE = ("int2", "int4")  # ONNX packs them in bytes; kernels keep one in a byte
_MIN, _MAX = 1, 2  # inputs of Clip


def _unary(function: _Function) -> Expression:
    """A function of one tensor."""
    return lambda call: in_float32(call, function, call.tensor(0))


def _activation(function: _Function, **defaults: float | str) -> Expression:
    """A function of one tensor and attributes, which it takes by their names in ONNX."""

    def expression(call: NodeCall) -> te.Tensor:
        options = {name: call.attribute(name, default) for name, default in defaults.items()}
        return in_float32(call, partial(function, **options), call.tensor(0))

    return expression


def _on_elements(body: Callable[..., te.Value], **defaults: float) -> Expression:
    """A function of one element and attributes."""

    def expression(call: NodeCall) -> te.Tensor:
        options = {name: call.attribute(name, default) for name, default in defaults.items()}

        def function(x: te.Tensor, name: str) -> te.Tensor:
            return operators.elementwise(x, lambda v: body(v, **options), name)

        return in_float32(call, function, call.tensor(0))

    return expression


# --- bodies ---------------------------------------------------------------------------------------


def _isinf(v: te.Value, detect_negative: int, detect_positive: int) -> te.Value:
    low, high = limits(v.dtype)
    below, above = v == te.const(low, v.dtype), v == te.const(high, v.dtype)
    if detect_negative and detect_positive:
        return below | above
    return below if detect_negative else above if detect_positive else v != v + te.const(0, v.dtype)


def _shrink(v: te.Value, bias: float, lambd: float) -> te.Value:
    zero = te.const(0, v.dtype)
    return te.select(v < -lambd, v + bias, te.select(v > lambd, v - bias, zero))


def _swish(v: te.Value, alpha: float) -> te.Value:
    return v * te.sigmoid(v * alpha)


def _sinh(v: te.Value) -> te.Value:
    """(e - 1 / e) / 2; a series where that would cancel."""
    square = v * v
    series = v * (1 + square * (1 / 6) * (1 + square * (1 / 20) * (1 + square * (1 / 42))))
    return te.select((v < 0.5) & (v > -0.5), series, te.exp(v - math.log(2)) - te.exp(-v - math.log(2)))


def _cosh(v: te.Value) -> te.Value:
    return te.exp(v - math.log(2)) + te.exp(-v - math.log(2))


# --- several inputs -------------------------------------------------------------------------------


def _clip(call: NodeCall) -> te.Tensor:
    low, high = call.optional(_MIN), call.optional(_MAX)
    first = te.const(0, "int32")

    def function(x: te.Tensor, least: te.Tensor | None, most: te.Tensor | None, name: str) -> te.Tensor:
        def body(v: te.Value) -> te.Value:
            raised = v if least is None else te.maximum(v, least[first])
            return raised if most is None else te.minimum(raised, most[first])

        return operators.elementwise(x, body, name)

    limits_known = [None if t is None else call.constants[n] for n, t in ((_MIN, low), (_MAX, high))]
    if all(known is not None for known, t in zip(limits_known, (low, high), strict=True) if t is not None):
        least, most = (None if known is None else known.reshape(-1)[0].item() for known in limits_known)
        clip = partial(operators.clip, min=_bound(call, least), max=_bound(call, most))
        return in_float32(call, lambda x, name: clip(x, name=name), call.tensor(0))
    return in_float32(call, function, call.tensor(0), low, high)


def _bound(call: NodeCall, value: float | None) -> float | None:
    """A limit of Clip; an infinite one is none."""
    return None if value is None or (is_float(call.result.dtype) and math.isinf(value)) else value


def _cast(call: NodeCall) -> te.Tensor:
    x, dtype = call.tensor(0), call.result.dtype
    for known in (x.dtype, dtype):
        if known not in DTYPES or known in _SUB_BYTE:
            call.decline(f"cast between types of whole bytes that kernels have, got {x.dtype} to {dtype}")
    return operators.cast(x, dtype, name=call.name())


def _identity(call: NodeCall) -> te.Tensor:
    return operators.identity(call.tensor(0), name=call.name())


def _dropout(call: NodeCall) -> tuple[te.Tensor, ...]:
    """The identity; training draws random numbers."""
    training = call.constant(2, "training_mode")
    if training is not None and training.any():
        call.decline("not train")
    x = call.tensor(0)
    results = [operators.identity(x, name=call.name())]
    if len(call.node.outputs) > 1 and call.name(1):
        results.append(te.full(x.shape, True, "bool", call.name(1)))
    return tuple(results)


_FUNCTIONS: Mapping[str, _Function] = {
    "Abs": operators.absolute,
    "BitwiseNot": lambda x, name: operators.elementwise(x, lambda v: ~v, name),
    "Ceil": operators.ceil,
    "Cos": operators.cos,
    "Erf": operators.erf,
    "Exp": operators.exp,
    "Floor": operators.floor,
    "HardSwish": operators.hard_swish,
    "IsNaN": operators.isnan,
    "Log": operators.log,
    "Mish": operators.mish,
    "Neg": operators.negative,
    "Not": operators.logical_not,
    "Reciprocal": operators.reciprocal,
    "Relu": operators.relu,
    "Round": operators.round,
    "Sigmoid": operators.sigmoid,
    "Sign": operators.sign,
    "Sin": operators.sin,
    "Softplus": operators.softplus,
    "Softsign": operators.softsign,
    "Sqrt": operators.sqrt,
    "Tanh": operators.tanh,
}
_EXPRESSIONS: Mapping[str, Expression] = {
    **{op: _unary(function) for op, function in _FUNCTIONS.items()},
    "Cast": _cast,
    "CastLike": _cast,
    "Celu": _activation(operators.celu, alpha=1.0),
    "Clip": _clip,
    "Cosh": _on_elements(_cosh),
    "Dropout": _dropout,
    "Elu": _activation(operators.elu, alpha=1.0),
    "Gelu": _activation(operators.gelu, approximate="none"),
    "HardSigmoid": _activation(operators.hard_sigmoid, alpha=0.2, beta=0.5),
    "Identity": _identity,
    "IsInf": _on_elements(_isinf, detect_negative=1, detect_positive=1),
    "LeakyRelu": _activation(operators.leaky_relu, alpha=0.01),
    "Selu": _activation(operators.selu, alpha=1.6732632423543772, gamma=1.0507009873554805),
    "Shrink": _on_elements(_shrink, bias=0.0, lambd=0.5),
    "Sinh": _on_elements(_sinh),
    "Swish": _on_elements(_swish, alpha=1.0),
    "Tan": _on_elements(lambda v: te.sin(v) / te.cos(v)),
    "ThresholdedRelu": _activation(operators.thresholded_relu, alpha=1.0),
}
ELEMENTWISE = tuple(OperatorRule(op, FusionClass.INJECTIVE, expression) for op, expression in _EXPRESSIONS.items())

# SPDX-License-Identifier: Apache-2.0
"""Rules of operators on one element at a time: functions, activations, predicates, casts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.integer.elementwise import fuse_leaky_relu
from vdla.compiler.graph.operators.record import IntegerPattern, OperatorRecord, Trait
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, in_float32
from vdla.compiler.ir import DTYPES, is_float, limits

_Function = Callable[..., te.Tensor]
_SUB_BYTE = ("int2", "int4")  # ONNX packs them in bytes; kernels keep one in a byte
_MIN, _MAX = 1, 2  # inputs of Clip


def tensor_function(
    name: str,
    function: _Function,
    attributes: Mapping[str, float | str] | None = None,
    *,
    traits: Trait = Trait.FUNCTION,
    integer: IntegerPattern | None = None,
    on_host: bool = True,
) -> OperatorRecord:
    """The record of an element-wise function of one tensor.

    The function gets `name` and the attributes as keywords; `attributes` has their defaults. 16-bit
    floats are computed in float32.
    """

    def expression(call: NodeCall) -> te.Tensor:
        options = {key: call.attribute(key) for key in attributes or ()}
        return in_float32(call, partial(function, **options), call.tensor(0))

    return OperatorRecord(
        name=name,
        fusion=FusionClass.INJECTIVE,
        expression=expression,
        traits=Trait.ELEMENTWISE | traits,
        attributes=attributes or {},
        integer=integer,
        on_host=on_host,
    )


def element_function(
    name: str,
    body: Callable[..., te.Value],
    attributes: Mapping[str, float | str] | None = None,
    *,
    traits: Trait = Trait.FUNCTION,
    integer: IntegerPattern | None = None,
    on_host: bool = True,
) -> OperatorRecord:
    """The record of a function of one element and attributes, as `tensor_function`.

    `element_function("example.Cube", lambda v: v * v * v, on_host=False)` suffices to run an
    operator as a kernel, in blocks of channels, and quantised by a table.
    """

    def function(x: te.Tensor, name: str, **options: float | str) -> te.Tensor:
        return operators.elementwise(x, lambda v: body(v, **options), name)

    return tensor_function(name, function, attributes, traits=traits, integer=integer, on_host=on_host)


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
    """A limit of Clip; None if it is infinite."""
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


_STEADY = Trait.FUNCTION | Trait.KEEPS_MAGNITUDE
_PREDICATE = Trait.NONE  # bools or integers of any type


def _mover(name: str, expression: Expression, traits: Trait = Trait.NONE) -> OperatorRecord:
    return OperatorRecord(name=name, fusion=FusionClass.INJECTIVE, expression=expression, traits=traits)


ELEMENTWISE = (
    tensor_function("Abs", operators.absolute),
    element_function("BitwiseNot", lambda v: ~v, traits=_PREDICATE),
    _mover("Cast", _cast, Trait.ELEMENTWISE),
    _mover("CastLike", _cast, Trait.ELEMENTWISE),
    tensor_function("Ceil", operators.ceil),
    tensor_function("Celu", operators.celu, {"alpha": 1.0}, traits=_STEADY),
    _mover("Clip", _clip, Trait.ELEMENTWISE | _STEADY | Trait.BOUND),
    tensor_function("Cos", operators.cos),
    element_function("Cosh", _cosh),
    _mover("Dropout", _dropout, Trait.RANDOM),
    tensor_function("Elu", operators.elu, {"alpha": 1.0}, traits=_STEADY),
    tensor_function("Erf", operators.erf),
    tensor_function("Exp", operators.exp),
    tensor_function("Floor", operators.floor),
    tensor_function("Gelu", operators.gelu, {"approximate": "none"}, traits=_STEADY),
    tensor_function("HardSigmoid", operators.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    tensor_function("HardSwish", operators.hard_swish, traits=_STEADY),
    _mover("Identity", _identity, Trait.ELEMENTWISE | Trait.FUNCTION | Trait.SELECTION | Trait.RESHAPE),
    element_function("IsInf", _isinf, {"detect_negative": 1, "detect_positive": 1}, traits=_PREDICATE),
    tensor_function("IsNaN", operators.isnan, traits=_PREDICATE),
    tensor_function(
        "LeakyRelu",
        operators.leaky_relu,
        {"alpha": 0.01},
        traits=_STEADY | Trait.HOMOGENEOUS,
        integer=fuse_leaky_relu,
    ),
    tensor_function("Log", operators.log),
    tensor_function("Mish", operators.mish, traits=_STEADY),
    tensor_function("Neg", operators.negative),
    tensor_function("Not", operators.logical_not, traits=_PREDICATE),
    tensor_function("Reciprocal", operators.reciprocal),
    tensor_function("Relu", operators.relu, traits=_STEADY | Trait.HOMOGENEOUS | Trait.BOUND),
    tensor_function("Round", operators.round),
    tensor_function("Selu", operators.selu, {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805}, traits=_STEADY),
    element_function("Shrink", _shrink, {"bias": 0.0, "lambd": 0.5}),
    tensor_function("Sigmoid", operators.sigmoid),
    tensor_function("Sign", operators.sign),
    tensor_function("Sin", operators.sin),
    element_function("Sinh", _sinh),
    tensor_function("Softplus", operators.softplus),
    tensor_function("Softsign", operators.softsign),
    tensor_function("Sqrt", operators.sqrt),
    element_function("Swish", _swish, {"alpha": 1.0}, traits=_STEADY),
    element_function("Tan", lambda v: te.sin(v) / te.cos(v)),
    tensor_function("Tanh", operators.tanh),
    tensor_function("ThresholdedRelu", operators.thresholded_relu, {"alpha": 1.0}, traits=_STEADY),
)

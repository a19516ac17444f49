# SPDX-License-Identifier: Apache-2.0
"""Rules of normalisations and of the softmax family, in float32 at least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.record import records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall, in_float32, widened


def _along_axis(function: Callable[..., te.Tensor]) -> Expression:
    """A function of a tensor along one axis, the last by default."""
    return lambda call: function(call.tensor(0), call.attribute("axis"), name=call.name())


def _hardmax(call: NodeCall) -> te.Tensor:
    """1 at the first of the largest elements along an axis, 0 elsewhere."""
    x = call.tensor(0)
    axis = call.attribute("axis") % len(x.shape)
    place = operators.argmax(x, axis, keepdims=True, name=f"{call.name()}_place")
    one, zero = te.const(1, x.dtype), te.const(0, x.dtype)

    def value(*i: te.Value) -> te.Value:
        first = place[tuple(te.const(0, "int32") if d == axis else at for d, at in enumerate(i))]
        return te.select(te.cast("int64", i[axis]) == first, one, zero)

    return te.compute(x.shape, value, call.name())


def _batch_norm(call: NodeCall) -> te.Tensor:
    if call.attribute("training_mode"):
        call.decline("not train")
    function = partial(operators.batch_norm, epsilon=call.attribute("epsilon"))
    if len(call.tensor(0).shape) == 1:
        call.decline("have channels")
    return in_float32(call, function, *(call.tensor(n) for n in range(5)))


def _instance_norm(call: NodeCall) -> te.Tensor:
    function = partial(operators.instance_norm, epsilon=call.attribute("epsilon"))
    return in_float32(call, function, *(call.tensor(n) for n in range(3)))


def _group_norm(call: NodeCall) -> te.Tensor:
    groups, epsilon = call.attribute("num_groups"), call.attribute("epsilon")
    function = partial(operators.group_norm, num_groups=groups, epsilon=epsilon)
    return in_float32(call, function, *(call.tensor(n) for n in range(3)))


def _rms_norm(call: NodeCall) -> te.Tensor:
    x, axis = call.tensor(0), call.attribute("axis")
    function = partial(operators.rms_norm, axis=axis, epsilon=call.attribute("epsilon"))
    scale = _parameter(call, 1, x.shape[axis % len(x.shape) :])
    return in_float32(call, function, x, scale)


def _parameter(call: NodeCall, index: int, shape: Sequence[int]) -> te.Tensor | None:
    """A scale or bias of a layer norm, broadcast to the normalised shape."""
    parameter = call.optional(index)
    if parameter is None or tuple(parameter.shape) == tuple(shape):
        return parameter
    name = f"{call.name()}_parameter{index}"
    extra = len(parameter.shape) - len(shape)
    if extra > 0:
        if any(extent != 1 for extent in parameter.shape[:extra]):
            call.decline("have parameters of the normalised dimensions")
        parameter = operators.reshape(parameter, parameter.shape[extra:], name=f"{name}_tail")
    return operators.broadcast_to(parameter, shape, name=name)


def _layer_norm(call: NodeCall) -> tuple[te.Tensor, ...]:
    x, axis, epsilon = call.tensor(0), call.attribute("axis"), call.attribute("epsilon")
    shape = x.shape[axis % len(x.shape) :]
    function = partial(operators.layer_norm, axis=axis, epsilon=epsilon)
    whole = in_float32(call, function, x, _parameter(call, 1, shape), _parameter(call, 2, shape))
    return (whole, *_moments(call, axis % len(x.shape), epsilon))


def _moments(call: NodeCall, axis: int, epsilon: float) -> tuple[te.Tensor, ...]:
    """Mean and 1 / deviation, if the node has these outputs."""
    if not (call.wants(1) or call.wants(2)):
        return ()
    name = f"{call.name()}_moments"
    x = widened(call.tensor(0), f"{name}_x")
    assert x is not None
    axes = tuple(range(axis, len(x.shape)))
    mean = operators.mean(x, axes, keepdims=True, name=_typed_name(call, 1, x.dtype))
    distance = operators.subtract(x, mean, name=f"{name}_distance")
    square = operators.elementwise(distance, lambda v: v * v, f"{name}_square")
    variance = operators.mean(square, axes, keepdims=True, name=f"{name}_variance")
    factor = operators.elementwise(variance, lambda v: 1 / te.sqrt(v + epsilon), _typed_name(call, 2, x.dtype))
    return _typed(call, 1, mean), _typed(call, 2, factor)


def _typed_name(call: NodeCall, index: int, dtype: str) -> str:
    """The name of an output of this type, else of a stage to be cast."""
    kind = call.types[index] if call.wants(index) else None
    if kind is not None and kind.dtype == dtype:
        return call.name(index)
    return f"{call.name()}_moments{index}"


def _typed(call: NodeCall, index: int, tensor: te.Tensor) -> te.Tensor:
    """A moment in the type of its output."""
    kind = call.types[index] if call.wants(index) else None
    if kind is None or kind.dtype == tensor.dtype:
        return tensor
    return operators.cast(tensor, kind.dtype, name=call.name(index))


def _lp_norm(call: NodeCall) -> te.Tensor:
    """x / its norm along an axis; 0 where the norm is 0."""
    axis = call.attribute("axis")
    norm_of = operators.l1_norm if call.attribute("p") == 1 else operators.l2_norm

    def function(x: te.Tensor, name: str) -> te.Tensor:
        norm = norm_of(x, axis, keepdims=True, name=f"{name}_norm")
        zero = te.const(0, x.dtype)
        return operators.combine_elements(
            "LpNormalization", lambda v, n: te.select(n == 0, zero, v / n), (x, norm), name
        )

    return in_float32(call, function, call.tensor(0))


def _local_response_norm(call: NodeCall) -> te.Tensor:
    """x / (bias + alpha / size * sum of squares of `size` neighbouring channels) ** beta."""
    size, bias = call.attribute("size"), call.attribute("bias")
    alpha, beta = call.attribute("alpha"), call.attribute("beta")
    below = (size - 1) // 2

    def function(x: te.Tensor, name: str) -> te.Tensor:
        tap = te.reduce_axis(size, "k")
        zero = te.const(0, x.dtype)

        def total(*i: te.Value) -> te.Value:
            channel = i[1] + tap - below
            element = x[(i[0], channel, *i[2:])]
            inside = (channel >= 0) & (channel < x.shape[1])
            return te.sum(te.select(inside, element * element, zero), axis=tap)

        squares = te.compute(x.shape, total, f"{name}_squares")

        def value(*i: te.Value) -> te.Value:
            return x[i] / te.pow(squares[i] * (alpha / size) + bias, beta)

        return te.compute(x.shape, value, name)

    return in_float32(call, function, call.tensor(0))


def _mean_variance_norm(call: NodeCall) -> te.Tensor:
    """(x - mean) / deviation over axes; the deviation has 1e-9 added, as ONNX's definition."""
    axes = tuple(call.attribute("axes"))

    def function(x: te.Tensor, name: str) -> te.Tensor:
        mean = operators.mean(x, axes, keepdims=True, name=f"{name}_mean")
        distance = operators.subtract(x, mean, name=f"{name}_distance")
        squares = operators.elementwise(distance, lambda v: v * v, f"{name}_squares")
        variance = operators.mean(squares, axes, keepdims=True, name=f"{name}_variance")
        return operators.combine_elements(
            "MeanVarianceNormalization", lambda v, s: v / (te.sqrt(s) + 1e-9), (distance, variance), name
        )

    return in_float32(call, function, call.tensor(0))


_REDUCTIONS: Mapping[str, Expression] = {
    "GroupNormalization": _group_norm,
    "Hardmax": _hardmax,
    "InstanceNormalization": _instance_norm,
    "LRN": _local_response_norm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _along_axis(operators.log_softmax),
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance_norm,
    "RMSNormalization": _rms_norm,
    "Softmax": _along_axis(operators.softmax),
}
NORMALISATIONS = (
    *records(FusionClass.REDUCTION, _REDUCTIONS),
    *records(FusionClass.INJECTIVE, {"BatchNormalization": _batch_norm}),
)

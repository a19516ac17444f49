# SPDX-License-Identifier: Apache-2.0
"""Normalisation of groups of elements to mean 0 and variance 1, then scale and bias.

Moments are computed from distances to one element of the group, in two passes: a mean far above the
spread then costs no precision. float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    axis_of,
    check_float,
    check_rank,
    number,
    same_shape,
    shape_text,
    static_extent,
)
from vdla.compiler.operators.elementwise import elementwise
from vdla.compiler.operators.reduction import element_count, reduce_with
from vdla.compiler.operators.results import result_name, to_accumulator

_ZERO = te.const(0, "int32")  # the index along a reduced dimension


def batch_norm(
    x: te.Tensor,
    scale: te.Tensor,
    bias: te.Tensor,
    mean: te.Tensor,
    variance: te.Tensor,
    epsilon: float = 1e-5,
    axis: int = 1,
    name: str | None = None,
) -> te.Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, by channel along `axis`."""
    check_float("batch_norm", "x", x)
    channel = axis_of("batch_norm", len(x.shape), axis)
    for what, parameter in (("scale", scale), ("bias", bias), ("mean", mean), ("variance", variance)):
        _check_parameter("batch_norm", what, parameter, x, (channel,))
    result, floor = result_name(x, "batch_norm", name), number("batch_norm", "epsilon", epsilon)
    deviation = elementwise(variance, lambda v: te.sqrt(to_accumulator(v) + floor), f"{result}_deviation")
    factor = te.compute(scale.shape, lambda c: to_accumulator(scale[c]) / deviation[c], f"{result}_factor")

    def value(*i: te.Value) -> te.Value:
        c = i[channel]
        centred = to_accumulator(x[i]) - to_accumulator(mean[c])
        return te.cast(x.dtype, centred * factor[c] + to_accumulator(bias[c]))

    return te.compute(x.shape, value, result)


def layer_norm(
    x: te.Tensor,
    scale: te.Tensor | None = None,
    bias: te.Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> te.Tensor:
    """Normalises over the dimensions from `axis` on; scale and bias have their shape."""
    check_float("layer_norm", "x", x)
    first = axis_of("layer_norm", len(x.shape), axis)
    axes = tuple(range(first, len(x.shape)))
    parameters = _checked_parameters("layer_norm", x, axes, scale, bias)
    result = result_name(x, "layer_norm", name)
    moments = _moments(x, axes, number("layer_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        normal = moments.normalise(x[i], _group_index(axes, i))
        return te.cast(x.dtype, _scale_and_shift(normal, *_elements(parameters, i[first:])))

    return te.compute(x.shape, value, result)


def rms_norm(
    x: te.Tensor, scale: te.Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, name: str | None = None
) -> te.Tensor:
    """x / sqrt(mean(x * x) + epsilon) * scale over the dimensions from `axis` on."""
    check_float("rms_norm", "x", x)
    first = axis_of("rms_norm", len(x.shape), axis)
    axes = tuple(range(first, len(x.shape)))
    parameters = _checked_parameters("rms_norm", x, axes, scale, None)
    result = result_name(x, "rms_norm", name)
    total = reduce_with(te.sum, x, axes, True, f"{result}_sum", lambda v: to_accumulator(v) * to_accumulator(v))
    factor = _reciprocal_root(total, x, axes, number("rms_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        normal = to_accumulator(x[i]) * factor[_group_index(axes, i)]
        return te.cast(x.dtype, _scale_and_shift(normal, *_elements(parameters, i[first:])))

    return te.compute(x.shape, value, result)


def instance_norm(
    x: te.Tensor, scale: te.Tensor, bias: te.Tensor, epsilon: float = 1e-5, name: str | None = None
) -> te.Tensor:
    """[N, C, spatial...]: normalises each channel of each image over its positions."""
    check_rank("instance_norm", "x", x, 3)
    check_float("instance_norm", "x", x)
    axes = tuple(range(2, len(x.shape)))
    _check_parameter("instance_norm", "scale", scale, x, (1,))
    _check_parameter("instance_norm", "bias", bias, x, (1,))
    result = result_name(x, "instance_norm", name)
    moments = _moments(x, axes, number("instance_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        normal = moments.normalise(x[i], _group_index(axes, i))
        return te.cast(x.dtype, _scale_and_shift(normal, *_elements((scale, bias), i[1:2])))

    return te.compute(x.shape, value, result)


def group_norm(
    x: te.Tensor, scale: te.Tensor, bias: te.Tensor, num_groups: int, epsilon: float = 1e-5, name: str | None = None
) -> te.Tensor:
    """[N, C, spatial...]: normalises `num_groups` groups of channels with their positions."""
    check_rank("group_norm", "x", x, 2)
    check_float("group_norm", "x", x)
    groups = at_least("group_norm", "num_groups", num_groups, 1)
    channels = static_extent("group_norm", "channels", x.shape[1])
    if channels % groups:
        raise OperatorError(f"group_norm: num_groups must divide the {channels} channels, got {groups}")
    _check_parameter("group_norm", "scale", scale, x, (1,))
    _check_parameter("group_norm", "bias", bias, x, (1,))
    result = result_name(x, "group_norm", name)
    size = channels // groups

    def element(n: te.Value, g: te.Value, c: te.Value, *spatial: te.Value) -> te.Value:
        return x[(n, g * size + c, *spatial)]

    split = te.compute((x.shape[0], groups, size, *x.shape[2:]), element, f"{result}_split")
    axes = tuple(range(2, len(split.shape)))
    moments = _moments(split, axes, number("group_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        normal = moments.normalise(x[i], (i[0], i[1] // size, *(_ZERO for _ in axes)))
        return te.cast(x.dtype, _scale_and_shift(normal, *_elements((scale, bias), i[1:2])))

    return te.compute(x.shape, value, result)


# --- moments --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Moments:
    """Mean, relative to the first element, and 1 / sqrt(variance + epsilon) of each group.

    All three tensors are indexed by the first element of a group.
    """

    x: te.Tensor
    mean: te.Tensor
    factor: te.Tensor

    def normalise(self, element: te.Value, group: Sequence[te.Value]) -> te.Value:
        """An element of `x` with mean 0 and variance 1."""
        at = tuple(group)
        return (to_accumulator(element) - to_accumulator(self.x[at]) - self.mean[at]) * self.factor[at]


def _moments(x: te.Tensor, axes: Sequence[int], epsilon: float, name: str) -> _Moments:
    """The moments of `x` along `axes`.

    Elements close to a large mean differ by few units in the last place: their difference is exact,
    their sum would not be.
    """

    def distance(*i: te.Value) -> te.Value:
        return to_accumulator(x[i]) - to_accumulator(x[_group_index(axes, i)])

    distances = te.compute(x.shape, distance, f"{name}_distance")
    total = reduce_with(te.sum, distances, axes, True, f"{name}_total")
    mean = elementwise(total, lambda v: v / element_count(x, axes, v.dtype), f"{name}_mean")
    centred = te.compute(x.shape, lambda *i: distance(*i) - mean[_group_index(axes, i)], f"{name}_centred")
    squares = reduce_with(te.sum, centred, axes, True, f"{name}_squares", lambda v: v * v)
    return _Moments(x, mean, _reciprocal_root(squares, x, axes, epsilon, name))


def _reciprocal_root(squares: te.Tensor, x: te.Tensor, axes: Sequence[int], epsilon: float, name: str) -> te.Tensor:
    """1 / sqrt(mean square + epsilon) of each group, from its sum of squares."""

    def body(v: te.Value) -> te.Value:
        return 1 / te.sqrt(v / element_count(x, axes, v.dtype) + epsilon)

    return elementwise(squares, body, f"{name}_factor")


def _group_index(axes: Sequence[int], i: Sequence[te.Value]) -> tuple[te.Value, ...]:
    """The index of the first element of the group of element `i`."""
    return tuple(_ZERO if d in axes else index for d, index in enumerate(i))


# --- parameters -----------------------------------------------------------------------------------


def _scale_and_shift(normal: te.Value, scale: te.Value | None, bias: te.Value | None) -> te.Value:
    """normal * scale + bias; a parameter of None is skipped."""
    scaled = normal if scale is None else normal * scale
    return scaled if bias is None else scaled + bias


def _elements(parameters: Sequence[te.Tensor | None], i: Sequence[te.Value]) -> list[te.Value | None]:
    """The element of each parameter at an index."""
    return [None if parameter is None else to_accumulator(parameter[tuple(i)]) for parameter in parameters]


def _checked_parameters(
    where: str, x: te.Tensor, axes: Sequence[int], *parameters: te.Tensor | None
) -> tuple[te.Tensor | None, ...]:
    """Optional scale and bias, checked."""
    for what, parameter in zip(("scale", "bias"), parameters, strict=True):
        if parameter is not None:
            _check_parameter(where, what, parameter, x, axes)
    return parameters


def _check_parameter(where: str, what: str, parameter: te.Tensor, x: te.Tensor, axes: Sequence[int]) -> None:
    """Refuse a parameter whose dtype, or extents along `axes`, differ from those of `x`."""
    check_rank(where, what, parameter, len(axes), len(axes))
    expected = [x.shape[d] for d in axes]
    if not same_shape(parameter.shape, expected):
        text = shape_text(parameter.shape)
        raise OperatorError(f"{where}: {what} must have the shape {shape_text(expected)}, got {text}")
    if parameter.dtype != x.dtype:
        raise OperatorError(f"{where}: {what} must have the dtype {x.dtype} of x, got {parameter.dtype}")

"""Normalisation: the elements of a group brought to mean 0 and variance 1, then scaled and moved.

Variances are means of squared distances from the mean, in two passes, so that a large mean costs no digits. Narrow
floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.accumulation import wide
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    axis_of,
    check_float,
    check_rank,
    number,
    same_shape,
    shape_text,
    static,
)
from vdla.compiler.operators.elementwise import elementwise
from vdla.compiler.operators.naming import name_of
from vdla.compiler.operators.reduction import count_of, reduce_with

ZERO = te.const(0, "int32")  # the index of a dimension that is reduced


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
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, with one parameter of each kind a channel along `axis`: as
    x * factor + shift, whose factors and shifts are stages of their own."""
    check_float("batch_norm", "x", x)
    channel = axis_of("batch_norm", len(x.shape), axis)
    for what, parameter in (("scale", scale), ("bias", bias), ("mean", mean), ("variance", variance)):
        check_parameter("batch_norm", what, parameter, x, (channel,))
    result, least = name_of(x, "batch_norm", name), number("batch_norm", "epsilon", epsilon)
    spread = elementwise(variance, lambda v: te.sqrt(wide(v) + least), f"{result}_spread")
    factor = te.compute(scale.shape, lambda c: wide(scale[c]) / spread[c], f"{result}_factor")
    shift = te.compute(bias.shape, lambda c: wide(bias[c]) - wide(mean[c]) * factor[c], f"{result}_shift")

    def value(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, wide(x[i]) * factor[i[channel]] + shift[i[channel]])

    return te.compute(x.shape, value, result)


def layer_norm(
    x: te.Tensor,
    scale: te.Tensor | None = None,
    bias: te.Tensor | None = None,
    axis: int = -1,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> te.Tensor:
    """Each group of the dimensions from `axis` on normalised; scale and bias have the shape of a group."""
    check_float("layer_norm", "x", x)
    first = axis_of("layer_norm", len(x.shape), axis)
    axes = tuple(range(first, len(x.shape)))
    parameters = given_parameters("layer_norm", x, axes, scale, bias)
    result = name_of(x, "layer_norm", name)
    mean, factor = moments(x, axes, number("layer_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        here = group_of(axes, i)
        normal = (wide(x[i]) - mean[here]) * factor[here]
        return te.cast(x.dtype, moved(normal, *(None if p is None else wide(p[i[first:]]) for p in parameters)))

    return te.compute(x.shape, value, result)


def rms_norm(
    x: te.Tensor, scale: te.Tensor | None = None, axis: int = -1, epsilon: float = 1e-5, name: str | None = None
) -> te.Tensor:
    """x / sqrt(mean(x * x) + epsilon) * scale over the dimensions from `axis` on."""
    check_float("rms_norm", "x", x)
    first = axis_of("rms_norm", len(x.shape), axis)
    axes = tuple(range(first, len(x.shape)))
    parameters = given_parameters("rms_norm", x, axes, scale, None)
    result = name_of(x, "rms_norm", name)
    total = reduce_with(te.sum, x, axes, True, f"{result}_sum", lambda v: wide(v) * wide(v))
    factor = factor_of(total, x, axes, number("rms_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        normal = wide(x[i]) * factor[group_of(axes, i)]
        return te.cast(x.dtype, moved(normal, *(None if p is None else wide(p[i[first:]]) for p in parameters)))

    return te.compute(x.shape, value, result)


def instance_norm(
    x: te.Tensor, scale: te.Tensor, bias: te.Tensor, epsilon: float = 1e-5, name: str | None = None
) -> te.Tensor:
    """[N, C, spatial...]: each channel of each image normalised over its spatial dimensions."""
    check_rank("instance_norm", "x", x, 3)
    check_float("instance_norm", "x", x)
    axes = tuple(range(2, len(x.shape)))
    check_parameter("instance_norm", "scale", scale, x, (1,))
    check_parameter("instance_norm", "bias", bias, x, (1,))
    result = name_of(x, "instance_norm", name)
    mean, factor = moments(x, axes, number("instance_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        here = group_of(axes, i)
        normal = (wide(x[i]) - mean[here]) * factor[here]
        return te.cast(x.dtype, moved(normal, wide(scale[i[1]]), wide(bias[i[1]])))

    return te.compute(x.shape, value, result)


def group_norm(
    x: te.Tensor, scale: te.Tensor, bias: te.Tensor, groups: int, epsilon: float = 1e-5, name: str | None = None
) -> te.Tensor:
    """[N, C, spatial...]: the channels in `groups` equal groups, each normalised with its spatial dimensions."""
    check_rank("group_norm", "x", x, 2)
    check_float("group_norm", "x", x)
    count, channels = at_least("group_norm", "groups", groups, 1), static("group_norm", "channels", x.shape[1])
    if channels % count:
        raise OperatorError(f"group_norm: groups must divide the {channels} channels, got {count}")
    check_parameter("group_norm", "scale", scale, x, (1,))
    check_parameter("group_norm", "bias", bias, x, (1,))
    result = name_of(x, "group_norm", name)
    each = channels // count

    def grouped(n: te.Value, g: te.Value, c: te.Value, *spatial: te.Value) -> te.Value:
        return x[(n, g * each + c, *spatial)]

    split = te.compute((x.shape[0], count, each, *x.shape[2:]), grouped, f"{result}_split")
    axes = tuple(range(2, len(split.shape)))
    mean, factor = moments(split, axes, number("group_norm", "epsilon", epsilon), result)

    def value(*i: te.Value) -> te.Value:
        here = (i[0], i[1] // each, *(ZERO for _ in axes))
        normal = (wide(x[i]) - mean[here]) * factor[here]
        return te.cast(x.dtype, moved(normal, wide(scale[i[1]]), wide(bias[i[1]])))

    return te.compute(x.shape, value, result)


# --- parts -----------------------------------------------------------------------------------------------------------


def moments(x: te.Tensor, axes: Sequence[int], epsilon: float, name: str) -> tuple[te.Tensor, te.Tensor]:
    """The mean of each group and 1 / sqrt(variance + epsilon), the dimensions of a group kept with extent 1."""
    total = reduce_with(te.sum, x, axes, True, f"{name}_total", wide)
    mean = elementwise(total, lambda v: v / count_of(x, axes, v.dtype), f"{name}_mean")
    distances = te.compute(x.shape, lambda *i: wide(x[i]) - mean[group_of(axes, i)], f"{name}_centred")
    squares = reduce_with(te.sum, distances, axes, True, f"{name}_squares", lambda v: v * v)
    return mean, factor_of(squares, x, axes, epsilon, name)


def factor_of(squares: te.Tensor, x: te.Tensor, axes: Sequence[int], epsilon: float, name: str) -> te.Tensor:
    """1 / sqrt(squares / the elements of a group + epsilon)."""

    def body(v: te.Value) -> te.Value:
        return 1 / te.sqrt(v / count_of(x, axes, v.dtype) + epsilon)

    return elementwise(squares, body, f"{name}_factor")


def group_of(axes: Sequence[int], indices: Sequence[te.Value]) -> tuple[te.Value, ...]:
    """The place of what belongs to the whole group of an element."""
    return tuple(ZERO if d in axes else index for d, index in enumerate(indices))


def moved(normal: te.Value, scale: te.Value | None, bias: te.Value | None) -> te.Value:
    """A normal value scaled and moved by what is given."""
    scaled = normal if scale is None else normal * scale
    return scaled if bias is None else scaled + bias


def given_parameters(
    where: str, x: te.Tensor, axes: Sequence[int], *parameters: te.Tensor | None
) -> tuple[te.Tensor | None, ...]:
    """Scale and bias, checked where they are given."""
    for what, parameter in zip(("scale", "bias"), parameters, strict=True):
        if parameter is not None:
            check_parameter(where, what, parameter, x, axes)
    return parameters


def check_parameter(where: str, what: str, parameter: te.Tensor, x: te.Tensor, axes: Sequence[int]) -> None:
    """Refuse a parameter that has not the extents of `x` along `axes`, or another dtype."""
    check_rank(where, what, parameter, len(axes), len(axes))
    expected = [x.shape[d] for d in axes]
    if not same_shape(parameter.shape, expected):
        found = shape_text(parameter.shape)
        raise OperatorError(f"{where}: {what} must have the shape {shape_text(expected)}, got {found}")
    if parameter.dtype != x.dtype:
        raise OperatorError(f"{where}: {what} must have the dtype {x.dtype} of x, got {parameter.dtype}")

# SPDX-License-Identifier: Apache-2.0
"""Element-wise operators: integer multiples of activations, added or compared, and requantised.

Activations are [batch, channels, *size]; an input's zero point is subtracted first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import DefinitionError, Sums, definition, require_extents
from vdla.compiler.operators.definitions.sliding import place_names
from vdla.hardware.factors import UNIT_SLOPE
from vdla.support.integers import is_int

Element = Callable[[tuple[te.Value, ...]], te.Value]


@definition
def rescaling(
    *, batch: int, channels: int, size: Sequence[int], zero_point: int = 0, raw: bool = True, dtype: str = "int8"
) -> Sums:
    """An activation in 32 bits without its zero point, which a scale multiplies."""
    data, names = _activations("rescaling", ["data"], batch, channels, size, dtype)
    element = _centred(data[0], zero_point)
    return data, te.compute(data[0].shape, te.with_axes(names, lambda *i: element(i)), "sums")


@definition
def look_up(*, shape: Sequence[int], dtype: str = "int8") -> Sums:
    """The element of a table of 256 for each element of an activation of any shape."""
    extents = tuple(shape)
    require_extents("look_up", **{f"shape[{axis}]": extent for axis, extent in enumerate(extents)})
    data, table = te.placeholder(extents, dtype, "data"), te.placeholder((256,), dtype, "table")
    return [data, table], te.compute(extents, lambda *i: table[te.cast("int32", data[i]) + 128], "looked_up")


@definition
def residual_addition(
    *,
    batch: int,
    channels: int,
    size: Sequence[int],
    factors: Sequence[int] = (1, 1),
    zero_points: Sequence[int] = (0, 0),
    raw: bool = True,
    dtype: str = "int8",
) -> Sums:
    """factors[0] * data + factors[1] * other, of inputs without their zero points."""
    where = "residual_addition"
    inputs, names = _activations(where, ["data", "other"], batch, channels, size, dtype)
    first, second = _pair(where, "factors", factors)
    a, b = map(_centred, inputs, _pair(where, "zero_points", zero_points))
    sums = te.compute(inputs[0].shape, te.with_axes(names, lambda *i: a(i) * first + b(i) * second), "sums")
    return inputs, sums


@definition
def scaling(
    *,
    batch: int,
    channels: int,
    size: Sequence[int],
    by_channel: bool = False,
    zero_points: Sequence[int] = (0, 0),
    raw: bool = True,
    dtype: str = "int8",
) -> Sums:
    """data * other, of inputs without their zero points.

    With `by_channel`, `other` is [batch, channels, 1, ...]: a factor for each channel.
    """
    where = "scaling"
    (data, full), names = _activations(where, ["data", "other"], batch, channels, size, dtype)
    second = te.placeholder((batch, channels, *(1 for _ in size)), dtype, "other") if by_channel else full
    a, b = map(_centred, (data, second), _pair(where, "zero_points", zero_points))

    def product(*i: te.Value) -> te.Value:
        return a(i) * b((*i[:2], *(te.const(0, "int32") for _ in size)) if by_channel else i)

    return (data, second), te.compute(data.shape, te.with_axes(names, product), "sums")


@definition
def extremum(
    *,
    kind: str,
    batch: int,
    channels: int,
    size: Sequence[int],
    factors: Sequence[int] = (1, 1),
    zero_points: Sequence[int] = (0, 0),
    raw: bool = True,
    dtype: str = "int8",
) -> Sums:
    """The greater or the smaller one of factors[0] * data and factors[1] * other; `kind` is maximum
    or minimum.
    """
    where = "extremum"
    choices = {"maximum": te.maximum, "minimum": te.minimum}
    if kind not in choices:
        raise DefinitionError(f"{where}: kind must be maximum or minimum, got {kind!r}")
    inputs, names = _activations(where, ["data", "other"], batch, channels, size, dtype)
    first, second = _pair(where, "factors", factors)
    a, b = map(_centred, inputs, _pair(where, "zero_points", zero_points))
    body = te.with_axes(names, lambda *i: choices[kind](a(i) * first, b(i) * second))
    return inputs, te.compute(inputs[0].shape, body, "sums")


@definition
def leaky_relu(
    *,
    batch: int,
    channels: int,
    size: Sequence[int],
    factors: Sequence[int],
    zero_point: int = 0,
    raw: bool = True,
    dtype: str = "int8",
) -> Sums:
    """The greater of factors[0] * data and factors[1] * data, for data without its zero point."""
    where = "leaky_relu"
    data, names = _activations(where, ["data"], batch, channels, size, dtype)
    steep, flat = _pair(where, "factors", factors)
    element = _centred(data[0], zero_point)
    body = te.with_axes(names, lambda *i: te.maximum(element(i) * steep, element(i) * flat))
    return data, te.compute(data[0].shape, body, "sums")


@definition
def prelu(
    *, batch: int, channels: int, size: Sequence[int], zero_point: int = 0, raw: bool = True, dtype: str = "int8"
) -> Sums:
    """128 * data, or slope * data below zero, for data without its zero point.

    There is a slope for each channel, of the type of activations; 128 stands for a slope of 1. Rows
    of channels have an empty size.
    """
    (data,), names = _activations("prelu", ["data"], batch, channels, size, dtype, rows=True)
    slope, element = te.placeholder((channels,), dtype, "slope"), _centred(data, zero_point)

    def sloped(*i: te.Value) -> te.Value:
        value = element(i)
        return te.maximum(value, 0) * UNIT_SLOPE + te.minimum(value, 0) * te.cast("int32", slope[i[1]])

    return (data, slope), te.compute(data.shape, te.with_axes(names, sloped), "sums")


def _activations(
    where: str, names: Sequence[str], batch: int, channels: int, size: Sequence[int], dtype: str, *, rows: bool = False
) -> tuple[list[te.Tensor], list[str]]:
    """Inputs of one shape, and the names of its axes; `rows` of channels may have no size."""
    places = place_names(where, size) if size or not rows else ()
    require_extents(where, **dict(zip(places, size, strict=True)))
    return [te.placeholder((batch, channels, *size), dtype, name) for name in names], ["n", "c", *places]


def _pair(where: str, what: str, values: Sequence[int]) -> tuple[int, int]:
    pair = tuple(values) if isinstance(values, tuple | list) else ()
    if len(pair) != 2 or not all(map(is_int, pair)):
        raise DefinitionError(f"{where}: {what} must be two integers, got {values!r}")
    return pair[0], pair[1]


def _centred(tensor: te.Tensor, zero_point: int) -> Element:
    """The elements of a tensor in 32 bits without its zero point."""
    if zero_point == 0:
        return lambda i: te.cast("int32", tensor[i])
    stage = te.compute(tensor.shape, lambda *i: te.cast("int32", tensor[i]) + -zero_point, f"{tensor.name}_centred")
    return lambda i: stage[i]

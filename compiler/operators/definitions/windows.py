# SPDX-License-Identifier: Apache-2.0
"""Operators whose window slides over one to three spatial axes: convolutions and pooling.

`pads` are one integer, one for each axis of `size`, or all in front and then all behind; padding
holds `fill`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vdla.compiler import te
from vdla.compiler.ir import limits
from vdla.compiler.operators.definitions.definition import (
    Definition,
    DefinitionError,
    Sums,
    definition,
    product,
    requantised_by,
)
from vdla.compiler.operators.definitions.sliding import SlidingWindow, sliding
from vdla.compiler.operators.definitions.transposed import transposed_convolution
from vdla.compiler.operators.workloads import Workload


@definition
def convolution(
    *,
    batch: int,
    in_channels: int,
    out_channels: int,
    size: Sequence[int],
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    fill: int = 0,
    raw: bool = True,
    dtype: str = "int8",
    weight_dtype: str = "int8",
) -> Sums:
    """[batch, in_channels, *size] convolved with [out_channels, in_channels / groups, *kernel]."""
    where = "convolution"
    window = sliding(where, size, kernel, strides, pads, dilations)
    for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise DefinitionError(f"{where}: groups must divide {what} = {channels}, got {groups}")
    data = te.placeholder((batch, in_channels, *window.size), dtype, "data")
    weight = te.placeholder((out_channels, in_channels // groups, *window.taps), weight_dtype, "weight")
    image, taps, channel = window.padded(data, fill), window.axes(), te.reduce_axis(in_channels // groups, "c")

    def total(*at: te.Value) -> te.Value:
        n, o, *place = at
        first = o // (out_channels // groups) * (in_channels // groups) if groups > 1 else 0
        term = product(image[(n, channel + first, *window.reads(place, taps))], weight[(o, channel, *taps)])
        return te.sum(term, axis=[channel, *taps])

    return [data, weight], _windows((batch, out_channels), ("n", "o"), window, total)


@definition
def depthwise_convolution(
    *,
    batch: int,
    channels: int,
    size: Sequence[int],
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    fill: int = 0,
    raw: bool = True,
    dtype: str = "int8",
    weight_dtype: str = "int8",
) -> Sums:
    """[batch, channels, *size] convolved, channel by channel, with [channels, *kernel]."""
    window = sliding("depthwise_convolution", size, kernel, strides, pads, dilations)
    data = te.placeholder((batch, channels, *window.size), dtype, "data")
    weight = te.placeholder((channels, *window.taps), weight_dtype, "weight")
    image, taps = window.padded(data, fill), window.axes()

    def total(*at: te.Value) -> te.Value:
        n, c, *place = at
        return te.sum(product(image[(n, c, *window.reads(place, taps))], weight[(c, *taps)]), axis=taps)

    return [data, weight], _windows((batch, channels), ("n", "c"), window, total)


@definition
def pooling(
    *,
    kind: str,
    batch: int,
    channels: int,
    size: Sequence[int],
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    count_include_pad: bool = True,
    fill: int = 0,
    raw: bool = True,
    dtype: str = "int8",
) -> Sums:
    """Each window of [batch, channels, *size] as its maximum, or as its sum for an average.

    In a sum, padding holds `fill`. The scale has the multiplier of each channel, which for an
    average has the count of elements in it; without `count_include_pad`, it has one for each
    channel and each class of places with equal counts: [channels, *classes].
    """
    where = "pooling"
    if kind not in ("max", "average"):
        raise DefinitionError(f"{where}: kind must be max or average, got {kind!r}")
    window = sliding(where, size, kernel, strides, pads, dilations)
    if any(pad >= taps for pad, taps in zip(window.pads, window.taps * 2, strict=True)):
        got = f"{list(window.pads)} for {list(window.taps)}"
        raise DefinitionError(f"{where}: pads must be less than the kernel, got {got}")
    data = te.placeholder((batch, channels, *window.size), dtype, "data")
    image, taps = window.padded(data, int(limits(dtype)[0]) if kind == "max" else fill), window.axes()
    reduce = te.max if kind == "max" else te.sum

    def total(*at: te.Value) -> te.Value:
        n, c, *place = at
        return reduce(te.cast("int32", image[(n, c, *window.reads(place, taps))]), axis=taps)

    sums = _windows((batch, channels), ("n", "c"), window, total)
    if raw:
        return [data], sums
    excluding = kind == "average" and not count_include_pad
    shape = (channels, *(window.classes if excluding else ()))

    def lane(i: tuple[te.Value, ...]) -> tuple[te.Value, ...]:
        return i[1], *(window.class_of(i[2:]) if excluding else ())

    scale, result = requantised_by(sums, shape, lane, dtype)
    return [data, scale], result


def _windows(
    outer: tuple[int, int], names: tuple[str, str], window: SlidingWindow, total: Callable[..., te.Value]
) -> te.Tensor:
    """The sums of [*outer, *places] by `total`, with named axes."""
    body = te.with_axes([*names, *window.names], total)
    sums: te.Tensor = te.compute((*outer, *window.places), body, "sums")
    return sums


def of_workload(layer: Workload, raw: bool = False, dtype: str = "int8", weight_dtype: str = "int8") -> Definition:
    """The definition of a layer, with requantised results unless `raw`."""
    options: dict[str, Any] = {
        "batch": layer.batch,
        "size": (layer.height, layer.width),
        "kernel": layer.kernel,
        "strides": layer.strides,
        "pads": layer.pads,
        "raw": raw,
        "dtype": dtype,
        "weight_dtype": weight_dtype,
    }
    if layer.operator == "depthwise_conv2d":
        return depthwise_convolution(channels=layer.in_channels, **options)
    define = transposed_convolution if layer.operator == "conv2d_transpose" else convolution
    return define(in_channels=layer.in_channels, out_channels=layer.out_channels, **options)

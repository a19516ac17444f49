"""Convolutions over one to three spatial axes, in any number of groups."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import (
    Definition,
    DefinitionError,
    defined,
    product,
    require_extents,
    with_options,
)
from vdla.compiler.operators.definitions.sliding import sliding


@with_options
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
) -> Definition:
    """[batch, in_channels, *size] convolved with [out_channels, in_channels / groups, *kernel].

    `pads` are one integer, one for each axis of `size`, or all in front and then all behind;
    padding holds `fill`.
    """
    where = "convolution"
    require_extents(where, batch=batch, in_channels=in_channels, out_channels=out_channels, groups=groups)
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

    sums = te.compute((batch, out_channels, *window.places), te.with_axes(["n", "o", *window.names], total), "sums")
    return defined(where, [data, weight], sums, None if raw else 1, dtype)

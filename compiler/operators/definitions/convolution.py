"""Convolutions over one to three spatial axes, in any number of groups."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import (
    Definition,
    DefinitionError,
    defined,
    per_axis,
    product,
    require_extents,
)

_PLACES = ("z", "y", "x")  # the spatial axes, the last ones where there are fewer


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
    raw: bool = True,
    dtype: str = "int8",
    weight_dtype: str = "int8",
) -> Definition:
    """[batch, in_channels, *size] convolved with [out_channels, in_channels / groups, *kernel].

    Every axis of `size` is padded by as much in front as behind.
    """
    where = "convolution"
    require_extents(where, batch=batch, in_channels=in_channels, out_channels=out_channels, groups=groups)
    size = tuple(size)
    if not 1 <= len(size) <= len(_PLACES):
        raise DefinitionError(f"{where}: size must have 1 to {len(_PLACES)} axes, got {list(size)}")
    for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise DefinitionError(f"{where}: groups must divide {what} = {channels}, got {groups}")
    taps, steps, before, spread = (
        per_axis(where, what, value, len(size), least)
        for what, value, least in (
            ("kernel", kernel, 1), ("strides", strides, 1), ("pads", pads, 0), ("dilations", dilations, 1),
        )
    )  # fmt: skip
    places = [
        (extent + 2 * pad - (k - 1) * d - 1) // step + 1
        for extent, pad, k, d, step in zip(size, before, taps, spread, steps, strict=True)
    ]
    if min(places) < 1:
        raise DefinitionError(f"{where}: kernel must fit the padded input of {list(size)}, got {list(taps)}")
    data = te.placeholder((batch, in_channels, *size), dtype, "data")
    weight = te.placeholder((out_channels, in_channels // groups, *taps), weight_dtype, "weight")
    image = te.pad(data, (0, 0, *before), (0, 0, *before), 0, "padded") if any(before) else data
    channel = te.reduce_axis(in_channels // groups, "c")
    window = [te.reduce_axis(extent, f"k{name}") for name, extent in zip(_PLACES[-len(size) :], taps, strict=True)]

    def total(*at: te.Value) -> te.Value:
        n, o, *place = at
        first = o // (out_channels // groups) * (in_channels // groups) if groups > 1 else 0
        read = [p * step + k * d for p, step, k, d in zip(place, steps, window, spread, strict=True)]
        term = product(image[(n, channel + first, *read)], weight[(o, channel, *window)])
        return te.sum(term, axis=[channel, *window])

    sums = te.compute((batch, out_channels, *places), te.with_axes(["n", "o", *_PLACES[-len(size) :]], total), "sums")
    return defined(where, [data, weight], sums, None if raw else 1, dtype)

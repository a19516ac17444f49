"""Depthwise convolutions: each channel with its own kernel."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import Definition, defined, product, require_extents, with_options
from vdla.compiler.operators.definitions.sliding import sliding


@with_options
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
) -> Definition:
    """[batch, channels, *size] convolved, channel by channel, with [channels, *kernel].

    `pads` are one integer, one for each axis of `size`, or all in front and then all behind;
    padding holds `fill`.
    """
    where = "depthwise_convolution"
    require_extents(where, batch=batch, channels=channels)
    window = sliding(where, size, kernel, strides, pads, dilations)
    data = te.placeholder((batch, channels, *window.size), dtype, "data")
    weight = te.placeholder((channels, *window.taps), weight_dtype, "weight")
    image, taps = window.padded(data, fill), window.axes()

    def total(*at: te.Value) -> te.Value:
        n, c, *place = at
        return te.sum(product(image[(n, c, *window.reads(place, taps))], weight[(c, *taps)]), axis=taps)

    sums = te.compute((batch, channels, *window.places), te.with_axes(["n", "c", *window.names], total), "sums")
    return defined(where, [data, weight], sums, None if raw else 1, dtype)

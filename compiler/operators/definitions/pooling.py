"""Pooling: the maximum or the sum of each window, requantised to the maximum or the average."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.ir import limits
from vdla.compiler.operators.definitions.definition import (
    Definition,
    DefinitionError,
    requantised_by,
    require_extents,
    with_options,
)
from vdla.compiler.operators.definitions.sliding import sliding

_KINDS = ("max", "average")


@with_options
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
) -> Definition:
    """Each window of [batch, channels, *size] as its maximum, or as its sum for an average.

    `pads` are those of `convolution`; in a sum they hold `fill`. The scale has the multiplier of
    each channel, which for an average has the count of elements in it; without
    `count_include_pad`, it has one for each channel and each class of places whose windows lack as
    many elements: [channels, *classes].
    """
    where = "pooling"
    require_extents(where, batch=batch, channels=channels)
    if kind not in _KINDS:
        raise DefinitionError(f"{where}: kind must be max or average, got {kind!r}")
    window = sliding(where, size, kernel, strides, pads, dilations)
    sides = (*window.before, *window.after)
    if any(pad >= taps for pad, taps in zip(sides, window.taps * 2, strict=True)):
        got = f"{list(sides)} for {list(window.taps)}"
        raise DefinitionError(f"{where}: pads must be less than the kernel, got {got}")
    data = te.placeholder((batch, channels, *window.size), dtype, "data")
    image, taps = window.padded(data, int(limits(dtype)[0]) if kind == "max" else fill), window.axes()
    reduce = te.max if kind == "max" else te.sum

    def total(*at: te.Value) -> te.Value:
        n, c, *place = at
        return reduce(te.cast("int32", image[(n, c, *window.reads(place, taps))]), axis=taps)

    sums = te.compute((batch, channels, *window.places), te.with_axes(["n", "c", *window.names], total), "sums")
    if raw:
        return Definition(where, (data,), sums)
    excluding = kind == "average" and not count_include_pad
    shape = (channels, *(window.classes if excluding else ()))

    def lane(i: tuple[te.Value, ...]) -> tuple[te.Value, ...]:
        return i[1], *(window.class_of(i[2:]) if excluding else ())

    scale, result = requantised_by(sums, shape, lane, dtype)
    return Definition(where, (data, scale), result)

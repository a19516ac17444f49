# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions, rewritten by phases of the strides.

Result y of an axis is s * q + p: its phase p at the place q. It sums the taps k for which
p + pad - k * d is a multiple of the stride s, so that no product with an inserted zero is computed:

    k = s' * t + first(p),   input row = q + (p + pad - first(p) * d) / s - t * d'

with s' = s / gcd(s, d) and d' = d / gcd(s, d). Taps beyond the kernel are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import (
    DefinitionError,
    Sums,
    definition,
    per_axis,
    product,
    requantised_by,
)
from vdla.compiler.operators.definitions.sliding import both_sides, place_names


@definition
def transposed_convolution(
    *,
    batch: int,
    in_channels: int,
    out_channels: int,
    size: Sequence[int],
    kernel: int | Sequence[int],
    strides: int | Sequence[int] = 1,
    pads: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    fill: int = 0,
    raw: bool = True,
    dtype: str = "int8",
    weight_dtype: str = "int8",
) -> Sums:
    """The transpose of the convolution of [batch, out_channels, ...] with [in_channels,
    out_channels, *kernel], of [batch, in_channels, *size], as ONNX's ConvTranspose.

    `pads` are those of `convolution`; the input is padded with `fill`.
    """
    where = "transposed_convolution"
    axes = _axes(where, tuple(size), kernel, strides, pads, output_padding, dilations)
    data = te.placeholder((batch, in_channels, *size), dtype, "data")
    weight = te.placeholder((in_channels, out_channels, *(axis.kernel for axis in axes)), weight_dtype, "weight")
    image, phased = _padded(data, axes, fill), _by_phase(weight, axes)
    channel = te.reduce_axis(in_channels, "c")
    taps = [te.reduce_axis(axis.taps, f"k{axis.name}") for axis in axes]

    def total(n: te.Value, o: te.Value, *at: te.Value) -> te.Value:
        places, phases = at[: len(axes)], at[len(axes) :]
        read = [axis.row(q, p, t) for axis, q, p, t in zip(axes, places, phases, taps, strict=True)]
        return te.sum(product(image[(n, channel, *read)], phased[(o, channel, *phases, *taps)]), axis=[channel, *taps])

    names = ["n", "o", *(axis.name for axis in axes), *(f"p{axis.name}" for axis in axes)]
    shape = (batch, out_channels, *(axis.places for axis in axes), *(axis.stride for axis in axes))
    sums = te.compute(shape, te.with_axes(names, total), "sums")
    scale, result = (None, sums) if raw else requantised_by(sums, (out_channels,), lambda i: (i[1],), dtype)

    def element(n: te.Value, o: te.Value, *at: te.Value) -> te.Value:
        quotients = [y // axis.stride for axis, y in zip(axes, at, strict=True)]
        return result[(n, o, *quotients, *(y % axis.stride for axis, y in zip(axes, at, strict=True)))]

    names, plain = ["n", "o", *(axis.name for axis in axes)], (batch, out_channels, *(axis.results for axis in axes))
    output = te.compute(plain, te.with_axes(names, element), "transposed")
    return [data, weight] if scale is None else [data, weight, scale], output


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis."""

    name: str
    size: int
    kernel: int
    stride: int
    pad: int
    end: int
    extra: int
    dilation: int

    @property
    def results(self) -> int:
        """Elements of the result."""
        full = (self.size - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 + self.extra
        return full - self.pad - self.end

    @property
    def places(self) -> int:
        """The number of places q; the last one may have phases beyond the result."""
        return -(-self.results // self.stride)

    @property
    def common(self) -> int:
        """The distance between phases that have taps."""
        return gcd(self.stride, self.dilation)

    @property
    def apart(self) -> int:
        """s': kernel positions between the taps of a phase."""
        return self.stride // self.common

    @property
    def taps(self) -> int:
        """Taps of a phase."""
        return -(-self.kernel // self.apart)

    @property
    def spread(self) -> int:
        """d': input elements between the taps of a phase."""
        return self.dilation // self.common

    def first_tap(self, p: te.Value) -> te.Value:
        """first(p): the kernel position of the first tap of a phase."""
        inverse = pow(self.spread, -1, self.apart)
        place = (p + self.pad) // self.common if self.common > 1 else p + self.pad
        return place * inverse % self.apart

    def tap(self, p: te.Value, t: te.Value) -> te.Value:
        """The kernel position of a tap, in reverse order."""
        return self.first_tap(p) + (self.taps - 1 - t) * self.apart

    def has_taps(self, p: te.Value) -> list[te.Value]:
        """The conditions under which a phase has taps."""
        return [(p + self.pad) % self.common == 0] if self.common > 1 else []

    def offset(self, p: te.Value) -> te.Value:
        """The input element of the first tap at the place 0."""
        if self.stride == 1:
            return te.const(self.pad, "int32")
        if self.dilation == 1:
            return (p + self.pad) // self.stride
        return (p + self.pad - self.first_tap(p) * self.dilation) // self.stride

    @property
    def offsets(self) -> tuple[int, int]:
        """The least and the largest offset."""
        inverse = pow(self.spread, -1, self.apart)
        firsts = [(p + self.pad) // self.common * inverse % self.apart for p in range(self.stride)]
        offsets = [(p + self.pad - first * self.dilation) // self.stride for p, first in enumerate(firsts)]
        return min(offsets), max(offsets)

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros in front of the input and behind it."""
        low, high = self.offsets
        return max(0, (self.taps - 1) * self.spread - low), max(0, self.places + high - self.size)

    def row(self, q: te.Value, p: te.Value, t: te.ReduceAxis) -> te.Value:
        """The element of the padded input under a tap."""
        base = self.padding[0] - (self.taps - 1) * self.spread
        return q + self.offset(p) + t * self.spread + base


def _axes(
    where: str,
    size: tuple[int, ...],
    kernel: int | Sequence[int],
    strides: int | Sequence[int],
    pads: int | Sequence[int],
    output_padding: int | Sequence[int],
    dilations: int | Sequence[int],
) -> list[_Axis]:
    names = place_names(where, size)
    count = len(names)
    front, end = both_sides(where, pads, count)
    taps, steps, extra, spread = (
        per_axis(where, what, value, count, least)
        for what, value, least in (
            ("kernel", kernel, 1), ("strides", strides, 1), ("output_padding", output_padding, 0),
            ("dilations", dilations, 1),
        )
    )  # fmt: skip
    axes = [_Axis(*row) for row in zip(names, size, taps, steps, front, end, extra, spread, strict=True)]
    for axis in axes:
        if axis.extra >= max(axis.stride, axis.dilation):
            rule = f"output_padding must be less than the stride or the dilation of {axis.name}"
            raise DefinitionError(f"{where}: {rule}, got {axis.extra}")
        if axis.results < 1:
            rule = f"pads must leave at least one result along {axis.name}"
            raise DefinitionError(f"{where}: {rule}, got {axis.pad} and {axis.end}")
    return axes


def _padded(data: te.Tensor, axes: Sequence[_Axis], fill: int) -> te.Tensor:
    before, after = ([0, 0, *(axis.padding[side] for axis in axes)] for side in (0, 1))
    return te.pad(data, before, after, fill, "padded") if any((*before, *after)) else data


def _by_phase(weight: te.Tensor, axes: Sequence[_Axis]) -> te.Tensor:
    """[out_channels, in_channels, *phases, *taps]: the weights of each phase."""

    def value(o: te.Value, c: te.Value, *at: te.Value) -> te.Value:
        phases, taps = at[: len(axes)], at[len(axes) :]
        positions = [axis.tap(p, t) for axis, p, t in zip(axes, phases, taps, strict=True)]
        inside = [condition for axis, p in zip(axes, phases, strict=True) for condition in axis.has_taps(p)]
        inside += [k < axis.kernel for axis, k in zip(axes, positions, strict=True) if axis.kernel % axis.apart]
        element = weight[(c, o, *positions)]
        return te.select(te.all_of(*inside), element, te.const(0, weight.dtype)) if inside else element

    names = ["o", "c", *(f"p{axis.name}" for axis in axes), *(f"k{axis.name}" for axis in axes)]
    shape = (weight.shape[1], weight.shape[0], *(axis.stride for axis in axes), *(axis.taps for axis in axes))
    phased: te.Tensor = te.compute(shape, te.with_axes(names, value), "weight_by_phase")
    return phased

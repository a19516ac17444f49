# SPDX-License-Identifier: Apache-2.0
"""Convolutions over any number of spatial dimensions, with groups, and transposed ones, as in ONNX.

`conv2d` and `depthwise_conv2d` are the fast forms over two dimensions. The stages of a direct
sum: `<name>_pad` the padded input; `<name>_sum` the sums; `<name>` the result.

A transposed convolution gathers the terms of each result. Only every s-th tap of the kernel, s =
stride / gcd(stride, dilation), meets an input element, so inserted zeros are never multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_bias,
    check_number,
    check_rank,
    check_same_dtype,
    integers,
    static_extent,
    static_extents,
)
from vdla.compiler.operators.conv2d import pad_image
from vdla.compiler.operators.results import biased, result_name, sum_of_products, to_accumulator
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.support.window import Window

_DIRECT, _TRANSPOSED = "convolution", "conv_transpose"
_ZERO = te.const(0, "int32")


def convolution(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, spatial...], weight [CO, C / groups, kernel...], bias [CO] -> [N, CO, spatial...].

    float16 and bfloat16 are summed in float32; integers wrap.
    """
    count = at_least(_DIRECT, "groups", groups, 1)
    _check_direct(x, weight, bias, count)
    windows = windows_of(_DIRECT, x.shape[2:], weight.shape[2:], strides, pads, dilations)
    result = result_name(x, _DIRECT, name)
    total = _direct_sums(pad_image(x, windows, f"{result}_pad"), weight, windows, count, f"{result}_sum")

    def value(*i: te.Value) -> te.Value:
        return biased(total[i], None if bias is None else bias[i[1]], x.dtype)

    return te.compute(total.shape, value, result)


def _direct_sums(image: te.Tensor, weight: te.Tensor, windows: Window, groups: int, name: str) -> te.Tensor:
    """[N, CO, windows...]: the sums over channels and taps."""
    channels, outputs = weight.shape[1], weight.shape[0] // groups
    c = te.reduce_axis(channels, "c")
    taps = [te.reduce_axis(extent, f"k{d}") for d, extent in enumerate(windows.taps)]

    def value(*i: te.Value) -> te.Value:
        n, k, *at = i
        channel = c if groups == 1 else k // outputs * channels + c
        position = [windows.padded_position(axis, *pair) for axis, pair in enumerate(zip(at, taps, strict=True))]
        return sum_of_products(image[(n, channel, *position)], weight[(k, c, *taps)], [c, *taps])

    return te.compute((image.shape[0], weight.shape[0], *windows.places), value, name)


def _check_direct(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, groups: int) -> None:
    """Refuse operands whose dtypes or extents do not fit together."""
    channels, (outputs, ins, *_) = _check_ranks(_DIRECT, x, weight)
    check_same_dtype(_DIRECT, x, weight, *([] if bias is None else [bias]))
    if ins * groups != channels:
        rule = f"weight must have {channels} / {groups} input channels (those of x / groups)"
        raise OperatorError(f"{_DIRECT}: {rule}, got {ins}")
    if outputs % groups:
        raise OperatorError(f"{_DIRECT}: groups must divide the {outputs} output channels, got {groups}")
    check_bias(_DIRECT, bias, outputs)


def _check_ranks(where: str, x: te.Tensor, weight: te.Tensor) -> tuple[int, list[int]]:
    """The channels of x and the extents of a weight of as many dimensions."""
    check_rank(where, "x", x, 3)
    check_number(where, "x", x)
    check_rank(where, "weight", weight, len(x.shape), len(x.shape))
    return static_extent(where, "extent 1 of x", x.shape[1]), static_extents(where, "weight's extent", weight.shape)


# --- transposed convolutions ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TapPhases:
    """One spatial dimension: result p sums tap `tap(p, t)` times input `source(p, t)` over t.

    A term is valid where tap and source are in range and p does not fall between input elements
    (`conditions`).
    """

    extent: int
    kernel: int
    stride: int
    dilation: int
    pads_before: int

    @property
    def divisor(self) -> int:
        """The greatest common divisor of stride and dilation."""
        return math.gcd(self.stride, self.dilation)

    @property
    def spacing(self) -> int:
        """The distance between taps that meet an input element."""
        return self.stride // self.divisor

    @property
    def taps(self) -> int:
        """The most taps that meet an input element for one result."""
        return -(-self.kernel // self.spacing)

    def tap(self, p: te.Value, t: te.Operand) -> te.Value:
        """The t-th kernel tap k that solves k * dilation = p + pads_before modulo the stride.

        Results a multiple of the stride apart have the same taps.
        """
        if self.spacing == 1:
            return te.as_value(t, _TRANSPOSED) + 0
        inverse = pow(self.dilation // self.divisor, -1, self.spacing)
        first = (((p + self.pads_before) // self.divisor) * inverse) % self.spacing
        return first + te.as_value(t, _TRANSPOSED) * self.spacing

    def source(self, p: te.Value, t: te.Operand) -> te.Value:
        """The input index."""
        return (p + self.pads_before - self.tap(p, t) * self.dilation) // self.stride

    def conditions(self, source: te.Value, tap: te.Value, p: te.Value) -> list[te.Value]:
        """The conditions under which a tap meets an input element."""
        conditions = [source >= 0, source < self.extent]
        if self.kernel % self.spacing:
            conditions.append(tap < self.kernel)
        if self.divisor > 1:
            conditions.append((p + self.pads_before) % self.divisor == 0)
        return conditions


def conv_transpose(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    strides: Ints = 1,
    pads: Ints = 0,
    output_padding: Ints = 0,
    dilations: Ints = 1,
    groups: int = 1,
    name: str | None = None,
) -> te.Tensor:
    """x [N, C, spatial...], weight [C, CO / groups, kernel...], bias [CO] -> [N, CO, spatial...].

    The extents are (extent - 1) * stride + (kernel - 1) * dilation + 1 + output_padding - pads.
    Integers wrap; float16 and bfloat16 are summed in float32.
    """
    count = at_least(_TRANSPOSED, "groups", groups, 1)
    rank = _check_transposed(x, weight, bias, count)
    result = result_name(x, _TRANSPOSED, name)
    phases, spatial = _tap_phases(x, weight, strides, pads, output_padding, dilations, rank)
    shape = (x.shape[0], weight.shape[1] * count, *spatial)
    total = _transposed_sums(x, weight, phases, shape, count, f"{result}_sum")
    return _interleave(total, bias, phases[-1].stride, shape, x.dtype, result)


def _transposed_sums(
    x: te.Tensor, weight: te.Tensor, phases: Sequence[_TapPhases], shape: Sequence[te.Dim], groups: int, name: str
) -> te.Tensor:
    """[N, CO, spatial..., stride, steps]: the sums, the last dimension in phases of the stride.

    Neighbouring steps read neighbouring inputs. The last step may exceed the result and is then
    never read.
    """
    channels, outs, last = x.shape[1] // groups, weight.shape[1], phases[-1]
    c = te.reduce_axis(channels, "c")
    taps = [te.reduce_axis(phase.taps, f"t{d}") for d, phase in enumerate(phases)]

    def value(*i: te.Value) -> te.Value:
        n, k, *at, phase, step = i
        channel = k // outs * channels + c if groups > 1 else c
        kernel = [d.tap(p, t) for d, p, t in zip(phases, [*at, phase], taps, strict=True)]
        sources = [d.source(p, t) for d, p, t in zip(phases, [*at, phase], taps, strict=True)]
        sources[-1] = step + sources[-1]
        element = to_accumulator(x[(n, channel, *sources)]) * to_accumulator(
            weight[(channel, k % outs if groups > 1 else k, *kernel)]
        )
        terms = zip(phases, sources, kernel, [*at, phase], strict=True)
        conditions = [c for d, source, tap, p in terms for c in d.conditions(source, tap, p)]
        return te.sum(te.select(te.all_of(*conditions), element, te.const(0, element.dtype)), axis=[c, *taps])

    steps = -(-shape[-1] // last.stride)
    return te.compute((*shape[:-1], last.stride, steps), value, name, {OPERATOR: _TRANSPOSED})


def _interleave(
    total: te.Tensor, bias: te.Tensor | None, stride: int, shape: Sequence[te.Dim], dtype: str, name: str
) -> te.Tensor:
    """The phases interleaved into the result, plus the bias."""

    def value(*i: te.Value) -> te.Value:
        *outer, p = i
        phase, step = (p % stride, p // stride) if stride > 1 else (_ZERO, p)
        return biased(total[(*outer, phase, step)], None if bias is None else bias[i[1]], dtype)

    return te.compute(shape, value, name)


def _check_transposed(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, groups: int) -> int:
    """The number of spatial dimensions of the operands, checked."""
    channels, extents = _check_ranks(_TRANSPOSED, x, weight)
    if extents[0] != channels:
        raise OperatorError(
            f"{_TRANSPOSED}: the first extent of weight must be the {channels} channels of x, got {extents[0]}"
        )
    if channels % groups:
        raise OperatorError(f"{_TRANSPOSED}: groups must divide the {channels} channels, got {groups}")
    check_same_dtype(_TRANSPOSED, x, weight, *([] if bias is None else [bias]))
    check_bias(_TRANSPOSED, bias, extents[1] * groups)
    return len(x.shape) - 2


def _tap_phases(
    x: te.Tensor, weight: te.Tensor, strides: Ints, pads: Ints, extra: Ints, dilations: Ints, rank: int
) -> tuple[list[_TapPhases], list[int]]:
    """The taps along each spatial dimension, and the extents of the result."""
    where = _TRANSPOSED
    steps, gaps = integers(where, "strides", strides, rank, 1), integers(where, "dilations", dilations, rank, 1)
    margins, added = integers(where, "pads", pads, 2 * rank, 0), integers(where, "output_padding", extra, rank, 0)
    phases, extents = [], []
    spatial = static_extents(where, "spatial extent", x.shape[2:])
    for d in range(rank):
        if added[d] >= max(steps[d], gaps[d]):
            rule = f"output_padding must be less than the stride or the dilation, {max(steps[d], gaps[d])}"
            raise OperatorError(f"{where}: {rule}, got {added[d]}")
        kernel, before, after = weight.shape[2 + d], margins[d], margins[rank + d]
        whole = (spatial[d] - 1) * steps[d] + (kernel - 1) * gaps[d] + 1 + added[d]
        if whole <= before + after:
            raise OperatorError(f"{where}: the result must have elements, got {whole} less pads of {before + after}")
        phases.append(_TapPhases(spatial[d], kernel, steps[d], gaps[d], before))
        extents.append(whole - before - after)
    return phases, extents

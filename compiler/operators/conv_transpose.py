"""Transposed convolution over any number of spatial dimensions, with groups.

Each result gathers its terms. Of the taps of the kernel only every s-th, s = stride / gcd(stride,
dilation), meets an input element; only those are summed, so that nothing is multiplied by the zeros
between the input elements.
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
from vdla.compiler.operators.results import result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.operators.windows import Ints

_NAME = "conv_transpose"
_ZERO = te.const(0, "int32")


@dataclass(frozen=True, slots=True)
class _TapPhases:
    """One spatial dimension: result p sums tap `tap(p, t)` times input `source(p, t)` over t.

    Terms count where tap and source are in range and p does not fall between input elements
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

        It is the same for results a multiple of the stride apart.
        """
        if self.spacing == 1:
            return te.as_value(t, _NAME) + 0
        inverse = pow(self.dilation // self.divisor, -1, self.spacing)
        first = (((p + self.pads_before) // self.divisor) * inverse) % self.spacing
        return first + te.as_value(t, _NAME) * self.spacing

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
    count = at_least(_NAME, "groups", groups, 1)
    rank = _check_operands(x, weight, bias, count)
    result = result_name(x, _NAME, name)
    phases, spatial = _tap_phases(x, weight, strides, pads, output_padding, dilations, rank)
    shape = (x.shape[0], weight.shape[1] * count, *spatial)
    return _interleave(
        _sums(x, weight, phases, shape, count, f"{result}_sum"), bias, phases[-1].stride, shape, x.dtype, result
    )


def _sums(
    x: te.Tensor, weight: te.Tensor, phases: Sequence[_TapPhases], shape: Sequence[te.Dim], groups: int, name: str
) -> te.Tensor:
    """[N, CO, spatial..., stride, steps]: the sums, the last dimension in phases of the stride.

    Neighbouring steps read neighbouring inputs. The last step may lie beyond the result; it is
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
    return te.compute((*shape[:-1], last.stride, steps), value, name, {OPERATOR: _NAME})


def _interleave(
    total: te.Tensor, bias: te.Tensor | None, stride: int, shape: Sequence[te.Dim], dtype: str, name: str
) -> te.Tensor:
    """The phases interleaved into the result, plus the bias."""

    def value(*i: te.Value) -> te.Value:
        *outer, p = i
        one = total[(*outer, p % stride, p // stride)] if stride > 1 else total[(*outer, _ZERO, p)]
        return te.cast(dtype, one if bias is None else one + to_accumulator(bias[i[1]]))

    return te.compute(shape, value, name)


def _check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, groups: int) -> int:
    """The number of spatial dimensions of the operands, checked."""
    check_rank(_NAME, "x", x, 3)
    check_number(_NAME, "x", x)
    check_rank(_NAME, "weight", weight, len(x.shape), len(x.shape))
    channels, extents = (
        static_extent(_NAME, "extent 1 of x", x.shape[1]),
        static_extents(_NAME, "weight's extent", weight.shape),
    )
    if extents[0] != channels:
        raise OperatorError(
            f"{_NAME}: the first extent of weight must be the {channels} channels of x, got {extents[0]}"
        )
    if channels % groups:
        raise OperatorError(f"{_NAME}: groups must divide the {channels} channels, got {groups}")
    check_same_dtype(_NAME, x, weight, *([] if bias is None else [bias]))
    check_bias(_NAME, bias, extents[1] * groups)
    return len(x.shape) - 2


def _tap_phases(
    x: te.Tensor, weight: te.Tensor, strides: Ints, pads: Ints, extra: Ints, dilations: Ints, rank: int
) -> tuple[list[_TapPhases], list[int]]:
    """The taps along each spatial dimension, and the extents of the result."""
    steps, gaps = integers(_NAME, "strides", strides, rank, 1), integers(_NAME, "dilations", dilations, rank, 1)
    margins, added = integers(_NAME, "pads", pads, 2 * rank, 0), integers(_NAME, "output_padding", extra, rank, 0)
    phases, extents = [], []
    spatial = static_extents(_NAME, "spatial extent", x.shape[2:])
    for d in range(rank):
        if added[d] >= max(steps[d], gaps[d]):
            rule = f"output_padding must be less than the stride or the dilation, {max(steps[d], gaps[d])}"
            raise OperatorError(f"{_NAME}: {rule}, got {added[d]}")
        kernel, before, after = weight.shape[2 + d], margins[d], margins[rank + d]
        whole = (spatial[d] - 1) * steps[d] + (kernel - 1) * gaps[d] + 1 + added[d]
        if whole <= before + after:
            raise OperatorError(f"{_NAME}: the result must have elements, got {whole} less pads of {before + after}")
        phases.append(_TapPhases(spatial[d], kernel, steps[d], gaps[d], before))
        extents.append(whole - before - after)
    return phases, extents

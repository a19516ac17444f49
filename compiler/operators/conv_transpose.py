"""Transposed convolution over any number of spatial dimensions, with groups: the gradient of a convolution.

Each element of the input adds a scaled kernel to the result. Here each element of the result gathers what reaches it:
of the taps of a kernel only every s-th (s: the stride divided by what it shares with the dilation) meets an element of
the input, and only those are summed, so nothing is multiplied with the zeros between the elements.
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
from vdla.compiler.operators.windows import Ints

NAME = "conv_transpose"
ZERO = te.const(0, "int32")


@dataclass(frozen=True, slots=True)
class Phase:
    """One spatial dimension: result place p meets, for t in range(taps), kernel tap `tap(p, t)` at input place
    `place(p, t)`, where both are in range and p is not between the elements."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int

    @property
    def shared(self) -> int:
        """What stride and dilation have in common."""
        return math.gcd(self.stride, self.dilation)

    @property
    def spacing(self) -> int:
        """The distance of the taps that meet an element."""
        return self.stride // self.shared

    @property
    def taps(self) -> int:
        """The most taps that meet an element at one place."""
        return -(-self.kernel // self.spacing)

    def tap(self, p: te.Value, t: te.Operand) -> te.Value:
        """The kernel's tap: the t-th solution k of k * dilation = p + before (modulo the stride). Places a whole number
        of strides apart have the same."""
        if self.spacing == 1:
            return te.as_value(t, NAME) + 0
        inverse = pow(self.dilation // self.shared, -1, self.spacing)
        first = (((p + self.before) // self.shared) * inverse) % self.spacing
        return first + te.as_value(t, NAME) * self.spacing

    def place(self, p: te.Value, t: te.Operand) -> te.Value:
        """The input's place."""
        return (p + self.before - self.tap(p, t) * self.dilation) // self.stride

    def met(self, place: te.Value, tap: te.Value, p: te.Value) -> list[te.Value]:
        """The conditions under which a tap meets an element."""
        conditions = [place >= 0, place < self.extent]
        if self.kernel % self.spacing:
            conditions.append(tap < self.kernel)
        if self.shared > 1:
            conditions.append((p + self.before) % self.shared == 0)
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
    """x [N, C, spatial...], weight [C, K / groups, kernel...], bias [K] -> [N, K, spatial...] of extents
    (extent - 1) * stride + (kernel - 1) * dilation + 1 + output_padding - pads. `pads` are those before each spatial
    dimension, then after each. Integers wrap; narrow floats are summed in float32."""
    count = at_least(NAME, "groups", groups, 1)
    rank = check_operands(x, weight, bias, count)
    result = result_name(x, NAME, name)
    phases, spatial = phases_of(x, weight, strides, pads, output_padding, dilations, rank)
    shape = (x.shape[0], weight.shape[1] * count, *spatial)
    return ordered(
        sums(x, weight, phases, shape, count, f"{result}_sum"), bias, phases[-1].stride, shape, x.dtype, result
    )


def sums(
    x: te.Tensor, weight: te.Tensor, phases: Sequence[Phase], shape: Sequence[te.Dim], groups: int, name: str
) -> te.Tensor:
    """The stage that multiplies and adds: [N, K, spatial..., stride, last / stride], so that what follows each other in
    it reads neighbours of the input. Behind the end of the last dimension it has results that nobody takes."""
    channels, outs, last = x.shape[1] // groups, weight.shape[1], phases[-1]
    c = te.reduce_axis(channels, "c")
    taps = [te.reduce_axis(phase.taps, f"t{d}") for d, phase in enumerate(phases)]

    def value(*i: te.Value) -> te.Value:
        n, k, *at, phase, step = i
        channel = k // outs * channels + c if groups > 1 else c
        kernel = [d.tap(p, t) for d, p, t in zip(phases, [*at, phase], taps, strict=True)]
        places = [d.place(p, t) for d, p, t in zip(phases, [*at, phase], taps, strict=True)]
        places[-1] = step + places[-1]
        element = to_accumulator(x[(n, channel, *places)]) * to_accumulator(
            weight[(channel, k % outs if groups > 1 else k, *kernel)]
        )
        every = zip(phases, places, kernel, [*at, phase], strict=True)
        met = [condition for d, place, tap, p in every for condition in d.met(place, tap, p)]
        return te.sum(te.select(te.all_of(*met), element, te.const(0, element.dtype)), axis=[c, *taps])

    steps = -(-shape[-1] // last.stride)
    return te.compute((*shape[:-1], last.stride, steps), value, name, {"operator": NAME})


def ordered(
    total: te.Tensor, bias: te.Tensor | None, stride: int, shape: Sequence[te.Dim], dtype: str, name: str
) -> te.Tensor:
    """The sums in the order of the result, plus one value a channel."""

    def value(*i: te.Value) -> te.Value:
        *outer, p = i
        one = total[(*outer, p % stride, p // stride)] if stride > 1 else total[(*outer, ZERO, p)]
        return te.cast(dtype, one if bias is None else one + to_accumulator(bias[i[1]]))

    return te.compute(shape, value, name)


def check_operands(x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, groups: int) -> int:
    """The number of spatial dimensions of operands that fit each other."""
    check_rank(NAME, "x", x, 3)
    check_number(NAME, "x", x)
    check_rank(NAME, "weight", weight, len(x.shape), len(x.shape))
    channels, extents = (
        static_extent(NAME, "extent 1 of x", x.shape[1]),
        static_extents(NAME, "weight's extent", weight.shape),
    )
    if extents[0] != channels:
        raise OperatorError(
            f"{NAME}: the first extent of weight must be the {channels} channels of x, got {extents[0]}"
        )
    if channels % groups:
        raise OperatorError(f"{NAME}: groups must divide the {channels} channels, got {groups}")
    check_same_dtype(NAME, x, weight, *([] if bias is None else [bias]))
    check_bias(NAME, bias, extents[1] * groups)
    return len(x.shape) - 2


def phases_of(
    x: te.Tensor, weight: te.Tensor, strides: Ints, pads: Ints, extra: Ints, dilations: Ints, rank: int
) -> tuple[list[Phase], list[int]]:
    """Each spatial dimension, and its extent in the result."""
    steps, gaps = integers(NAME, "strides", strides, rank, 1), integers(NAME, "dilations", dilations, rank, 1)
    margins, added = integers(NAME, "pads", pads, 2 * rank, 0), integers(NAME, "output_padding", extra, rank, 0)
    phases, extents = [], []
    spatial = static_extents(NAME, "spatial extent", x.shape[2:])
    for d in range(rank):
        if added[d] >= max(steps[d], gaps[d]):
            rule = f"output_padding must be less than the stride or the dilation, {max(steps[d], gaps[d])}"
            raise OperatorError(f"{NAME}: {rule}, got {added[d]}")
        kernel, before, after = weight.shape[2 + d], margins[d], margins[rank + d]
        whole = (spatial[d] - 1) * steps[d] + (kernel - 1) * gaps[d] + 1 + added[d]
        if whole <= before + after:
            raise OperatorError(f"{NAME}: a result must have elements, got {whole} less the padding {before + after}")
        phases.append(Phase(spatial[d], kernel, steps[d], gaps[d], before))
        extents.append(whole - before - after)
    return phases, extents

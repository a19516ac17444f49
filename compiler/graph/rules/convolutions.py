"""Rules of convolutions: 1-D ones are two-dimensional with one row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.rules.algorithm import ALGORITHM
from vdla.compiler.graph.rules.conv_layouts import conv_in_blocks, is_laid_out, laid_out_conv
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.graph.rules.windows import spatial_options, window_options
from vdla.compiler.ir import SMALL_FLOATS

_PLANE = 2  # spatial dimensions of the fast forms


def conv(call: NodeCall) -> te.Tensor:
    """The rule of Conv, in the layouts of image and result."""
    if is_laid_out(call):
        return laid_out_conv(call)
    if call.is_in_blocks:
        return conv_in_blocks(call)
    return convolve(call, call.tensor(0), call.tensor(1), call.optional(2), call.name())


def convolve(call: NodeCall, x: te.Tensor, weight: te.Tensor, bias: te.Tensor | None, name: str) -> te.Tensor:
    """A convolution with the options of a node."""
    kernel, groups = weight.shape[2:], call.attribute("group", 1)
    strides, pads, dilations = window_options(call.node.attributes, x.shape[2:], kernel)
    known = call.constants[1] if weight is call.tensor(1) else None
    if len(kernel) == _PLANE:
        return _plane(call, x, weight, known, bias, strides, pads, dilations, groups)(name=name)
    if len(kernel) == _PLANE + 1:
        return _volume(call, x, weight, known, bias, strides, pads, dilations, groups, name)
    if len(kernel) > _PLANE:
        return operators.convolution(x, weight, bias, strides, pads, dilations, groups, name=name)
    row, taps = (operators.unsqueeze(t, 2, name=f"{name}_{what}") for t, what in ((x, "row"), (weight, "taps")))
    known = None if known is None else known[:, :, None]
    flat = _plane(call, row, taps, known, bias, (1, *strides), (0, pads[0], 0, pads[1]), (1, *dilations), groups)
    return operators.squeeze(flat(name=f"{name}_plane"), 2, name=name)


def _volume(
    call: NodeCall,
    x: te.Tensor,
    weight: te.Tensor,
    known: Array | None,
    bias: te.Tensor | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    name: str,
) -> te.Tensor:
    """A three-dimensional convolution: the slices under a window are channels of an image."""
    batch, channels, depth, *plane = x.shape
    outputs, own, taps, *kernel = weight.shape
    slices = (depth + pads[0] + pads[3] - (taps - 1) * dilations[0] - 1) // strides[0] + 1

    def image(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        place = n % slices * strides[0] + c % taps * dilations[0] - pads[0]
        element = x[n // slices, c // taps, place, h, w]
        if not (pads[0] or pads[3]):
            return element
        return te.select((place >= 0) & (place < depth), element, te.const(0, x.dtype))

    images = te.compute((batch * slices, channels * taps, *plane), image, f"{name}_slices")
    flat = operators.reshape(weight, (outputs, own * taps, *kernel), name=f"{name}_taps")
    packed = None if known is None else known.reshape(outputs, own * taps, *kernel)
    around = (pads[1], pads[2], pads[4], pads[5])
    rows = _plane(call, images, flat, packed, bias, strides[1:], around, dilations[1:], groups)(name=f"{name}_plane")

    def value(n: te.Value, k: te.Value, d: te.Value, h: te.Value, w: te.Value) -> te.Value:
        return rows[n * slices + d, k, h, w]

    return te.compute((batch, outputs, slices, *rows.shape[2:]), value, name)


def _plane(
    call: NodeCall,
    x: te.Tensor,
    weight: te.Tensor,
    known: Array | None,
    bias: te.Tensor | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> partial[te.Tensor]:
    """A two-dimensional convolution, which lacks only its name; `known` is a constant weight."""
    if groups == x.shape[1] and weight.shape[1] == 1 and groups > 1:
        return partial(operators.depthwise_conv2d, x, weight, bias, strides, pads, dilations)
    if known is not None:
        plan = operators.plan_convolution(
            x.shape,
            weight.shape,
            strides,
            pads,
            dilations,
            groups,
            weight.dtype,
            call.target,
            call.attribute(ALGORITHM, None),
        )
        return partial(plan.apply, x, call.pack("weight", plan.pack(known)), bias)
    return partial(operators.conv2d, x, weight, bias, strides, pads, dilations, groups, target=call.target)


def conv_transpose(call: NodeCall) -> te.Tensor:
    """The rule of ConvTranspose."""
    x, weight = call.tensor(0), call.tensor(1)
    kernel, result = weight.shape[2:], call.extents[2:]
    strides, dilations = spatial_options(call, len(kernel))
    pads, extra = _transposed_pads(call, x.shape[2:], kernel, result)
    groups, known, bias = call.attribute("group", 1), call.constants[1], call.optional(2)
    if known is not None and len(kernel) <= _PLANE and set(dilations) == {1} and x.dtype not in SMALL_FLOATS:
        if len(kernel) == _PLANE:
            return _by_phases(call, x, known, bias, strides, pads, call.extents, call.name())
        row, flat = operators.unsqueeze(x, 2, name=f"{call.name()}_row"), known[:, :, None]
        shape, around = (*call.extents[:2], 1, *result), (0, pads[0], 0, pads[1])
        plane = _by_phases(call, row, flat, bias, (1, *strides), around, shape, f"{call.name()}_plane")
        return operators.squeeze(plane, 2, name=call.name())
    return operators.conv_transpose(x, weight, bias, strides, pads, extra, dilations, groups, name=call.name())


def _by_phases(
    call: NodeCall,
    x: te.Tensor,
    weight: Array,
    bias: te.Tensor | None,
    strides: Sequence[int],
    pads: Sequence[int],
    shape: Sequence[int],
    name: str,
) -> te.Tensor:
    """A transposed convolution as one convolution with the phases of its stride as channels.

    Result q = o * stride + p sums the elements o - t times the taps p + t * stride.
    """
    groups, result = call.attribute("group", 1), shape[2:]
    phases, taps = strides[0] * strides[1], [-(-k // s) for k, s in zip(weight.shape[2:], strides, strict=True)]
    counts = [(result[d] + pads[d] - 1) // strides[d] + 1 for d in range(_PLANE)]
    after = [counts[d] - x.shape[2 + d] for d in range(_PLANE)]
    kernel = _phase_weights(weight, strides, taps, groups)
    around = (taps[0] - 1, taps[1] - 1, max(after[0], 0), max(after[1], 0))
    plan = operators.plan_convolution(x.shape, kernel.shape, 1, around, 1, groups, x.dtype, call.target)
    total = plan.apply(x, call.pack("weight", plan.pack(kernel)), None, f"{name}_phases")

    def value(n: te.Value, k: te.Value, h: te.Value, w: te.Value) -> te.Value:
        row, column = h + pads[0], w + pads[1]
        channel = k * phases + row % strides[0] * strides[1] + column % strides[1]
        element = total[n, channel, row // strides[0], column // strides[1]]
        return element if bias is None else element + bias[k]

    return te.compute(shape, value, name)


def _phase_weights(weight: Array, strides: Sequence[int], taps: Sequence[int], groups: int) -> Array:
    """[CO * phases, C / groups, taps...]: the taps of each phase, turned around, zeros for none."""
    channels, own = weight.shape[0] // groups, weight.shape[1]
    short = [(0, t * s - k) for t, s, k in zip(taps, strides, weight.shape[2:], strict=True)]
    whole = np.pad(weight, [(0, 0), (0, 0), *short])
    apart = whole.reshape(groups, channels, own, taps[0], strides[0], taps[1], strides[1])
    ordered = apart.transpose(0, 2, 4, 6, 1, 3, 5)[..., ::-1, ::-1]  # groups, CO, phases, C, taps
    return np.ascontiguousarray(ordered.reshape(-1, channels, *taps))


def _transposed_pads(
    call: NodeCall, extents: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Padding and output padding: those of the attributes, or such that the result is as large as
    it is.
    """
    rank, auto = len(kernel), call.attribute("auto_pad", "NOTSET")
    none, extra = (0,) * (2 * rank), tuple(call.attribute("output_padding", (0,) * rank))
    if auto == "NOTSET" and "output_shape" not in call.node.attributes:
        return tuple(call.attribute("pads", none)), extra
    if auto == "VALID":
        return none, extra
    strides, dilations = spatial_options(call, rank)
    before, after, added = [], [], []
    for d in range(rank):
        total = strides[d] * (extents[d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - result[d]
        cut = max(total, 0)
        half = cut // 2 if auto == "SAME_UPPER" else cut - cut // 2
        before.append(half)
        after.append(cut - half)
        added.append(extra[d] + cut - total)
    return (*before, *after), added

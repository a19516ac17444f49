# SPDX-License-Identifier: Apache-2.0
"""Rules of transposed convolutions, of floats and of integers, by plain convolutions of images.

Results r, r + stride, ..., phase r, depend only on the taps r, r + stride, ...: each phase is a
convolution of x. All phases have the same windows, so that one convolution computes them, and the
result interleaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array, Attribute
from vdla.compiler.graph.rules.integer_products import packed_inputs, weight_and_bias, zero_points
from vdla.compiler.graph.rules.requantise import EXACT_SUM, bounds, centred, greatest_sum, rescaled, scales
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.graph.rules.windows import spatial_options
from vdla.compiler.ir import SMALL_FLOATS
from vdla.compiler.operators.quantised_weights import best_dot_layout

_PLANE = 2  # spatial dimensions of the fast forms


def _phase_weights(weight: Array, strides: Sequence[int], dilations: Sequence[int], groups: int) -> Array:
    """[groups, strides..., CO / groups, C / groups, taps...]: the taps of each phase of a weight
    [C, CO / groups, KH, KW], flipped, missing taps as zeros.
    """
    grouped = weight.reshape(groups, -1, *weight.shape[1:])
    _, inputs, outputs, *taps = grouped.shape
    kernel = [(taps[d] - 1) * dilations[d] // strides[d] + 1 for d in range(_PLANE)]
    made = np.zeros((groups, *strides, outputs, inputs, *kernel), weight.dtype)
    for i, j in np.ndindex(*taps):
        (m, r), (n, s) = divmod(i * dilations[0], strides[0]), divmod(j * dilations[1], strides[1])
        made[:, r, s, :, :, kernel[0] - 1 - m, kernel[1] - 1 - n] = grouped[..., i, j].swapaxes(1, 2)
    return made


def _phase_pads(
    extents: Sequence[te.Dim], result: Sequence[int], pads: Sequence[int], strides: Sequence[int], taps: Sequence[int]
) -> tuple[int, ...]:
    """The padding of the convolution that computes all phases of a result."""
    counts = [(result[d] - 1 + pads[d]) // strides[d] + 1 for d in range(_PLANE)]
    after = [max(0, counts[d] - int(extents[d])) for d in range(_PLANE)]
    return (taps[0] - 1, taps[1] - 1, *after)


# --- floats ---------------------------------------------------------------------------------------


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
    groups, phases = call.attribute("group", 1), strides[0] * strides[1]
    parts = _phase_weights(weight, strides, (1, 1), groups).transpose(0, 3, 1, 2, 4, 5, 6)  # channels first
    kernel = np.ascontiguousarray(parts.reshape(-1, *parts.shape[4:]))
    around = _phase_pads(x.shape[2:], shape[2:], pads, strides, kernel.shape[2:])
    plan = operators.plan_convolution(x.shape, kernel.shape, 1, around, 1, groups, x.dtype, call.target)
    total = plan.apply(x, call.pack("weight", plan.pack(kernel)), None, f"{name}_phases")

    def value(n: te.Value, k: te.Value, h: te.Value, w: te.Value) -> te.Value:
        row, column = h + pads[0], w + pads[1]
        channel = k * phases + row % strides[0] * strides[1] + column % strides[1]
        element = total[n, channel, row // strides[0], column // strides[1]]
        return element if bias is None else element + bias[k]

    return te.compute(shape, value, name)


def _transposed_pads(
    call: NodeCall, extents: Sequence[int], kernel: Sequence[int], result: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Padding and output padding: those of the attributes, or computed from the extents of the
    result.
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


# --- integers -------------------------------------------------------------------------------------


def qconv_transpose(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QConvTranspose, in the layouts of image and result."""
    if call.result.lanes:
        return _into_blocks(call)
    return _into_plain(call) if _has_phases(call) else _summed(call)


def _into_plain(call: NodeCall) -> te.Tensor:
    """The phases of a channel are neighbours."""
    phases = _Phases.of(call, _channels_first)
    total, lanes = phases.convolution(call), phases.lanes
    (rows, columns), (top, left) = phases.strides, call.attribute("pads")[:_PLANE]

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        y, x = h + top, w + left
        channel = (c * rows + y % rows) * columns + x % columns
        return total[n, channel // lanes, y // rows, x // columns, channel % lanes]

    return te.compute(call.extents, value, call.name())


def _into_blocks(call: NodeCall) -> te.Tensor:
    """[N, CO / lanes, H, W, lanes]: the channels of a phase are neighbours."""
    if not _has_phases(call):
        call.decline("have images, one group, and sums below 2**29")
    phases = _Phases.of(call, _phases_first)
    total, blocks = phases.convolution(call), call.extents[1]
    (rows, columns), (top, left) = phases.strides, call.attribute("pads")[:_PLANE]

    def value(n: te.Value, cb: te.Value, h: te.Value, w: te.Value, c: te.Value) -> te.Value:
        y, x = h + top, w + left
        return total[n, (y % rows * columns + x % columns) * blocks + cb, y // rows, x // columns, c]

    return te.compute(call.extents, value, call.name())


def _has_phases(call: NodeCall) -> bool:
    weight, bias = weight_and_bias(call)
    return may_have_phases(weight, bias, call.node.attributes)


def may_have_phases(weight: Array, bias: Array, attributes: Mapping[str, Attribute]) -> bool:
    """Whether a transposed convolution has images, one group, and sums below 2**29."""
    is_one = weight.ndim == 2 + _PLANE and attributes["group"] == 1
    return is_one and greatest_sum(weight, bias, attributes["x_zero_point"], 1) <= EXACT_SUM


def _summed(call: NodeCall) -> te.Tensor:
    """A transposed convolution of int32."""
    x, (weight, bias) = call.tensor(0), weight_and_bias(call)
    data = centred(call, x, call.attribute("x_zero_point"), "centred")
    names = ("strides", "pads", "output_padding", "dilations", "group")
    strides, pads, extra, dilations, groups = (call.attribute(key) for key in names)
    wide, added = call.pack("weight", weight.astype(np.int32)), call.pack("bias", bias)
    total = operators.conv_transpose(
        data, wide, added, strides, pads, extra, dilations, groups, name=f"{call.name()}_total"
    )
    return rescaled(call, total, 1, greatest_sum(weight, bias, call.attribute("x_zero_point"), 1), call.name())


_Order = Callable[[Array, int], Array]  # of [strides..., outputs, ...], for blocks of some lanes


def _channels_first(part: Array, lanes: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(part, 2, 0)).reshape(-1, *part.shape[3:])


def _phases_first(part: Array, lanes: int) -> Array:
    """The channels of every phase padded to whole blocks."""
    padding = [(0, -extent % lanes if d == 2 else 0) for d, extent in enumerate(part.shape)]
    return np.pad(part, padding).reshape(-1, *part.shape[3:])


@dataclass(frozen=True, eq=False)
class _Phases:
    """The convolution of all phases: weight [outputs, C, KH, KW], a bias and a scale for each."""

    weight: Array
    bias: Array
    scale: Array
    strides: tuple[int, int]
    lanes: int

    @staticmethod
    def of(call: NodeCall, order: _Order) -> _Phases:
        """The phases of a node."""
        weight, bias = weight_and_bias(call)
        lanes = best_dot_layout(call.target).lanes
        strides, dilations = call.attribute("strides"), call.attribute("dilations")
        outputs = weight.shape[1]
        kernels = _phase_weights(weight, strides, dilations, 1)[0]
        channel_scales = np.broadcast_to(scales(call), (outputs,))
        parts = (kernels, *(np.broadcast_to(vector, (*strides, outputs)) for vector in (bias, channel_scales)))
        flat = [order(part, lanes) for part in parts]
        return _Phases(flat[0], flat[1], flat[2], strides, lanes)

    def convolution(self, call: NodeCall) -> te.Tensor:
        """The results of all phases, in blocks; windows overlap the whole image."""
        x, dtype = call.tensor(0), call.result.dtype
        zero, result = zero_points(call)
        pads = _phase_pads(x.shape[2:4], call.extents[2:4], call.attribute("pads"), self.strides, self.weight.shape[2:])
        packed = operators.pack_qconv2d(self.weight, self.scale, call.target, self.bias, zero, x.dtype)
        return operators.qconv2d(
            x, *packed_inputs(call, packed), call.target, None, zero, result, dtype,
            pads=pads, largest_sum=packed.largest_sum, clip=bounds(call, dtype),
            layout=call.input_type().layout, result_layout="blocks", name=f"{call.name()}_phases",
        )  # fmt: skip

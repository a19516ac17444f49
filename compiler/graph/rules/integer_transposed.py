"""Rules of quantised transposed convolutions; those of images by dot products.

The results whose distance to the first one is r modulo the stride, phase r, see only the taps r,
r + stride, ...: they are a convolution of x of their own. All phases have the same windows, so that
one convolution computes them, and the result takes its elements from them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array, Attribute
from vdla.compiler.graph.rules.integer_products import packed_inputs, weight_and_bias, zero_points
from vdla.compiler.graph.rules.requantise import EXACT_SUM, bounds, centred, greatest_sum, rescaled, scales
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.quantised_weights import best_dot_layout

_PLANE = 2


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
    """Whether a transposed convolution is one of images, in one group, with sums below 2**29."""
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


# --- phases ---------------------------------------------------------------------------------------


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
        inputs, outputs, *taps = weight.shape
        kernel = [(taps[d] - 1) * dilations[d] // strides[d] + 1 for d in range(_PLANE)]
        made = np.zeros((*strides, outputs, inputs, *kernel), np.int8)
        for at in np.ndindex(*taps):
            (m, q), (r, s) = zip(*(divmod(at[d] * dilations[d], strides[d]) for d in range(_PLANE)), strict=True)
            made[r, s, :, :, kernel[0] - 1 - m, kernel[1] - 1 - q] = weight[:, :, at[0], at[1]].T
        each = np.broadcast_to(scales(call), (outputs,))
        parts = (made, *(np.broadcast_to(vector, (*strides, outputs)) for vector in (bias, each)))
        flat = [order(part, lanes) for part in parts]
        return _Phases(flat[0], flat[1], flat[2], strides, lanes)

    def convolution(self, call: NodeCall) -> te.Tensor:
        """The results of all phases, in blocks; windows overlap the whole image."""
        x, dtype = call.tensor(0), call.result.dtype
        zero, result = zero_points(call)
        before = [extent - 1 for extent in self.weight.shape[2:]]
        pads, extents = call.attribute("pads"), call.extents[2:4]
        counts = [(extents[d] - 1 + pads[d]) // self.strides[d] + 1 for d in range(_PLANE)]
        after = [max(0, counts[d] - int(x.shape[2 + d])) for d in range(_PLANE)]
        packed = operators.pack_qconv2d(self.weight, self.scale, call.target, self.bias, zero, x.dtype)
        return operators.qconv2d(
            x, *packed_inputs(call, packed), call.target, None, zero, result, dtype,
            pads=(*before, *after), largest_sum=packed.largest_sum, clip=bounds(call, dtype),
            layout=call.input_type().layout, result_layout="blocks", name=f"{call.name()}_phases",
        )  # fmt: skip

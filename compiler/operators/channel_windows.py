"""Weights of quantised depthwise convolutions of blocks of channels, packed once with NumPy.

One step of the dot product reads neighbouring pixels of a block and an entry [lanes, taps] of the
weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler.ir import Array
from vdla.compiler.operators.checks import OperatorError
from vdla.compiler.operators.quantised_weights import (
    PackedWeights,
    array_text,
    best_dot_layout,
    channel_scale,
    check_int8_weight,
    fold_zero_point,
    largest_sum,
    pad_to_multiples,
)
from vdla.compiler.target import Target


@dataclass(frozen=True, slots=True)
class ChannelWindowLayout:
    """A dot product of `taps` neighbouring pixels for each of `lanes` channels of a block."""

    lanes: int
    taps: int
    data: str


def channel_window_layout(target: Target, dilation: int) -> ChannelWindowLayout:
    """The layout of the fastest dot product of neighbouring pixels of `target`, in its blocks."""
    from vdla.compiler.codegen.llvm.intrinsics.window_dot import TAPS, best_channel_window_dot

    lanes = best_dot_layout(target).lanes
    if dilation == 1 and best_channel_window_dot(target, lanes) is not None:
        return ChannelWindowLayout(lanes, TAPS, "uint8")
    return ChannelWindowLayout(lanes, 1, "int16")


def channel_window_weights(
    where: str,
    weight: Array,
    scale: Array,
    layout: ChannelWindowLayout,
    bias: Array | None,
    x_zero_point: int,
    x_dtype: str,
) -> PackedWeights:
    """An int8 weight [C, 1, KH, KW] as [C / lanes, KH, groups, lanes, taps]."""
    check_int8_weight(where, weight, 4, "[C, 1, KH, KW]")
    if weight.shape[1] != 1:
        raise OperatorError(f"{where}: weight must be an int8 array [C, 1, KH, KW], got {array_text(weight)}")
    padded = pad_to_multiples(weight[:, 0], (layout.lanes, 1, layout.taps))
    blocks = padded.reshape(-1, layout.lanes, padded.shape[1], padded.shape[2] // layout.taps, layout.taps)
    folded = fold_zero_point(where, weight, bias, x_zero_point, x_dtype, layout.data)
    return PackedWeights(
        np.ascontiguousarray(blocks.transpose(0, 2, 3, 1, 4)),
        pad_to_multiples(folded, (layout.lanes,)),
        channel_scale(where, scale, weight, layout.lanes),
        largest_sum(weight, folded, x_dtype, layout.data),
    )

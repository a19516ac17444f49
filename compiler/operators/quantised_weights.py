# SPDX-License-Identifier: Apache-2.0
"""Weights of quantised operators as their kernels read them, packed once with NumPy.

A dot-product instruction (`intrinsics/dot.py`) has lanes of outputs and groups of inputs: one step
reads one contiguous entry [lanes, group] of the weight. Channels are padded with zeros. The zero
point of the data is folded into the bias: sum(w * (x - zero_point)) = sum(w * x) - zero_point *
sum(w).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from vdla.compiler.ir import Array, limits
from vdla.compiler.operators.checks import OperatorError, check_choice, integers, target_of
from vdla.compiler.operators.layouts import block_size
from vdla.compiler.operators.quantisation import QUANTISED, activation_shift, check_zero_point
from vdla.compiler.operators.windows import Ints, windows_of
from vdla.compiler.target import Target
from vdla.support.window import Window

_NARROW_ROW = 8  # results in a row that fill half a vector


@dataclass(frozen=True, slots=True)
class DotLayout:
    """A dot product: `group` inputs for each of `lanes` outputs, and the operands' dtypes."""

    lanes: int
    group: int
    data: str
    weights: str


@dataclass(frozen=True, slots=True)
class WindowLayout:
    """A sliding dot product of `taps` neighbouring activations of dtype `data`, in `lanes`.

    The lanes are neighbouring results of a row or, for an image in blocks, the channels of a block.
    """

    lanes: int
    taps: int
    data: str

    def groups(self, window: Window) -> int:
        """The steps of a row of taps."""
        return -(-window.taps[1] // self.taps)

    def columns(self, window: Window, places: int) -> int:
        """The number of columns read by the taps of `places` results in a row."""
        return (places - 1) * window.strides[1] + (self.groups(window) * self.taps - 1) * window.dilations[1] + 1


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The packed weight of a quantised operator, with bias and scale padded to whole lanes.

    `largest_sum` bounds the magnitude of the sums of products and bias, for any data.
    """

    weight: Array
    bias: npt.NDArray[np.int32]
    scale: Array
    largest_sum: int


def best_dot_layout(target: Target) -> DotLayout:
    """The layout of the fastest dot-product instruction of `target`."""
    from vdla.compiler.codegen.llvm.intrinsics.dot import best_dot, dot_layout  # loads llvmlite

    dot = best_dot(target)
    return DotLayout(*dot_layout(dot), dot.behaviour.buffers["w"].dtype)


def row_layout(target: Target, window: Window) -> WindowLayout:
    """The layout of the fastest sliding dot product of `target` along the rows of an image."""
    from vdla.compiler.codegen.llvm.intrinsics.window_dot import TAPS, best_window_dot  # loads llvmlite

    lanes = _NARROW_ROW if window.places[1] <= _NARROW_ROW else 2 * _NARROW_ROW
    if window.dilations[1] == 1 and best_window_dot(target, lanes, window.sampled.strides[1]) is not None:
        return WindowLayout(lanes, TAPS, "uint8")
    return WindowLayout(target.lanes(4), window.taps[1], "int16")


def block_layout(target: Target, window: Window) -> WindowLayout:
    """The layout of the fastest dot product of neighbouring pixels of `target`, in its blocks."""
    from vdla.compiler.codegen.llvm.intrinsics.window_dot import TAPS, best_channel_window_dot

    lanes = best_dot_layout(target).lanes
    if window.dilations[1] == 1 and best_channel_window_dot(target, lanes) is not None:
        return WindowLayout(lanes, TAPS, "uint8")
    return WindowLayout(lanes, 1, "int16")


def pack_qconv2d(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
) -> PackedWeights:
    """An int8 weight [CO, CI, KH, KW], scales and an int32 bias [CO], packed for `qconv2d`.

    `scale` is x_scale * w_scale / y_scale, one number or one a channel. The packed weight has the
    layout "OIHW<lanes>o<group>i": [CO / lanes, CI / group, KH, KW, lanes, group].
    """
    where = "pack_qconv2d"
    check_int8_weight(where, weight, 4, "[CO, CI, KH, KW]")
    return _pack_for_dot(where, weight, scale, best_dot_layout(target_of(where, target)), bias, x_zero_point, x_dtype)


def pack_qdense(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
) -> PackedWeights:
    """An int8 weight [N, K], scales and an int32 bias [N], packed for `qdense`.

    The packed weight has the layout "OI<lanes>o<group>i": [N / lanes, K / group, lanes, group].
    """
    where = "pack_qdense"
    check_int8_weight(where, weight, 2, "[N, K]")
    return _pack_for_dot(where, weight, scale, best_dot_layout(target_of(where, target)), bias, x_zero_point, x_dtype)


def pack_qdepthwise_conv2d(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
    strides: Ints = 1,
    dilations: Ints = 1,
    layout: str = "NCHW",
) -> PackedWeights:
    """An int8 weight [C, 1, KH, KW], scales and an int32 bias [C], packed for `qdepthwise_conv2d`.

    `strides`, `dilations` and `layout` must equal the operator's. The packed weight is [C, KH,
    groups, taps], or [C / lanes, KH, groups, lanes, taps] for an image in blocks; rows and channels
    are padded with zeros.
    """
    where = "pack_qdepthwise_conv2d"
    check_int8_weight(where, weight, 4, "[C, 1, KH, KW]")
    if weight.shape[1] != 1:
        raise OperatorError(f"{where}: weight must be an int8 array [C, 1, KH, KW], got {_array_text(weight)}")
    machine, in_blocks = target_of(where, target), block_size(where, "layout", layout, "NCHW", "c") is not None
    window = windows_of(where, weight.shape[2:], weight.shape[2:], strides, 0, 1)
    window = replace(window, dilations=integers(where, "dilations", dilations, 2, 1))
    form = (block_layout if in_blocks else row_layout)(machine, window)
    lanes = form.lanes if in_blocks else 1
    padded = pad_to_multiples(weight[:, 0], (lanes, 1, form.taps))
    packed = padded.reshape(-1, lanes, window.taps[0], form.groups(window), form.taps)
    packed = np.ascontiguousarray(packed.transpose(0, 2, 3, 1, 4)) if in_blocks else packed[:, 0]
    return _with_bias_and_scale(where, packed, weight, scale, bias, x_zero_point, x_dtype, form.data, lanes)


# --- parts ----------------------------------------------------------------------------------------


def _pack_for_dot(
    where: str, weight: Array, scale: Array, layout: DotLayout, bias: Array | None, x_zero_point: int, x_dtype: str
) -> PackedWeights:
    """A weight [outputs, inputs, taps...] as [blocks, groups, taps..., lanes, group]."""
    padded = pad_to_multiples(weight, (layout.lanes, layout.group, *(1,) * (weight.ndim - 2)))
    outputs, inputs, *taps = padded.shape
    blocks = padded.reshape(outputs // layout.lanes, layout.lanes, inputs // layout.group, layout.group, *taps)
    packed = np.ascontiguousarray(np.moveaxis(blocks, (1, 3), (-2, -1)).astype(layout.weights))
    return _with_bias_and_scale(where, packed, weight, scale, bias, x_zero_point, x_dtype, layout.data, layout.lanes)


def _with_bias_and_scale(
    where: str,
    packed: Array,
    weight: Array,
    scale: Array,
    bias: Array | None,
    x_zero_point: int,
    x_dtype: str,
    data: str,
    lanes: int,
) -> PackedWeights:
    """A packed weight with the bias and the scale of each channel, padded to whole lanes."""
    folded = _fold_zero_point(where, weight, bias, x_zero_point, x_dtype, data)
    scales = _channel_scale(where, scale, weight, lanes)
    return PackedWeights(
        packed, pad_to_multiples(folded, (lanes,)), scales, _largest_sum(weight, folded, x_dtype, data)
    )


def check_int8_weight(where: str, weight: Array, rank: int, form: str) -> None:
    """Refuse anything but a non-empty int8 array of `rank` dimensions."""
    if not isinstance(weight, np.ndarray) or weight.dtype != np.int8 or weight.ndim != rank:
        raise OperatorError(f"{where}: weight must be an int8 array {form}, got {_array_text(weight)}")
    if not weight.size:
        raise OperatorError(f"{where}: every extent of weight must be at least 1, got {_array_text(weight)}")


def _array_text(value: object) -> str:
    """The dtype and shape of an array as text; the type of anything else."""
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def pad_to_multiples(array: Array, multiples: tuple[int, ...]) -> Array:
    """`array` padded with zeros so that each extent is a multiple of its number."""
    return np.pad(array, [(0, -extent % m) for extent, m in zip(array.shape, multiples, strict=True)])


def _fold_zero_point(
    where: str, weight: Array, bias: Array | None, zero_point: int, x_dtype: str, data: str
) -> npt.NDArray[np.int32]:
    """The bias minus the contribution of the data's zero point and shift to each sum, in int32."""
    check_choice(where, "x_dtype", x_dtype, QUANTISED)
    offset = check_zero_point(where, "x_zero_point", zero_point, x_dtype) + activation_shift(x_dtype, data)
    sums = weight.astype(np.int64).sum(axis=tuple(range(1, weight.ndim)))
    start = np.zeros(len(weight), np.int32) if bias is None else bias
    if not isinstance(start, np.ndarray) or start.shape != sums.shape or start.dtype != np.int32:
        raise OperatorError(f"{where}: bias must be an int32 array of {len(sums)}, got {_array_text(start)}")
    return np.asarray((start - offset * sums).astype(np.int32))


def _largest_sum(weight: Array, bias: npt.NDArray[np.int32], x_dtype: str, data: str) -> int:
    """The bound of the magnitude of sums over data of `x_dtype`, converted to dtype `data`."""
    terms = weight.reshape(len(weight), -1).astype(np.int64)
    ends = [terms * (int(limit) + activation_shift(x_dtype, data)) for limit in limits(x_dtype)]
    highest, lowest = (choose(*ends).sum(axis=1) + bias for choose in (np.maximum, np.minimum))
    return int(max(np.abs(highest).max(), np.abs(lowest).max()))


def _channel_scale(where: str, scale: Array, weight: Array, lanes: int) -> Array:
    """The scale of each channel, padded to whole lanes."""
    is_fixed = isinstance(scale, np.ndarray) and scale.dtype == np.int64
    given = scale if is_fixed else _finite_float32(where, scale)
    if given.shape not in ((), (1,), (len(weight),)):
        raise OperatorError(f"{where}: scale must be one number or {len(weight)}, got shape {list(given.shape)}")
    scales = np.broadcast_to(given.reshape(-1), (len(weight),))
    return pad_to_multiples(scales, (lanes,))


def _finite_float32(where: str, scale: Array) -> npt.NDArray[np.float32]:
    """Scales as finite float32 numbers."""
    try:
        with np.errstate(over="ignore"):
            given = np.asarray(scale, np.float32)
    except (TypeError, ValueError):
        raise OperatorError(f"{where}: scale must be numbers, got {scale!r}") from None
    if not np.isfinite(given).all():
        raise OperatorError(f"{where}: scale must be finite in float32, got {given[~np.isfinite(given)][0]}")
    return given

"""Weights of quantised operators as their kernels read them, packed once with numpy.

A dot product (`intrinsics/dot.py`) has lanes of outputs and groups of inputs; weights lie so that one step reads one
contiguous entry [lanes, group]. Channels are padded with weights of 0. The bias takes in what does not depend on the
data: sum of w * (x - zero_point) is the sum of w * x less zero_point * the sum of w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.compiler.ir import Array
from vdla.compiler.operators.checks import OperatorError, check_choice, integers, machine_of
from vdla.compiler.operators.quantise import QUANTISED, check_zero_point, shift_of
from vdla.compiler.operators.sampled_input import Taken
from vdla.compiler.operators.windows import Ints
from vdla.compiler.target import Target

NARROW_ROW = 8  # results in a row that fit half a vector


@dataclass(frozen=True, slots=True)
class DotLayout:
    """The entries of a dot product: `lanes` outputs, `group` inputs, and the dtypes of data and weights."""

    lanes: int
    group: int
    data: str
    weights: str


@dataclass(frozen=True, slots=True)
class WindowLayout:
    """The entries of a sum along a row: `lanes` results of `taps` neighbouring activations each, of dtype `data`."""

    lanes: int
    taps: int
    data: str

    def columns(self, part: Taken) -> int:
        """The columns of the data that all lanes and taps read."""
        blocks, groups = -(-part.windows.counts[1] // self.lanes), -(-part.windows.kernel[1] // self.taps)
        last = (blocks * self.lanes - 1) * part.stride(1)
        return last + (groups * self.taps - 1) * part.windows.dilations[1] + 1


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """Arrays for a quantised operator: `weight`, `bias` (int32) and `scale` (float32), the latter for each channel,
    all padded to whole lanes."""

    weight: Array
    bias: npt.NDArray[np.int32]
    scale: npt.NDArray[np.float32]


def layout_of(target: Target) -> DotLayout:
    """The layout of the dot product that `target` runs fastest."""
    from vdla.compiler.codegen.llvm.intrinsics.dot import best_dot, dot_layout  # loads llvmlite

    dot = best_dot(target)
    return DotLayout(*dot_layout(dot), dot.behaviour.buffers["w"].dtype)


def window_layout(target: Target, columns: int, taps: int, stride: int, dilation: int) -> WindowLayout:
    """The layout in which `target` slides windows of one channel fastest, along rows of `columns` results."""
    from vdla.compiler.codegen.llvm.intrinsics.window_dot import TAPS, best_window_dot  # loads llvmlite

    lanes = NARROW_ROW if columns <= NARROW_ROW else 2 * NARROW_ROW
    if dilation == 1 and best_window_dot(target, lanes, 1 if taps == 1 else stride) is not None:
        return WindowLayout(lanes, TAPS, "uint8")
    return WindowLayout(target.lanes(4), taps, "int16")


def pack_qconv2d(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
) -> PackedWeights:
    """Weights int8 [CO, CI, KH, KW], scales and an int32 bias [CO] for `qconv2d`.

    `scale` is x_scale * w_scale / y_scale; one number stands for all channels. The result's weight is
    [CO / lanes, CI / group, KH, KW, lanes, group].
    """
    where = "pack_qconv2d"
    check_weight(where, weight, 4, "[CO, CI, KH, KW]")
    return in_lanes(where, weight, scale, layout_of(machine_of(where, target)), bias, x_zero_point, x_dtype)


def pack_qdense(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
) -> PackedWeights:
    """Weights int8 [N, K], scales and an int32 bias [N] for `qdense`: weight [N / lanes, K / group, lanes, group]."""
    where = "pack_qdense"
    check_weight(where, weight, 2, "[N, K]")
    return in_lanes(where, weight, scale, layout_of(machine_of(where, target)), bias, x_zero_point, x_dtype)


def pack_qdepthwise_conv2d(
    weight: Array,
    scale: Array,
    target: Target | str,
    bias: Array | None = None,
    x_zero_point: int = 0,
    x_dtype: str = "uint8",
    strides: Ints = 1,
    dilations: Ints = 1,
) -> PackedWeights:
    """Weights int8 [C, KH, KW], scales and an int32 bias [C] for `qdepthwise_conv2d` with these strides and dilations.

    The result's weight is [C, KH, groups, taps], with zeros behind the taps of the kernel.
    """
    where = "pack_qdepthwise_conv2d"
    check_weight(where, weight, 3, "[C, KH, KW]")
    channels, *kernel = weight.shape
    stride, dilation = integers(where, "strides", strides, 2, 1)[1], integers(where, "dilations", dilations, 2, 1)[1]
    layout = window_layout(machine_of(where, target), 1, kernel[1], stride, dilation)
    packed = padded_to(weight, (1, 1, layout.taps)).reshape(channels, kernel[0], -1, layout.taps)
    folded = folded_bias(where, weight, bias, x_zero_point, x_dtype, layout.data)
    return PackedWeights(packed, folded, padded_scale(where, scale, weight, 1))


# --- parts -----------------------------------------------------------------------------------------------------------


def in_lanes(
    where: str, weight: Array, scale: Array, layout: DotLayout, bias: Array | None, x_zero_point: int, x_dtype: str
) -> PackedWeights:
    """Weights [outputs, inputs, taps...] in the entries of a dot product: [blocks, groups, taps..., lanes, group]."""
    padded = padded_to(weight, (layout.lanes, layout.group, *(1,) * (weight.ndim - 2)))
    outputs, inputs, *taps = padded.shape
    blocks = padded.reshape(outputs // layout.lanes, layout.lanes, inputs // layout.group, layout.group, *taps)
    packed = np.ascontiguousarray(np.moveaxis(blocks, (1, 3), (-2, -1)).astype(layout.weights))
    folded = folded_bias(where, weight, bias, x_zero_point, x_dtype, layout.data)
    return PackedWeights(packed, padded_to(folded, (layout.lanes,)), padded_scale(where, scale, weight, layout.lanes))


def check_weight(where: str, weight: Array, rank: int, form: str) -> None:
    """Refuse weights that are not int8 of that rank, or that are empty."""
    if not isinstance(weight, np.ndarray) or weight.dtype != np.int8 or weight.ndim != rank:
        raise OperatorError(f"{where}: weight must be an int8 array {form}, got {array_kind(weight)}")
    if not weight.size:
        raise OperatorError(f"{where}: every extent of weight must be at least 1, got {array_kind(weight)}")


def array_kind(value: object) -> str:
    """The dtype and the shape of an array as text; of anything else, what it is."""
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def padded_to(array: Array, multiples: tuple[int, ...]) -> Array:
    """`array` with zeros behind, so that each extent is a multiple."""
    return np.pad(array, [(0, -extent % m) for extent, m in zip(array.shape, multiples, strict=True)])


def folded_bias(
    where: str, weight: Array, bias: Array | None, zero_point: int, x_dtype: str, data: str
) -> npt.NDArray[np.int32]:
    """The bias less what the zero point and the shift of the data add to every sum; int32 wraps."""
    check_choice(where, "x_dtype", x_dtype, QUANTISED)
    moved = check_zero_point(where, "x_zero_point", zero_point, x_dtype) + shift_of(x_dtype, data)
    sums = weight.astype(np.int64).sum(axis=tuple(range(1, weight.ndim)))
    start = np.zeros(len(weight), np.int32) if bias is None else bias
    if not isinstance(start, np.ndarray) or start.shape != sums.shape or start.dtype != np.int32:
        raise OperatorError(f"{where}: bias must be an int32 array of {len(sums)}, got {array_kind(start)}")
    return np.asarray((start - moved * sums).astype(np.int32))


def padded_scale(where: str, scale: Array, weight: Array, lanes: int) -> npt.NDArray[np.float32]:
    """The scale of each channel, padded to whole lanes."""
    given = float32_of(where, scale)
    if given.shape not in ((), (1,), (len(weight),)):
        raise OperatorError(f"{where}: scale must be one number or {len(weight)}, got shape {list(given.shape)}")
    each = np.broadcast_to(given.reshape(-1), (len(weight),))
    return np.asarray(padded_to(each, (lanes,)), np.float32)


def float32_of(where: str, scale: Array) -> npt.NDArray[np.float32]:
    """Scales as float32, all of them finite."""
    try:
        with np.errstate(over="ignore"):
            given = np.asarray(scale, np.float32)
    except (TypeError, ValueError):
        raise OperatorError(f"{where}: scale must be numbers, got {scale!r}") from None
    if not np.isfinite(given).all():
        raise OperatorError(f"{where}: scale must be finite in float32, got {given[~np.isfinite(given)][0]}")
    return given

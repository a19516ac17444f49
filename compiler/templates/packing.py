"""Packed layouts: plain arrays to blocks of the machine's size and back; channels and batch are padded with zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.dtypes import limits
from vdla.compiler.templates.operator import TemplateError
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scales_from_floats

Array = npt.NDArray[Any]


def blocks(extent: int, block: int) -> int:
    """Blocks that hold `extent` elements."""
    return -(-extent // block)


def check_array(name: str, array: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """`array`, of the expected shape and with integers in the range of `dtype`."""
    array = np.asarray(array)
    if array.shape != shape:
        raise TemplateError(f"{name}: shape must be {list(shape)}, got {list(array.shape)}")
    if array.dtype.kind not in "iu":
        raise TemplateError(f"{name}: elements must be integers, got {array.dtype}")
    low, high = limits(dtype)
    if array.size and (array.min() < low or array.max() > high):
        raise TemplateError(f"{name}: elements must be in {low}..{high} ({dtype}), got {array.min()}..{array.max()}")
    return array


def padded(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` with zeros added at the end of each dimension."""
    return np.pad(array, [(0, new - old) for old, new in zip(array.shape, shape, strict=True)])


def pack_activations(array: Array, batch: int, block: int) -> Array:
    """[N, C, H, W] to [N/batch, C/block, H, W, batch, block]."""
    n, c, h, w = array.shape
    nb, cb = blocks(n, batch), blocks(c, block)
    full = padded(array, (nb * batch, cb * block, h, w)).reshape(nb, batch, cb, block, h, w)
    return np.ascontiguousarray(full.transpose(0, 2, 4, 5, 1, 3), np.int8)


def unpack_activations(array: Array, shape: tuple[int, int, int, int]) -> Array:
    """[N/batch, C/block, H, W, batch, block] to the first [N, C, H, W] elements."""
    nb, cb, h, w, batch, block = array.shape
    full = array.transpose(0, 4, 1, 5, 2, 3).reshape(nb * batch, cb * block, h, w)
    n, c, height, width = shape
    return np.ascontiguousarray(full[:n, :c, :height, :width])


def pack_weights(array: Array, block_out: int, block_in: int) -> Array:
    """[O, I, KH, KW] to [O/block_out, I/block_in, KH, KW, block_out, block_in]."""
    o, i, kh, kw = array.shape
    ob, ib = blocks(o, block_out), blocks(i, block_in)
    full = padded(array, (ob * block_out, ib * block_in, kh, kw)).reshape(ob, block_out, ib, block_in, kh, kw)
    return np.ascontiguousarray(full.transpose(0, 2, 4, 5, 1, 3), np.int8)


def pack_scales(bias: Array, multiplier: Array, block_out: int) -> Array:
    """One bias and one real factor a channel to [C/block_out, block_out] lanes; channels that are padding give zero."""
    mult, shift = scales_from_floats(multiplier)
    lanes = pack_scale(bias, mult, shift).view(np.int64)
    full = blocks(len(lanes), block_out) * block_out
    return padded(lanes, (full,)).reshape(-1, block_out)


def channel_parameters(channels: int, bias: Array | None, multiplier: Array | float) -> tuple[Array, Array]:
    """Bias (int32) and multiplier (float64) for every channel, checked."""
    bias = np.zeros(channels, np.int64) if bias is None else check_array("bias", bias, (channels,), "int32")
    factors = np.broadcast_to(np.asarray(multiplier, np.float64), (channels,)) if np.ndim(multiplier) == 0 else multiplier
    factors = np.asarray(factors, np.float64)
    if factors.shape != (channels,):
        raise TemplateError(f"multiplier: shape must be [{channels}] or one number, got {list(factors.shape)}")
    return bias.astype(np.int64), factors


def check_range(name: str, value: int, dtype: str) -> tuple[int, int]:
    """The limits of `dtype`, which `value` must respect."""
    low, high = (int(v) for v in limits(dtype))
    if not low <= value <= high:
        raise TemplateError(f"{name}: must be in {low}..{high} ({dtype}), got {value}")
    return low, high


def result_bounds(config: Config, zero_point: int, activation: str, ceiling: int | None) -> tuple[int, int]:
    """The clip bounds of results: of the output type, raised to the zero point by relu, lowered to `ceiling`."""
    low, high = check_range("zero_point", zero_point, config.out_dtype)
    if activation not in ("none", "relu"):
        raise TemplateError(f"activation: must be none or relu, got {activation!r}")
    low = zero_point if activation == "relu" else low
    if ceiling is not None and not low <= ceiling <= high:
        raise TemplateError(f"ceiling: must be in {low}..{high}, got {ceiling}")
    return low, high if ceiling is None else ceiling

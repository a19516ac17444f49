# SPDX-License-Identifier: Apache-2.0
"""Convolutions over any number of spatial dimensions, a tap at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.runtime.numpy_operators.dtypes import in_float32
from vdla.runtime.numpy_operators.elementwise import sigmoid
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.windows import pad_image, under_tap
from vdla.support.window import window_of


def convolve(attributes: Attributes, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """[N, CO, windows...], in the type of `x`."""
    groups, batch = attributes.get("group", 1), x.shape[0]
    windows = window_of(attributes, x.shape[2:], weight.shape[2:])
    padded = pad_image(windows, x, 0)
    count = math.prod(windows.places)
    total = np.zeros((batch, groups, weight.shape[0] // groups, count), x.dtype)
    kernels: Array = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    for tap in np.ndindex(*windows.taps):
        under = under_tap(windows, padded, tap).reshape(batch, groups, weight.shape[1], count)
        place: Any = (..., *tap)
        total += np.matmul(kernels[place], under)
    result = total.reshape(batch, weight.shape[0], *windows.places)
    return result if bias is None else result + bias.reshape(-1, *(1,) * (x.ndim - 2))


def convolve_transposed(attributes: Attributes, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Each input element adds its multiple of the kernel to the result."""
    rank, groups = x.ndim - 2, attributes.get("group", 1)
    strides = attributes.get("strides", (1,) * rank)
    dilations = attributes.get("dilations", (1,) * rank)
    outputs = weight.shape[1] * groups
    shape, before = _result(attributes, x, weight)
    span = [(x.shape[2 + d] - 1) * strides[d] + (weight.shape[2 + d] - 1) * dilations[d] + 1 for d in range(rank)]
    whole = np.zeros((x.shape[0], outputs, *(max(s, b + n) for s, b, n in zip(span, before, shape, strict=True))))
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))
    kernels: Array = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    for tap in np.ndindex(*weight.shape[2:]):
        kernel = kernels[(..., *tap)].transpose(0, 2, 1)
        terms = np.matmul(kernel, parts).reshape(x.shape[0], outputs, *x.shape[2:])
        places = [
            slice(t * gap, t * gap + max((extent - 1) * stride + 1, 0), stride)
            for t, gap, extent, stride in zip(tap, dilations, x.shape[2:], strides, strict=True)
        ]
        whole[(slice(None), slice(None), *places)] += terms
    inner = tuple(slice(b, b + extent) for b, extent in zip(before, shape, strict=True))
    result = whole[(slice(None), slice(None), *inner)]
    return result if bias is None else result + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _result(attributes: Attributes, x: Array, weight: Array) -> tuple[list[int], list[int]]:
    """The extents of a transposed convolution, and how much of each dimension's start is cut."""
    rank, auto = x.ndim - 2, attributes.get("auto_pad", "NOTSET")
    strides = attributes.get("strides", (1,) * rank)
    dilations = attributes.get("dilations", (1,) * rank)
    extra = attributes.get("output_padding", (0,) * rank)
    pads = attributes.get("pads", (0,) * (2 * rank)) if auto == "NOTSET" else (0,) * (2 * rank)
    wanted = attributes.get("output_shape")
    shape, before = [], []
    for d in range(rank):
        extent = x.shape[2 + d]
        whole = strides[d] * (extent - 1) + extra[d] + (weight.shape[2 + d] - 1) * dilations[d] + 1
        if wanted is None and not auto.startswith("SAME"):
            shape.append(whole - pads[d] - pads[rank + d])
            before.append(pads[d])
            continue
        shape.append(min(whole, extent * strides[d]) if wanted is None else wanted[d - rank])
        cut = max(whole - shape[d], 0)
        before.append(cut // 2 if auto == "SAME_UPPER" else cut - cut // 2)
    return shape, before


def _conv_integer(
    attributes: Attributes, x: Array, weight: Array, x_zero: Array | None = None, w_zero: Array | None = None
) -> tuple[Array]:
    """Zero points of weights are one, or one for each output channel."""
    image = x.astype(np.int32) - (0 if x_zero is None else x_zero.astype(np.int32).reshape(-1)[0])
    kernel = weight.astype(np.int32)
    if w_zero is not None:
        kernel = kernel - w_zero.astype(np.int32).reshape(-1, *(1,) * (weight.ndim - 1))
    return (convolve(attributes, image, kernel),)


def _causal_conv(
    attributes: Attributes,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    past: Array | None = None,
) -> tuple[Array, Array]:
    """A depthwise convolution of the past and the present; the last positions are the new past."""
    taps = weight.shape[2]
    before = np.zeros((*x.shape[:2], taps - 1), x.dtype) if past is None else past.astype(x.dtype)
    line = np.concatenate([before, x], 2)

    def function(options: Attributes, data: Array, kernel: Array, offset: Array | None = None) -> Array:
        result = convolve({"group": data.shape[1]}, data, kernel, offset)
        return result * sigmoid(result) if options.get("activation", "none") in ("silu", "swish") else result

    (result,) = in_float32(function)(attributes, line, weight, bias)
    return result, line[:, :, line.shape[2] - (taps - 1) :]


CONVOLUTIONS: Mapping[str, Function] = {
    "CausalConvWithState": _causal_conv,
    "Conv": in_float32(convolve),
    "ConvInteger": _conv_integer,
    "ConvTranspose": in_float32(convolve_transposed),
}

# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vdla.compiler.graph.graph import Array, TensorType
from vdla.compiler.graph.tflite.context import OperatorContext
from vdla.compiler.graph.tflite.errors import decline
from vdla.compiler.graph.tflite.floats import activated, check_float, float_weight
from vdla.compiler.graph.tflite.weights import product_factors, quantised_bias, quantised_weight

_SAME, _VALID = 0, 1
_PLANE = 2
_MOST_PADDING = 1 << 16


def _at_least_one(what: str, values: Sequence[int]) -> tuple[int, int]:
    height, width = (int(value) for value in values)
    if min(height, width) < 1:
        decline(f"have {what} of at least 1, got {[height, width]}")
    return height, width


def _strides(at: OperatorContext) -> tuple[int, int]:
    return _at_least_one("strides", (at.option("StrideH"), at.option("StrideW")))


def _pads(at: OperatorContext, size: Sequence[int], taps: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The padding before and after each dimension; `taps` are the extents of a dilated window."""
    if at.option("Padding") not in (_SAME, _VALID):
        decline(f"have SAME or VALID padding, got number {at.option('Padding')}")
    if at.option("Padding") == _VALID:
        return (0,) * 2 * len(size)
    totals = [max((-(-n // s) - 1) * s + k - n, 0) for n, k, s in zip(size, taps, strides, strict=True)]
    if max(totals) > _MOST_PADDING:
        decline(f"have windows of at most {_MOST_PADDING} elements, got {list(taps)}")
    return (*(total // 2 for total in totals), *(total - total // 2 for total in totals))


def _window(at: OperatorContext, image: TensorType, kernel: Sequence[int]) -> dict[str, Any]:
    """The attributes strides, pads and dilations of a convolution."""
    strides = _strides(at)
    dilations = _at_least_one("dilations", (at.option("DilationHFactor", 1), at.option("DilationWFactor", 1)))
    taps = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _pads(at, image.extents[2:], taps, strides)
    return {"strides": strides, "pads": pads, "dilations": dilations}


def _places(image: TensorType, kernel: Sequence[int], window: dict[str, Any]) -> tuple[int, ...]:
    """The extents of the result's plane."""
    before, after = window["pads"][:_PLANE], window["pads"][_PLANE:]
    places = []
    for d, size in enumerate(image.extents[2:]):
        taps = (kernel[d] - 1) * window["dilations"][d] + 1
        places.append((size + before[d] + after[d] - taps) // window["strides"][d] + 1)
    if min(places) < 1:
        decline(f"have windows within the image, got {list(kernel)} over {list(image.extents[2:])}")
    return tuple(places)


# --- convolutions ---------------------------------------------------------------------------------


def convolution(at: OperatorContext) -> None:
    """CONV_2D: a weight [CO, KH, KW, CI / groups]."""
    _convolution(at, (0, 3, 1, 2), 0)


def depthwise_convolution(at: OperatorContext) -> None:
    """DEPTHWISE_CONV_2D: a weight [1, KH, KW, C * multiplier]."""
    _convolution(at, (3, 0, 1, 2), 3)


def _convolution(at: OperatorContext, order: tuple[int, ...], outputs_axis: int) -> None:
    """A convolution of the weight in `order`, whose outputs lie along an axis of the file's."""
    if len(at.tensor(1).shape) != 2 + _PLANE or 0 in at.tensor(1).shape:
        decline(f"have a weight of four dimensions, got {list(at.tensor(1).shape)}")
    x = at.read_image(0)
    image, weight_shape = at.builder.type_of(x), tuple(at.tensor(1).shape[d] for d in order)
    outputs, inputs = weight_shape[:2]
    channels = image.extents[1]
    groups = channels // inputs
    if outputs_axis and inputs != 1:
        decline(f"have one kernel a channel, got a weight of {list(at.tensor(1).shape)}")
    if groups < 1 or channels % inputs or outputs % groups:
        decline(f"have a weight for {channels} channels, got {list(at.tensor(1).shape)}")
    window = _window(at, image, weight_shape[2:])
    places = _places(image, weight_shape[2:], window)
    shape = (image.extents[0], outputs, *places)
    if at.is_quantised:
        values = quantised_weight(at, 1, outputs_axis).transpose(order)
        attributes = {
            **window,
            "group": groups,
            "x_zero_point": at.affine(0).zero_point,
            **at.rescaled(product_factors(at, 0, 1, outputs)),
        }
        operands = _operands(at, values, quantised_bias(at, 2, outputs))
        at.define(at.add("vdla.QConv", [x, *operands], attributes, TensorType("int8", shape)), is_image=True)
        return
    check_float(at)
    operands = _operands(at, float_weight(at.tensor(1)).transpose(order), _float_bias(at, outputs))
    made = at.add("Conv", [x, *operands], {**window, "group": groups}, TensorType("float32", shape))
    at.define(activated(at, made), is_image=True)


def _operands(at: OperatorContext, *values: Array | None) -> list[str]:
    names = ("weight", "bias")
    known = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    return [at.builder.constant(value, f"{at.builder.label}_{name}") for name, value in known]


def _float_bias(at: OperatorContext, outputs: int) -> Array | None:
    if not at.has(2):
        return None
    value = float_weight(at.tensor(2)).reshape(-1)
    if value.size != outputs:
        decline(f"have a bias of {outputs}, got {value.size}")
    return value


def transposed_convolution(at: OperatorContext) -> None:
    """TRANSPOSE_CONV: the shape of the result, a weight [CO, KH, KW, CI], the image, a bias."""
    if len(at.tensor(1).shape) != 2 + _PLANE:
        decline(f"have a weight of four dimensions, got {list(at.tensor(1).shape)}")
    x = at.read_image(2)
    image, (outputs, *kernel, inputs), strides = at.builder.type_of(x), at.tensor(1).shape, _strides(at)
    result = at.integers(0, "shape of the result")
    if len(result) != 2 + _PLANE or result[3] != outputs or inputs != image.extents[1] or result[0] != image.extents[0]:
        decline(f"have a weight that fits image and result, got {list(at.tensor(1).shape)} for {list(result)}")
    options = _transposed_window(at, image.extents[2:], result[1:3], kernel, strides)
    shape = (result[0], outputs, *result[1:3])
    if at.is_quantised:
        values = quantised_weight(at, 1, 0).transpose(3, 0, 1, 2)
        attributes = {
            **options,
            "group": 1,
            "x_zero_point": at.affine(2).zero_point,
            **at.rescaled(product_factors(at, 2, 1, outputs)),
        }
        operands = _operands(at, values, quantised_bias(at, 3, outputs))
        at.define(at.add("vdla.QConvTranspose", [x, *operands], attributes, TensorType("int8", shape)), is_image=True)
        return
    check_float(at, 2)
    bias = float_weight(at.tensor(3)).reshape(-1) if at.has(3) else None
    operands = _operands(at, float_weight(at.tensor(1)).transpose(3, 0, 1, 2), bias)
    made = at.add("ConvTranspose", [x, *operands], options, TensorType("float32", shape))
    at.define(activated(at, made), is_image=True)


def _transposed_window(
    at: OperatorContext, size: Sequence[int], result: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> dict[str, Any]:
    """The options of the convolution that scatters `size` places into a plane of `result`."""
    pads = _pads(at, result, kernel, strides)
    before, after, extra = list(pads[:_PLANE]), list(pads[_PLANE:]), [0] * _PLANE
    for d in range(_PLANE):
        cut = (size[d] - 1) * strides[d] + kernel[d] - result[d] - before[d]
        after[d], extra[d] = max(cut, 0), max(-cut, 0)
        if extra[d] >= strides[d] or after[d] > _MOST_PADDING:
            decline(f"have a result of the extents that its padding gives, got {list(result)}")
    return {
        "strides": tuple(strides),
        "pads": (*before, *after),
        "dilations": (1,) * _PLANE,
        "output_padding": tuple(extra),
    }


# --- pools ----------------------------------------------------------------------------------------


def average_pool(at: OperatorContext) -> None:
    """AVERAGE_POOL_2D, over the elements within the image."""
    _pool(at, "AveragePool", {"count_include_pad": 0, "half_away": 1}, {"count_include_pad": 0})


def max_pool(at: OperatorContext) -> None:
    """MAX_POOL_2D."""
    _pool(at, "MaxPool", {}, {})


def _pool(at: OperatorContext, op: str, integer: dict[str, Any], floats: dict[str, Any]) -> None:
    x, strides = at.read_image(0), _strides(at)
    image = at.builder.type_of(x)
    kernel = _at_least_one("windows", (at.option("FilterHeight"), at.option("FilterWidth")))
    pads = _pads(at, image.extents[2:], kernel, strides)
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": (1,) * _PLANE}
    shape = (*image.extents[:2], *_places(image, kernel, window))
    if not at.is_quantised:
        check_float(at)
        made = at.add(op, [x], {**window, **floats}, TensorType("float32", shape))
        at.define(activated(at, made), is_image=True)
        return
    if at.affine(0) != at.result:
        decline("have the scale and zero point of its input")
    attributes = {**window, **integer, "x_zero_point": at.result.zero_point, **at.rescaled(1.0)}
    at.define(at.add(f"vdla.Q{op}", [x], attributes, TensorType("int8", shape)), is_image=True)

# SPDX-License-Identifier: Apache-2.0
"""The exact messages of template errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vdla.compiler.operators.vdla.operator import Operator, TemplateError
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise import depthwise_conv2d, pool2d
from vdla.compiler.templates.conv2d import conv2d
from vdla.compiler.templates.conv2d_transpose import conv2d_transpose
from vdla.compiler.templates.elementwise import extremum, leaky_relu, rescale, residual_add
from vdla.compiler.templates.products import batched_matmul, dense
from vdla.hardware.config import Config

CONFIG = Config.preset("tiny")
IMAGE = {"batch": 1, "height": 6, "width": 5}
OPTIONS: dict[Callable[..., Operator], dict[str, Any]] = {
    conv2d: {**IMAGE, "in_channels": 5, "out_channels": 6, "kernel": 3},
    conv2d_transpose: {**IMAGE, "in_channels": 5, "out_channels": 6, "kernel": 3},
    batched_matmul: {"batch": 2, "rows": 3, "depth": 5, "columns": 6},
    dense: {"rows": 3, "in_features": 5, "out_features": 6},
    depthwise_conv2d: {**IMAGE, "channels": 5, "kernel": 3},
    pool2d: {**IMAGE, "channels": 5, "kernel": 3, "kind": "average"},
    rescale: {**IMAGE, "channels": 5},
    leaky_relu: {**IMAGE, "channels": 5, "factors": (10, 1)},
    extremum: {**IMAGE, "channels": 5, "kind": "maximum"},
    residual_add: {**IMAGE, "channels": 5},
}

HUGE = Tiling(rows=99, cols=99, out_blocks=1, in_blocks=1, keep_weights=False, threads=1, threads_over="rows")
FINE = Tiling(rows=1, cols=3, out_blocks=1, in_blocks=1, keep_weights=False, threads=2, threads_over="rows")

REFUSED = [
    (
        conv2d,
        {"stride": 2},
        "conv2d: option must be one of batch, height, width, kernel, in_channels, out_channels, strides, pads, "
        "dilations, groups, packing, activation, floor, ceiling, zero_point, input_zero_point, raw, table, "
        "virtual_threads, tiling, chained, name, got stride (did you mean strides?)",
    ),
    (
        dense,
        {"pads": 1},
        "dense: option must be one of rows, in_features, out_features, activation, floor, ceiling, zero_point, "
        "input_zero_point, raw, table, virtual_threads, tiling, name, got pads",
    ),
    (conv2d, {"groups": 2}, "conv2d: groups must divide in_channels = 5, got 2"),
    (conv2d, {"groups": 5, "out_channels": 6}, "conv2d: groups must divide out_channels = 6, got 5"),
    (conv2d, {"groups": "1"}, "conv2d: groups must be a positive integer, got '1'"),
    (conv2d, {"groups": 5, "packing": "rows"}, "conv2d: packing must be auto, channels or patches, got 'rows'"),
    (conv2d_transpose, {"groups": 5, "out_channels": 5}, "conv2d_transpose: groups must be 1, got 5"),
    (batched_matmul, {"depth": 0}, "batched_matmul: depth must be a positive integer, got 0"),
    (batched_matmul, {"transposed": 1}, "batched_matmul: transposed must be True or False, got 1"),
    (conv2d, {"batch": 0}, "conv2d: batch must be a positive integer, got 0"),
    (conv2d, {"height": 2.0}, "conv2d: height must be a positive integer, got 2.0"),
    (conv2d, {"in_channels": True}, "conv2d: in_channels must be a positive integer, got True"),
    (conv2d, {"kernel": 0}, "conv2d: kernel must be one or two integers >= 1, got 0"),
    (conv2d, {"strides": (1, 2, 3)}, "conv2d: strides must be one or two integers >= 1, got (1, 2, 3)"),
    (conv2d, {"pads": (1, 1, 1)}, "conv2d: pads must be one, two or four integers >= 0, got (1, 1, 1)"),
    (conv2d, {"pads": -1, "name": "C1"}, "C1: pads must be one, two or four integers >= 0, got -1"),
    (conv2d, {"dilations": "2"}, "conv2d: dilations must be one or two integers >= 1, got '2'"),
    (
        conv2d,
        {"kernel": 3, "dilations": 3},
        "conv2d: kernel must fit the padded input of 6x5, got one that spans 7x7",
    ),
    (conv2d, {"activation": "tanh"}, "conv2d: activation must be none or relu, got 'tanh'"),
    (conv2d, {"ceiling": 200}, "conv2d: ceiling must be in -128..127, got 200"),
    (conv2d, {"ceiling": -4, "activation": "relu", "zero_point": -3}, "conv2d: ceiling must be in -3..127, got -4"),
    (conv2d, {"zero_point": 128}, "conv2d: zero_point must be an integer in -128..127 (int8), got 128"),
    (conv2d, {"zero_point": 0.5}, "conv2d: zero_point must be an integer in -128..127 (int8), got 0.5"),
    (conv2d, {"input_zero_point": -129}, "conv2d: input_zero_point must be an integer in -128..127 (int8), got -129"),
    (conv2d, {"input_zero_point": 3, "raw": True}, "conv2d: input_zero_point must be 0 for raw sums, got 3"),
    (conv2d, {"activation": "relu", "raw": True}, "conv2d: activation must be 'none' for raw sums, got 'relu'"),
    (conv2d, {"ceiling": 6, "raw": True}, "conv2d: ceiling must be None for raw sums, got 6"),
    (dense, {"zero_point": 3, "raw": True}, "dense: zero_point must be 0 for raw sums, got 3"),
    (conv2d, {"packing": "rows"}, "conv2d: packing must be auto, channels or patches, got 'rows'"),
    (conv2d, {"virtual_threads": 0}, "conv2d: virtual_threads must be at least 1, got 0"),
    (
        conv2d,
        {"tiling": replace(FINE, rows=5)},
        "conv2d: rows of the tiling must be an integer from 1 to 4, got 5",
    ),
    (
        conv2d,
        {"tiling": replace(FINE, threads_over="pixels")},
        "conv2d: threads_over of the tiling must be one of chunks, cols, rows, batches, groups, got 'pixels'",
    ),
    (
        conv2d,
        {"tiling": replace(FINE, threads=0)},
        "conv2d: threads of the tiling must be at least 1, got 0",
    ),
    (
        pool2d,
        {"tiling": replace(FINE, threads_over="chunks")},
        "average_pool2d: threads_over of the tiling must be one of cols, rows, batches, groups, got 'chunks'",
    ),
    (
        conv2d,
        {"tiling": HUGE, "packing": "channels", "height": 300, "width": 300},
        "conv2d: tiling must fit the buffers, got 99x99 pixels, 1 output and 1 input blocks, "
        "1 virtual thread over rows",
    ),
    (dense, {"in_features": 0}, "dense: in_features must be a positive integer, got 0"),
    (depthwise_conv2d, {"channels": -1}, "depthwise_conv2d: channels must be a positive integer, got -1"),
    (
        conv2d_transpose,
        {"strides": 2, "output_padding": 2},
        "conv2d_transpose: output_padding must be less than the strides, got (2, 2) for (2, 2)",
    ),
    (
        conv2d_transpose,
        {"pads": 4},
        "conv2d_transpose: pads must leave at least one result, got (4, 4, 4, 4) for an output of (0, -1)",
    ),
    (pool2d, {"kind": "avg"}, "pool2d: kind must be max or average, got 'avg'"),
    (pool2d, {"kind": "mean"}, "pool2d: kind must be max or average, got 'mean'"),
    (pool2d, {"pads": 3}, "average_pool2d: pads must be less than the kernel, got (3, 3, 3, 3) for (3, 3)"),
    (
        pool2d,
        {"count_include_pad": False, "raw": True},
        "average_pool2d: count_include_pad must be True for raw sums, got False",
    ),
    (
        residual_add,
        {"factors": (1.0, 2)},
        "residual_add: factors must be two integers from -32767 to 32767, got (1.0, 2)",
    ),
    (
        residual_add,
        {"factors": (1, 2, 3)},
        "residual_add: factors must be two integers from -32767 to 32767, got (1, 2, 3)",
    ),
    (
        residual_add,
        {"factors": (1, -32768)},
        "residual_add: factors must be two integers from -32767 to 32767, got (1, -32768)",
    ),
    (
        residual_add,
        {"input_zero_points": (0, 300)},
        "residual_add: input_zero_points must be an integer in -128..127 (int8), got 300",
    ),
    (
        residual_add,
        {"input_zero_points": (0, 3), "raw": True},
        "residual_add: input_zero_points must be 0 for raw sums, got (0, 3)",
    ),
]


@pytest.mark.parametrize(("template", "changes", "message"), REFUSED)
def test_invalid_options_are_refused(template: Callable[..., Operator], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=f"^{re.escape(message)}$"):
        template(CONFIG, **{**OPTIONS[template], **changes})


def test_missing_options_are_named() -> None:
    with pytest.raises(TemplateError, match=r"^conv2d: width, out_channels must be given, got none$"):
        conv2d(CONFIG, batch=1, height=6, in_channels=5, kernel=3)


def test_a_shape_that_fits_no_buffer_is_refused() -> None:
    config = replace(CONFIG, wgt_kib=1)
    shape = {**OPTIONS[conv2d_transpose], "kernel": 40, "strides": 2}
    with pytest.raises(
        TemplateError, match=r"^conv2d_transpose: one pixel, one output block and one input block must fit the buffers"
    ):
        conv2d_transpose(config, **shape)


DATA, WEIGHT = np.zeros((1, 5, 6, 5), np.int8), np.zeros((6, 5, 3, 3), np.int8)

ARRAYS = [
    ({"data": DATA[:, :4]}, "data: shape must be [1, 5, 6, 5], got [1, 4, 6, 5]"),
    ({"data": DATA.astype(float)}, "data: elements must be integers, got float64"),
    ({"weight": WEIGHT.astype(np.int64) + 200}, "weight: elements must be in -128..127 (int8), got 200..200"),
    ({"bias": np.zeros(5, np.int32)}, "bias: shape must be [6], got [5]"),
    ({"bias": np.full(6, 1 << 31)}, None),
    ({"multiplier": np.ones(5)}, "multiplier: shape must be [6] or one number, got [5]"),
    (
        {"multiplier": None},
        "conv2d: multiplier must be given to requantise the sums, got None; 1.0 only clips them, and with raw=True "
        "they stay int32",
    ),
    ({"multiplier": -1.0}, "multiplier: must be from 0 to 16777215, got -1.0"),
    ({"multiplier": float("nan")}, "multiplier: must be from 0 to 16777215, got nan"),
    ({"multiplier": "1"}, "multiplier: must be real numbers, got <U1"),
]


@pytest.mark.parametrize(("changes", "message"), ARRAYS)
def test_invalid_arrays_are_refused(changes: dict[str, Any], message: str | None) -> None:
    operator = conv2d(CONFIG, **OPTIONS[conv2d])
    wanted = message or "bias: elements must be in -2147483648..2147483647 (int32), got 2147483648..2147483648"
    with pytest.raises(TemplateError, match=f"^{re.escape(wanted)}$"):
        operator.pack(**{"data": DATA, "weight": WEIGHT, "multiplier": 1.0, **changes})


@pytest.mark.parametrize(
    ("given", "what"), [({"bias": np.zeros(6, int)}, "a bias"), ({"multiplier": 1.0}, "a multiplier")]
)
def test_raw_sums_have_no_scale(given: dict[str, Any], what: str) -> None:
    operator = conv2d(CONFIG, raw=True, **OPTIONS[conv2d])
    message = f"conv2d: raw sums must have no bias and no multiplier, got {what}"
    with pytest.raises(TemplateError, match=f"^{re.escape(message)}$"):
        operator.pack(DATA, WEIGHT, **given)

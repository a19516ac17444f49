# SPDX-License-Identifier: Apache-2.0
"""NumPy's operators on blocks of channels: what lies where, and that plain operators agree."""

import numpy as np

from vdla.runtime.numpy_operators import FUNCTIONS
from vdla.runtime.numpy_operators.blocked import ChannelBlocks, call_in_layouts


def image(*shape):
    return np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)


def in_blocks(x, lanes):
    """Element by element."""
    batch, channels, height, width = x.shape
    result = np.zeros((batch, -(-channels // lanes), height, width, lanes), x.dtype)
    for n, c, h, w in np.ndindex(x.shape):
        result[n, c // lanes, h, w, c % lanes] = x[n, c, h, w]
    return result


def run(op, attributes, x, *inputs, channels=None, result=None):
    """The first result; x is in blocks of so many `channels`, the result of so many lanes."""
    given = None if channels is None else ChannelBlocks(channels, x.shape[-1], "float32")
    made = None if result is None else ChannelBlocks(0, result, "float32")
    arrays, layouts = [x, *inputs], [given, *(None for _ in inputs)]
    return call_in_layouts(FUNCTIONS[op], attributes, arrays, layouts, [made])[0]


def test_a_channel_is_a_lane_of_a_block():
    x = image(2, 5, 3, 4)
    assert np.array_equal(run("vdla.Repack", {}, x, result=4), in_blocks(x, 4))
    garbage = in_blocks(x, 4)
    garbage[:, 1, :, :, 1:] = np.nan
    assert np.array_equal(run("vdla.Repack", {}, garbage, channels=5), x)


def test_convolutions_read_either_layout_and_write_the_one_they_are_given():
    x, weight, bias = image(1, 5, 6, 6), image(7, 5, 3, 3), image(7)
    (plain,) = FUNCTIONS["Conv"]({"strides": (2, 2)}, x, weight, bias)
    for given, channels in ((x, None), (in_blocks(x, 4), 5)):
        assert np.array_equal(run("Conv", {"strides": (2, 2)}, given, weight, bias, channels=channels), plain)
        blocked = run("Conv", {"strides": (2, 2)}, given, weight, bias, channels=channels, result=2)
        assert np.array_equal(blocked, in_blocks(plain, 2))


def test_pools_are_those_of_the_channels():
    x = image(1, 8, 6, 6)
    window = {"kernel_shape": (2, 3), "pads": (1, 0, 0, 1)}
    for op in ("MaxPool", "AveragePool"):
        plain = FUNCTIONS[op](window, x)[0]
        assert np.array_equal(run(op, window, in_blocks(x, 4), channels=8, result=4), in_blocks(plain, 4))
    x = x[:, :7]
    (mean,) = FUNCTIONS["GlobalAveragePool"]({}, x)
    assert np.array_equal(run("GlobalAveragePool", {}, in_blocks(x, 4), channels=7), mean)

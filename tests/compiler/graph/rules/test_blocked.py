# SPDX-License-Identifier: Apache-2.0
"""Rules of operators on blocks of channels, against their NumPy functions; padding apart."""

import numpy as np
import pytest
from helpers.graph_node import call_of, run_rule, type_of

from vdla.compiler.graph.operators import expressions
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.operators.conv2d import lanes_of
from vdla.compiler.target import host
from vdla.runtime.network.evaluate_nodes import layouts_of
from vdla.runtime.numpy_operators import FUNCTIONS
from vdla.runtime.numpy_operators.blocked import call_in_layouts, from_blocked, to_blocked

CHANNELS = 20


def floats(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def blocks(*shape):
    return to_blocked(floats(*shape), lanes_of(shape[1], "float32", host()))


def check(op, attributes, inputs, channels, constants=(), lanes=0):
    """The result of the rule is that of the NumPy function in its first channels; `channels` are
    those of image and result, which has `lanes`.
    """
    given, made = channels
    layouts = layouts_of([type_of(array, given if n == 0 else None) for n, array in enumerate(inputs)])
    expected, *_ = call_in_layouts(FUNCTIONS[op], attributes, inputs, layouts, [None])
    result = to_blocked(expected, lanes) if lanes else expected
    (got,) = run_rule(op, attributes, inputs, [result], constants, channels)
    got = from_blocked(got, made) if lanes else got
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("channels", [3, 20, 32])
def test_images_to_blocks_and_back(channels):
    image = floats(2, channels, 5, 6)
    check("vdla.Repack", {}, [image], (None, channels), lanes=8)
    check("vdla.Repack", {}, [to_blocked(image, 8)], (channels, None))


OPTIONS = {
    "3x3": {"pads": (1, 1, 1, 1)},
    "1x1": {},
    "strided": {"strides": (2, 1), "pads": (1, 0, 0, 2), "dilations": (1, 2)},
    "auto": {"auto_pad": "SAME_LOWER", "strides": (2, 2)},
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("source", ["blocks", "plain"])
@pytest.mark.parametrize("result", ["blocks", "plain"])
def test_convolutions_of_one_group(name, source, result):
    kernel = (1, 1) if name == "1x1" else (3, 3)
    lanes = lanes_of(24, "float32", host()) if result == "blocks" else 0
    x = blocks(2, CHANNELS, 9, 8) if source == "blocks" else floats(2, CHANNELS, 9, 8)
    inputs = [x, floats(24, CHANNELS, *kernel, seed=1), floats(24, seed=2)]
    check("Conv", OPTIONS[name], inputs, (CHANNELS, 24), (1, 2), lanes)


@pytest.mark.parametrize("name", OPTIONS)
def test_depthwise_convolutions(name):
    x = blocks(2, CHANNELS, 9, 8)
    attributes = {**OPTIONS[name], "group": CHANNELS}
    check("Conv", attributes, [x, floats(CHANNELS, 1, 3, 3, seed=1)], (CHANNELS, CHANNELS), (1,), x.shape[4])


def test_convolutions_of_groups():
    lanes = lanes_of(32, "float32", host())
    attributes = {"group": 3, "pads": (0, 1, 1, 0)}
    for x in (blocks(1, 48, 7, 7), floats(1, 48, 7, 7)):
        check("Conv", attributes, [x, floats(96, 16, 3, 3, seed=1)], (48, 96), (1,), lanes)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools(op):
    for more in ({"ceil_mode": 1}, {"pads": (1, 1, 0, 1)}, {"auto_pad": "SAME_UPPER"}):
        attributes = {"kernel_shape": (3, 2), "strides": (2, 2), **more}
        x = blocks(2, CHANNELS, 9, 8)
        check(op, attributes, [x], (CHANNELS, CHANNELS), lanes=x.shape[4])
    included = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": 1}
    x = blocks(1, CHANNELS, 5, 5)
    check("AveragePool", included, [x], (CHANNELS, CHANNELS), lanes=x.shape[4])


def test_the_mean_of_each_channel():
    check("GlobalAveragePool", {}, [blocks(2, CHANNELS, 5, 7)], (CHANNELS, None))


def test_weights_must_be_constant():
    inputs = [blocks(1, 16, 4, 4), floats(16, 16, 1, 1)]
    with pytest.raises(DeclinedError) as error:
        expressions(call_of("Conv", {}, inputs, inputs[:1], channels=(16, 16)))
    assert str(error.value) == "Conv y0: the node must have constant weight"

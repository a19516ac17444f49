"""Rules of operators on blocks of channels, against their NumPy functions; padding apart."""

import numpy as np
import pytest
from helpers.graph_node import call_of, run_rule

from vdla.compiler.graph.operators import expressions
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.operators.conv2d import lanes_of
from vdla.compiler.target import host
from vdla.runtime.numpy_operators import FUNCTIONS
from vdla.runtime.numpy_operators.blocked import from_blocked, to_blocked

CHANNELS = 20


def floats(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def blocks(*shape):
    return to_blocked(floats(*shape), lanes_of(shape[1], "float32", host()))


def check(op, attributes, inputs, channels, constants=()):
    """The result of the rule is that of the NumPy function in its first `channels`."""
    (expected,) = FUNCTIONS[op](attributes, *inputs)
    (got,) = run_rule(op, attributes, inputs, [expected], constants)
    if expected.ndim == 5:
        got, expected = from_blocked(got, channels), from_blocked(expected, channels)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("channels", [3, 20, 32])
def test_images_to_blocks_and_back(channels):
    image = floats(2, channels, 5, 6)
    check("vdla.ToBlocked", {"lanes": 8}, [image], channels)
    check("vdla.FromBlocked", {"channels": channels}, [to_blocked(image, 8)], channels)


OPTIONS = {
    "3x3": {"pads": (1, 1, 1, 1)},
    "1x1": {},
    "strided": {"strides": (2, 1), "pads": (1, 0, 0, 2), "dilations": (1, 2)},
    "auto": {"auto_pad": "SAME_LOWER", "strides": (2, 2)},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("source", ["blocks", "plain"])
@pytest.mark.parametrize("result", ["blocks", "plain"])
def test_convolutions_of_one_group(name, source, result):
    kernel = (1, 1) if name == "1x1" else (3, 3)
    lanes = {"lanes": lanes_of(24, "float32", host())} if result == "blocks" else {}
    x = blocks(2, CHANNELS, 9, 8) if source == "blocks" else floats(2, CHANNELS, 9, 8)
    inputs = [x, floats(24, CHANNELS, *kernel, seed=1), floats(24, seed=2)]
    check("vdla.BlockedConv", OPTIONS[name] | lanes, inputs, 24, (1, 2))


@pytest.mark.parametrize("name", OPTIONS)
def test_depthwise_convolutions(name):
    x = blocks(2, CHANNELS, 9, 8)
    attributes = {**OPTIONS[name], "group": CHANNELS, "lanes": x.shape[4]}
    check("vdla.BlockedConv", attributes, [x, floats(CHANNELS, 1, 3, 3, seed=1)], CHANNELS, (1,))


def test_convolutions_of_groups():
    lanes = lanes_of(32, "float32", host())
    attributes = {"group": 3, "lanes": lanes, "pads": (0, 1, 1, 0)}
    for x in (blocks(1, 48, 7, 7), floats(1, 48, 7, 7)):
        check("vdla.BlockedConv", attributes, [x, floats(96, 16, 3, 3, seed=1)], 96, (1,))


@pytest.mark.parametrize("op", ["vdla.BlockedMaxPool", "vdla.BlockedAveragePool"])
def test_pools(op):
    for more in ({"ceil_mode": 1}, {"pads": (1, 1, 0, 1)}, {"auto_pad": "SAME_UPPER"}):
        attributes = {"kernel_shape": (3, 2), "strides": (2, 2), **more}
        check(op, attributes, [blocks(2, CHANNELS, 9, 8)], CHANNELS)
    included = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": 1}
    check("vdla.BlockedAveragePool", included, [blocks(1, CHANNELS, 5, 5)], CHANNELS)


def test_the_mean_of_each_channel():
    check("vdla.BlockedGlobalAveragePool", {"channels": CHANNELS}, [blocks(2, CHANNELS, 5, 7)], CHANNELS)


def test_weights_must_be_constant():
    inputs = [blocks(1, 16, 4, 4), floats(16, 16, 1, 1)]
    with pytest.raises(DeclinedError) as error:
        expressions(call_of("vdla.BlockedConv", {"lanes": 16}, inputs, inputs[:1]))
    assert str(error.value) == "vdla.BlockedConv y0: the node must have constant weight"

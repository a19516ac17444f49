# SPDX-License-Identifier: Apache-2.0
"""Sums read at other positions by their consumer are complete and computed once."""

import math

import numpy as np
import pytest
from helpers.run_operator import integers
from helpers.window_sums import model

from vdla.compiler import te
from vdla.compiler.analysis import leaves
from vdla.compiler.operators import matmul, max_pool, plan_convolution, resize_nearest, transpose
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build

CONSUMERS = {
    "pool": (lambda y: max_pool(y, 2, 2), lambda y: y.reshape(*y.shape[:2], 4, 2, 4, 2).max((3, 5))),
    "transpose": (lambda y: transpose(y, (0, 2, 3, 1)), lambda y: y.transpose(0, 2, 3, 1)),
    "resize": (lambda y: resize_nearest(y, (1, 32, 16, 16)), lambda y: y.repeat(2, 2).repeat(2, 3)),
}


def points(fn, block):
    """The iterations of a block without tails, and the points of its axes."""
    (leaf,) = (leaf for leaf in leaves(fn) if leaf.name == block)
    return math.prod(loop.size for loop in leaf.loops), math.prod(axis.size for axis in leaf.block.axes)


@pytest.mark.sampled
@pytest.mark.parametrize("algorithm", ["direct", "winograd2", "depthwise"])
@pytest.mark.parametrize("name", CONSUMERS)
def test_sums_read_at_other_positions_are_computed_about_once(name, algorithm):
    groups = 32 if algorithm == "depthwise" else 1
    operator, expected = CONSUMERS[name]
    data = integers((1, 32, 8, 8), "float32", 1, -3, 4)
    weight = integers((32, 32 // groups, 3, 3), "float32", 2, -3, 4)
    plan = plan_convolution(data.shape, weight.shape, pads=1, groups=groups, algorithm=algorithm)
    x, w = te.placeholder(data.shape, "float32", "x"), plan.weight("w")
    fn = te.create_function([x, w], [operator(plan.apply(x, w, name="y"))], "layer")
    scheduled = default_schedule(fn).fn
    runs, needed = points(scheduled, "y_product" if algorithm == "winograd2" else "y_sum")
    assert runs <= 1.2 * needed
    sums = model(data, weight, 1, 1, groups=groups)
    np.testing.assert_allclose(build(scheduled)(data, plan.pack(weight)), expected(sums), atol=1e-3)


def test_a_transposed_product_is_computed_about_once():
    a, b = integers((24, 9), "float32", 1), integers((9, 64), "float32", 2)
    tensors = te.placeholder(a.shape, "float32", "a"), te.placeholder(b.shape, "float32", "b")
    fn = te.create_function(tensors, [transpose(matmul(*tensors, name="c"), (1, 0))], "product")
    scheduled = default_schedule(fn).fn
    runs, needed = points(scheduled, "c")
    assert runs <= 1.4 * needed
    np.testing.assert_array_equal(build(scheduled)(a, b), (a @ b).T)

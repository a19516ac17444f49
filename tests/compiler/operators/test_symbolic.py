# SPDX-License-Identifier: Apache-2.0
"""Operators with a symbolic batch: one function computes every batch."""

import numpy as np
import pytest
from helpers.run_operator import floats, integers

from vdla.compiler import operators, te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import (
    OperatorError,
    conv2d,
    conv_transpose,
    dense,
    depthwise_conv2d,
    gather,
    matmul,
    pad,
    resize_linear,
    softmax,
    winograd_conv2d,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build

N = te.var("n")
SHAPE = (N, 6, 5, 4)


def placeholder():
    return te.placeholder(SHAPE, "float32", "x")


def constant(shape, dtype, name):
    return te.full(shape, 1, dtype, name)


OPERATORS = {
    "relu": operators.relu,
    "row": lambda x: operators.multiply(x, te.compute((1, 4), lambda i, j: te.cast("float32", j + i), "row")),
    "twice": lambda x: operators.add(x, operators.relu(x)),
    "mean": lambda x: operators.mean(x, (1, -1)),
    "mean_of_batch": lambda x: operators.mean(x, 0),
    "argmax": lambda x: operators.argmax(x, 1),
    "argmin_of_batch": lambda x: operators.argmin(x, 0, select_last_index=True),
    "softmax": lambda x: softmax(x, 2),
    "softmax_of_batch": lambda x: softmax(x, 0),
    "layer_norm": lambda x: operators.layer_norm(x, axis=1),
    "group_norm": lambda x: operators.group_norm(x, constant((6,), "float32", "s"), constant((6,), "float32", "b"), 3),
    "pool": lambda x: operators.max_pool(x, 3, 2, 1),
    "average": lambda x: operators.average_pool(x, 2, ceil_mode=True),
    "flatten": lambda x: operators.flatten(x),
    "reshape": lambda x: operators.reshape(x, (0, 2, -1)),
    "reshape_left": lambda x: operators.reshape(x, (3, -1, 40)),
    "transpose": lambda x: operators.transpose(x, (1, 0, 3, 2)),
    "concat": lambda x: operators.concat([x, operators.relu(x)], 1),
    "slice": lambda x: operators.slice(x, [1], [4], [2]),
    "gather": lambda x: gather(x, te.compute((2,), lambda i: i * 7 - 3, "places"), 0),
    "pad": lambda x: pad(x, (0, 0, 1, 1, 0, 0, 1, 0), mode="reflect"),
    "resize": lambda x: resize_linear(x, scales=[1, 1, 2, 2]),
    "conv_transpose": lambda x: conv_transpose(x, constant((6, 2, 3, 3), "float32", "w"), None, 2, 1, 1),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", OPERATORS)
def test_one_function_computes_every_batch(name):
    x = placeholder()
    result = OPERATORS[name](x)
    fn = te.create_function([x], [result], "f")
    assert fn.scalars == ("n",)
    kernel = build(default_schedule(fn).fn)
    for batch in (1, 3):
        a = floats((batch, 6, 5, 4), seed=batch)
        fixed = te.placeholder(a.shape, "float32", "x")
        expected = interpret(te.create_function([fixed], [OPERATORS[name](fixed)], "f"), {"x": a})[result.name]
        np.testing.assert_allclose(interpret(fn, {"x": a})[result.name], expected, rtol=1e-6)
        np.testing.assert_allclose(kernel(a), expected, rtol=1e-5, atol=1e-6)


M, K = te.var("m"), te.var("k")
PRODUCTS = {
    "batch": (matmul, [(N, 5, 7), (7, 9)]),
    "both_batches": (matmul, [(N, 5, 7), (N, 7, 9)]),
    "broadcast": (matmul, [(N, 5, 7), (1, 7, 9)]),
    "all": (matmul, [(M, K), (K, N), (N,)]),
    "dense": (dense, [(N, K), (9, K), (9,)]),
    "dense_all": (dense, [(M, K), (N, K)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_symbolic_extents_equal_numpy(name):
    operator, shapes = PRODUCTS[name]
    tensors = [te.placeholder(shape, "float32", "abc"[n]) for n, shape in enumerate(shapes)]
    kernel = build(default_schedule(te.create_function(tensors, [operator(*tensors)], "f")).fn)
    for extents in ({"n": 1, "m": 2, "k": 3}, {"n": 37, "m": 19, "k": 21}):
        sizes = [[e if isinstance(e, int) else extents[e.symbols[0]] for e in shape] for shape in shapes]
        a, b, *bias = (integers(size, "float32", n, -5, 5) for n, size in enumerate(sizes))
        expected = a @ (b if operator is matmul else b.T) + (bias[0] if bias else 0)
        np.testing.assert_array_equal(kernel(a, b, *bias), expected)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: conv2d(operators.transpose(x, (1, 0, 2, 3)), constant((4, 3, 3, 3), "float32", "w")),
         "conv2d: extent 1 of x must be a number, got n"),
        (lambda x: conv2d(x, x), "conv2d: weight's extent 0 must be a number, got n"),
        (lambda x: depthwise_conv2d(x, x), "depthwise_conv2d: weight's extent 0 must be a number, got n"),
        (lambda x: conv_transpose(constant((1, 2, 3, 3), "float32", "a"), x),
         "conv_transpose: weight's extent 0 must be a number, got n"),
        (lambda x: winograd_conv2d(constant((1, 2, 3, 3), "float32", "a"), te.placeholder((N, N, 1, 2, 8), "float32",
         "w")), "winograd_conv2d: weight's extent 0 must be a number, got n"),
        (lambda x: operators.depth_to_space(operators.transpose(x, (1, 0, 2, 3)), 2),
         "depth_to_space: channels must be a number, got n"),
        (lambda x: operators.space_to_depth(operators.transpose(x, (1, 2, 0, 3)), 2),
         "space_to_depth: spatial extent 0 must be a number, got n"),
        (lambda x: matmul(x, te.placeholder((M, 6, 4, 9), "float32", "y")),
         "matmul of batches: shapes must broadcast to one another, got [n, 6] and [m, 6]"),
        (lambda x: operators.concat([x, x]), "concat: the extent of x must be a number, got n"),
        (lambda x: operators.slice(x, [0], [1]), "slice: extent 0 must be a number, got n"),
        (lambda x: pad(x, (1, 0, 0, 0, 0, 0, 0, 0)), "pad: a dimension that changes must be a number, got n"),
        (lambda x: operators.max_pool(operators.transpose(x, (1, 2, 0, 3)), 2),
         "max_pool: spatial extent 0 must be a number, got n"),
        (lambda x: operators.reshape(x, (-1, 60)),
         "reshape: a symbolic extent must stay, got [n, 6, 5, 4] to [-1, 60]"),
        (lambda x: resize_linear(x, scales=[2, 1, 1, 1]),
         "resize_linear: a dimension that changes must be a number, got n"),
        (
            lambda x: operators.add(x, te.placeholder((te.var("m"), 6, 5, 4), "float32", "y")),
            "add: shapes must broadcast to one another, got [n, 6, 5, 4] and [m, 6, 5, 4]",
        ),
    ],
)  # fmt: skip
def test_symbolic_extents_are_refused_where_a_number_is_needed(build, message):
    with pytest.raises(OperatorError) as error:
        build(placeholder())
    assert str(error.value) == message

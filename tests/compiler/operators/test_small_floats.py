# SPDX-License-Identifier: Apache-2.0
"""float16 and bfloat16: sums in float32, rounded once; in the interpreter and as machine code."""

import ml_dtypes
import numpy as np
import pytest
from helpers.run_operator import floats, function_of, run

from vdla.compiler import operators
from vdla.compiler.operators import (
    conv2d,
    conv_transpose,
    dense,
    depthwise_conv2d,
    matmul,
    resize_linear,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build

DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def layer_model(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def matrix(x, shape, name="matrix"):
    return operators.reshape(x, shape, name=name)


CASES = {
    "matmul": (lambda x: matmul(x, operators.transpose(x, (0, 2, 1))), lambda x: x @ x.swapaxes(1, 2)),
    "dense": (
        lambda x: dense(matrix(x, (15, 40)), matrix(x, (15, 40), "w")),
        lambda x: x.reshape(15, 40) @ x.reshape(15, 40).T,
    ),
    "conv2d": (
        lambda x: conv2d(matrix(x, (1, 120, 5, 1)), matrix(x, (5, 120, 1, 1), "w")),
        lambda x: np.einsum("nchw,kc->nkhw", x.reshape(1, 120, 5, 1), x.reshape(5, 120)),
    ),
    "depthwise": (
        lambda x: depthwise_conv2d(matrix(x, (1, 15, 5, 8)), matrix(x, (15, 1, 5, 8), "w")),
        lambda x: (x * x).reshape(1, 15, 1, 1, 40).sum(-1),
    ),
    "sum": (lambda x: operators.sum(x, -1), lambda x: x.sum(-1)),
    "mean": (lambda x: operators.mean(x, (0, 2)), lambda x: x.mean((0, 2))),
    "squares": (lambda x: operators.sum_square(x, 1), lambda x: (x * x).sum(1)),
    "l1_norm": (lambda x: operators.l1_norm(x, 1), lambda x: np.abs(x).sum(1)),
    "l2_norm": (lambda x: operators.l2_norm(x, (0, 1)), lambda x: np.sqrt((x * x).sum((0, 1)))),
    "logsumexp": (lambda x: operators.logsumexp(x, 2), lambda x: np.log(np.exp(x).sum(2))),
    "softmax": (operators.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (operators.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "layer_norm": (operators.layer_norm, layer_model),
    "average_pool": (lambda x: operators.average_pool(x, 3), lambda x: (x[..., :-2] + x[..., 1:-1] + x[..., 2:]) / 3),
    "relu": (operators.relu, lambda x: np.maximum(x, 0)),
    "twice": (lambda x: operators.add(x, x), lambda x: x + x),
    "resize": (lambda x: resize_linear(x, (3, 5, 80)), None),
    "conv_transpose": (lambda x: conv_transpose(x, operators.identity(x, "w"), None, 2), None),
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_small_float_results_are_rounded_once(name, dtype):
    operator, model = CASES[name]
    x = floats((5, 5, 40) if name == "conv_transpose" else (3, 5, 40), low=-2).astype(DTYPES[dtype])
    fn, _ = function_of(operator, x)
    got = run(operator, x)
    assert got.dtype == DTYPES[dtype]
    eps = float(ml_dtypes.finfo(DTYPES[dtype]).eps)
    if model is not None:
        expected = model(x.astype(np.float64))
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0.51 * eps, atol=eps / 100)
    native = build(default_schedule(fn).fn)(x)
    np.testing.assert_allclose(native.astype(np.float64), got.astype(np.float64), rtol=eps, atol=eps / 4)

# SPDX-License-Identifier: Apache-2.0
"""Convolution over any number of dimensions against a loop over its results."""

import itertools
import re

import numpy as np
import pytest
from helpers.run_operator import close, floats, run

from vdla.compiler import operators as ops
from vdla.compiler import te
from vdla.compiler.operators import OperatorError


def model(x, w, bias, strides, pads, dilations, groups):
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *((pads[d], pads[rank + d]) for d in range(rank))])
    counts = [(padded.shape[2 + d] - (w.shape[2 + d] - 1) * dilations[d] - 1) // strides[d] + 1 for d in range(rank)]
    result = np.zeros((x.shape[0], w.shape[0], *counts))
    per, outs = w.shape[1], w.shape[0] // groups
    for at in np.ndindex(*result.shape):
        n, k, *place = at
        for taps in itertools.product(*map(range, w.shape[2:])):
            here = tuple(p * s + t * g for p, s, t, g in zip(place, strides, taps, dilations, strict=True))
            channels = slice(k // outs * per, (k // outs + 1) * per)
            result[at] += (padded[(n, channels, *here)] * w[(k, slice(None), *taps)]).sum()
        result[at] += bias[k]
    return result


@pytest.mark.parametrize(
    ("x", "w", "strides", "pads", "dilations", "groups"),
    [
        ((1, 4, 9), (6, 2, 3), (2,), (1, 0), (2,), 2),
        ((2, 3, 5, 4, 6), (4, 3, 2, 3, 2), (1, 1, 2), (0, 1, 1, 1, 0, 1), (1, 1, 2), 1),
        ((1, 2, 4, 4, 4), (2, 1, 3, 3, 3), (1, 1, 1), (1,) * 6, (1, 1, 1), 2),
    ],
)
def test_convolution_equals_a_loop_over_its_results(x, w, strides, pads, dilations, groups):
    data, weight, bias = floats(x), floats(w, seed=1), floats(w[:1], seed=2)
    got = run(lambda a, b, c: ops.convolution(a, b, c, strides, pads, dilations, groups), data, weight, bias)
    expected = model(*(t.astype(np.float64) for t in (data, weight, bias)), strides, pads, dilations, groups)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


def test_integers_wrap_and_small_floats_are_summed_in_float32():
    ones = np.full((1, 3, 1, 1, 1), 100, np.int8)
    assert run(lambda a, b: ops.convolution(a, b), ones, ones).item() == np.int64(30000).astype(np.int8)
    x = np.full((1, 4096, 1), 1, np.float16)
    close(run(lambda a, b: ops.convolution(a, b), x, x), np.float16(4096).reshape(1, 1, 1))


@pytest.mark.parametrize(
    ("w", "groups", "message"),
    [
        ((4, 3, 2), 1, "weight must have 4 / 1 input channels (those of x / groups), got 3"),
        ((3, 2, 2), 2, "groups must divide the 3 output channels, got 2"),
        ((3, 2), 1, "weight must have 3 dimensions, got 2"),
    ],
)
def test_refused_operands(w, groups, message):
    x, weight = te.placeholder((1, 4, 9), "float32", "x"), te.placeholder(w, "float32", "w")
    with pytest.raises(OperatorError, match=f"^{re.escape('convolution: ' + message)}$"):
        ops.convolution(x, weight, groups=groups)

# SPDX-License-Identifier: Apache-2.0
"""Runs an operator in the interpreter and, with the default schedule, as machine code."""

import ml_dtypes
import numpy as np

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import build


def placeholders(*arrays):
    """A tensor for each array, named a, b, c, ..."""
    return [te.placeholder(x.shape, str(x.dtype), "abcdefgh"[n]) for n, x in enumerate(arrays)]


def function_of(operator, *arrays):
    """The function of `operator` on tensors of the arrays' shapes, with its outputs."""
    tensors = placeholders(*arrays)
    result = operator(*tensors)
    outputs = list(result) if isinstance(result, tuple) else [result]
    return te.create_function(tensors, outputs, "f"), outputs


def run(operator, *arrays, ulps=32):
    """The results of `operator` in the interpreter; checks that machine code gives the same."""
    fn, outputs = function_of(operator, *arrays)
    results = interpret(fn, dict(zip("abcdefgh", arrays, strict=False)))
    named = tuple(results[t.name] for t in outputs)
    made = build(default_schedule(fn).fn)(*map(np.ascontiguousarray, arrays))
    for got, expected in zip(made if len(outputs) > 1 else [made], named, strict=True):
        agree(got, expected, ulps)
    return named[0] if len(outputs) == 1 else named


def agree(got, expected, ulps):
    """Checks that integers are equal, and floats within a few ulps of the largest."""
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    a, b = got.astype(np.float64), expected.astype(np.float64)
    eps = float(ml_dtypes.finfo(got.dtype).eps)
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    np.testing.assert_allclose(a, b, rtol=ulps * eps, atol=ulps * eps * largest)


def close(got, expected, ulps=8):
    """Checks that results agree within a few ulps of their dtype, NaN and infinities included."""
    expected = np.asarray(expected).astype(got.dtype)
    assert got.shape == expected.shape
    eps = np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, expected, rtol=ulps * eps, atol=ulps * np.finfo(got.dtype).tiny)


def floats(shape, dtype="float32", seed=0, low=-4, high=4):
    """Random floats."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def integers(shape, dtype="int32", seed=0, low=-50, high=50):
    """Random integers."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)

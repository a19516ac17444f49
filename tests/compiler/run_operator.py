"""Runs an operator on arrays, in the interpreter."""

import numpy as np

from vdla.compiler import te
from vdla.compiler.interpret import interpret


def placeholders(*arrays):
    """A tensor for each array, named a, b, c, ..."""
    return [te.placeholder(x.shape, str(x.dtype), "abcdefgh"[n]) for n, x in enumerate(arrays)]


def function_of(operator, *arrays):
    """The function that applies `operator` to tensors of the arrays' shapes; all its results are outputs."""
    tensors = placeholders(*arrays)
    result = operator(*tensors)
    outputs = list(result) if isinstance(result, tuple) else [result]
    return te.create_function(tensors, outputs, "f"), outputs


def run(operator, *arrays):
    """What `operator` makes of the arrays."""
    fn, outputs = function_of(operator, *arrays)
    inputs = dict(zip("abcdefgh", arrays, strict=False))
    results = interpret(fn, inputs)
    return results[outputs[0].name] if len(outputs) == 1 else tuple(results[t.name] for t in outputs)


def close(got, expected, ulps=8):
    """Within a few units in the last place of the result's own dtype, NaN and infinities alike."""
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

# SPDX-License-Identifier: Apache-2.0
"""TopK in compiled kernels, against the function of NumPy."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.numpy_operators import FUNCTIONS

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64")


def compiled(x, k, outputs=("v", "i"), **attributes):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    top = helper.make_node("TopK", ["x", "k"], list(outputs), **attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    given = [helper.make_tensor_value_info("x", kind, x.shape)]
    graph = helper.make_graph([top], "g", given, results, [numpy_helper.from_array(np.array([k]), "k")])
    return compile_network(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def check(x, k, outputs=("v", "i"), **attributes):
    """The devices of the network, whose results must be those of the function."""
    network = compiled(x, k, outputs, **attributes)
    results, expected = network.run({"x": x}).outputs, FUNCTIONS["TopK"](attributes, x, np.array([k]))
    for name, right in zip(outputs, expected, strict=True):
        if name:
            assert results[name].dtype == right.dtype
            np.testing.assert_array_equal(results[name], right)
    return [step.placement.device for step in network.artifact.plan.steps]


@pytest.mark.sampled
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_type_with_equal_elements_and_its_limits(dtype, largest):
    r = np.random.default_rng(0)
    x = r.integers(0, 9, (4, 12)).astype(dtype)
    if x.dtype.kind == "f":
        x[r.random(x.shape) < 0.2] = np.nan
        x[0, :4] = [np.inf, -np.inf, 0.0, -0.0]
    else:
        x[0, :2] = np.iinfo(dtype).max, np.iinfo(dtype).min
    for k in (1, 5, 12):
        assert check(x, k, largest=largest) == ["cpu"]


@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 0), ((2, 6, 3), 1), ((2, 3, 4, 5), -1), ((2, 1), 1)])
def test_each_axis(shape, axis):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    assert check(x, max(1, shape[axis] // 2), axis=axis) == ["cpu"]


@pytest.mark.parametrize("outputs", [("v", ""), ("", "i")])
def test_one_of_both_results(outputs):
    assert check(np.float32([[3, 1, 2]]), 2, outputs) == ["cpu"]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES)
def test_selection_from_long_rows(dtype):
    r = np.random.default_rng(2)
    x = r.integers(0, 99, (3, 300)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, ::7], x[1], x[2, ::2] = np.nan, -np.inf, np.inf
    else:
        x[0, ::7], x[1], x[2, ::2] = np.iinfo(dtype).max, np.iinfo(dtype).min, 5
    for k in (1, 8, 32):
        assert check(x, k) == ["cpu"]


@pytest.mark.parametrize(("shape", "axis"), [((131,), 0), ((2, 130, 3), 1), ((129, 2), 0), ((2, 1, 1000), -1)])
def test_selection_along_each_axis(shape, axis):
    x = np.random.default_rng(3).integers(-9, 9, shape).astype(np.float32)
    assert check(x, 20, axis=axis) == ["cpu"]


def test_many_results_of_long_rows_and_the_smallest_are_sorted_by_numpy():
    x = np.random.default_rng(2).standard_normal((2, 129)).astype(np.float32)
    assert check(x[:, :128], 4, largest=0) == ["cpu"]
    assert check(x, 33) == ["numpy"]
    assert check(x, 4, largest=0) == ["numpy"]

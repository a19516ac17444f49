# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions with `auto_pad` or `output_shape`: ONNX Runtime's values on every way."""

import itertools

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from vdla.compiler.graph.onnx import import_model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate

onnxruntime.set_default_logger_severity(4)

EXTENT = 4


def model_of(rank, *, kernel, group=1, constant=True, shape=None, **attributes):
    r = np.random.default_rng(0)
    x, weight, bias = (
        r.standard_normal(shape).astype(np.float32)
        for shape in ((2, 4, *(EXTENT,) * rank), (4, 2, *(kernel,) * rank), (2 * group,))
    )
    arrays = {"x": x} if constant else {"x": x, "w": weight}
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], group=group, **attributes)
    given = [helper.make_tensor_value_info(name, 1, shape or value.shape) for name, value in arrays.items()]
    kept = [numpy_helper.from_array(bias, "b"), *([numpy_helper.from_array(weight, "w")] if constant else [])]
    graph = helper.make_graph([node], "g", given, [helper.make_empty_tensor_value_info("y")], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7), arrays


def assert_same(model, arrays, ways=("numpy", "kernel")):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, arrays)
    for way in ways:
        value = evaluate(import_model(model), arrays, prefer=way)["y"]
        assert value.shape == want.shape
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-4)


GRID = [
    (kernel, stride, dilation, extra)
    for kernel, stride, dilation, extra in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2), (0, 1, 2))
    if extra < stride
]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "extra"), GRID)
def test_auto_pad(mode, kernel, stride, dilation, extra):
    options = {"strides": [stride], "dilations": [dilation], "output_padding": [extra], "auto_pad": mode}
    assert_same(*model_of(1, kernel=kernel, **options), ways=("numpy",))
    assert_same(*model_of(1, kernel=kernel, group=2, constant=False, **options), ways=("numpy",))


@pytest.mark.sampled
@pytest.mark.parametrize(("rank", "kernel"), [(1, 1), (1, 3), (2, 3), (3, 3)])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_kernels(rank, mode, kernel):
    options = {"strides": [2] * rank, "output_padding": [1] * rank, "auto_pad": mode}
    assert_same(*model_of(rank, kernel=kernel, group=2, **options))
    assert_same(*model_of(rank, kernel=kernel, constant=False, **options), ways=("kernel",))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
@pytest.mark.parametrize(
    ("rank", "kernel", "stride", "wanted"), [(1, 1, 1, 3), (2, 3, 2, 8), (2, 4, 2, 7), (1, 2, 3, 11)]
)
def test_wanted_shapes(mode, rank, kernel, stride, wanted):
    """A result may be smaller than the input."""
    options = {"strides": [stride] * rank, "output_shape": [wanted] * rank, "auto_pad": mode}
    assert_same(*model_of(rank, kernel=kernel, **options))


def test_extents_that_are_known_later():
    """Pads of SAME do not depend on the extent; those of a wanted shape do."""
    same, arrays = model_of(
        2, kernel=3, strides=[2, 2], output_padding=[1, 1], auto_pad="SAME_UPPER", shape=[2, 4, "h", "w"]
    )
    assert_same(same, arrays)
    wanted, arrays = model_of(2, kernel=3, strides=[2, 2], output_shape=[8, 8], shape=[2, 4, "h", "w"])
    assert_same(wanted, arrays)


def test_on_the_accelerator():
    """Quantised, such a layer is one of the accelerator like any other."""
    options = {"strides": [2, 2], "output_padding": [1, 1]}
    results = []
    for padding in ({"auto_pad": "SAME_UPPER"}, {"pads": [1, 1, 1, 1]}):
        model, arrays = model_of(2, kernel=3, **options, **padding)
        compiled = compile_network(model, "pynq_z1", calibration=[arrays])
        results.append(compiled.run(arrays).outputs["y"])
    np.testing.assert_array_equal(*results)
    assert results[0].shape == (2, 2, 2 * EXTENT, 2 * EXTENT)

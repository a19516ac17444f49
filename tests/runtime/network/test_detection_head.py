# SPDX-License-Identifier: Apache-2.0
"""A detection head with boxes in pixels and scores from 0 to 1: every device keeps both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import vdla
from vdla.runtime.network.quantise import quantise
from vdla.runtime.network.quantised_network import QuantisedNetwork

HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
head (float[1,3,32,32] x) => (float[1,96,7] found)
<int64[2] centre = {0, 2}, int64[3] sizes = {2, 2, 3}, int64[3] near_shape = {1, 7, 64},
 int64[3] far_shape = {1, 7, 32}, float two = {2}, float four = {4}, float eight = {8}>
{
    image = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, w0, b0)
    features = Relu(image)
    raw = Conv <kernel_shape = [1, 1]> (features, w1, b1)
    near_raw = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (raw)
    near_flat = Reshape(near_raw, near_shape)
    near_scores = Sigmoid(near_flat)
    near_xy, near_wh, near_classes = Split <axis = 1> (near_scores, sizes)
    near_twice = Mul(near_xy, two)
    near_moved = Add(near_twice, grid)
    near_centres = Mul(near_moved, four)
    near_square = Mul(near_wh, near_wh)
    near_sizes = Mul(near_square, near_anchors)
    near = Concat <axis = 1> (near_centres, near_sizes, near_classes)
    deep = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (features, w2, b2)
    deeper = Relu(deep)
    pooled = MaxPool <kernel_shape = [2, 1], strides = [2, 1]> (deeper)
    far_box_raw = Conv <kernel_shape = [1, 1]> (pooled, w3, b3)
    far_box = Relu(far_box_raw)
    far_logits = Conv <kernel_shape = [1, 1]> (pooled, w4, b4)
    far_classes = Sigmoid(far_logits)
    far_both = Concat <axis = 1> (far_box, far_classes)
    far = Reshape(far_both, far_shape)
    all = Concat <axis = 2> (near, far)
    found = Transpose <perm = [0, 2, 1]> (all)
}
"""
"""Boxes of two levels beside scores: decoded by arithmetic, and as a convolution makes them."""


def model() -> onnx.ModelProto:
    """The head with random weights."""
    random = np.random.default_rng(0)
    made = onnx.parser.parse_model(HEAD)

    def constant(name: str, value: np.ndarray) -> None:
        made.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), name))

    def layer(index: int, shape: tuple[int, ...], scale: float = 1.0, offset: float = 0.0) -> None:
        constant(f"w{index}", random.standard_normal(shape) * scale / np.sqrt(np.prod(shape[1:])))
        constant(f"b{index}", random.standard_normal(shape[0]) * 0.1 + offset)

    layer(0, (16, 3, 3, 3), 2.0)
    layer(1, (7, 16, 1, 1))
    layer(2, (16, 16, 3, 3), 2.0)
    layer(3, (4, 16, 1, 1), 40.0, 320.0)
    layer(4, (3, 16, 1, 1), 2.0)
    constant("grid", random.integers(0, 80, (1, 2, 64)))
    constant("near_anchors", np.array([60, 90]).reshape(1, 2, 1))
    return made


def images(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 32, 32)).astype(np.float32)


def ratio_db(exact: np.ndarray, found: np.ndarray) -> float:
    return 10 * float(np.log10((exact.astype(float) ** 2).sum() / ((exact.astype(float) - found) ** 2).sum()))


def check(found: np.ndarray) -> None:
    """Against the float model: boxes within pixels, scores within hundredths."""
    [exact] = onnxruntime.InferenceSession(model().SerializeToString()).run(None, {"x": images(0)})
    for part in (slice(0, 4), slice(4, 7)):
        assert ratio_db(exact[..., part], found[..., part]) > 30
    assert np.abs(exact[..., 4:] - found[..., 4:]).max() < 0.05


@pytest.fixture(scope="module")
def quantised() -> QuantisedNetwork:
    return quantise(model(), calibration=[images(seed) for seed in range(4)])


@pytest.mark.parametrize("target", ["host", "pynq_z1"])
def test_scores_are_kept(quantised, target, tmp_path: Path):
    quantised.save(tmp_path / "head.onnx")
    with vdla.compile(tmp_path / "head.onnx", target) as compiled:
        found = compiled.run({"x": images(0)}).outputs["found"]
        compiled.save(tmp_path / "head.vdla")
    check(found)
    with vdla.load(tmp_path / "head.vdla") as loaded:
        np.testing.assert_array_equal(loaded.run({"x": images(0)}).outputs["found"], found)


def test_report_says_what_stays_float(quantised):
    report = quantised.report(sensitivity=False)
    assert report.notes == (
        "far_both stays float, since one scale would lose far_classes in it",
        "all stays float, since one scale would lose near_classes in it",
    )
    assert report.warnings == ()
    assert {part.part for part in report.parts if part.value == "far_both"} == {"input far_box", "input far_classes"}
    assert all(part.snr_db > 30 for part in report.parts)

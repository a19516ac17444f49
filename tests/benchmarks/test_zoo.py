# SPDX-License-Identifier: Apache-2.0
"""The figures of exported models, on two of them."""

from dataclasses import replace

import pytest

from vdla.benchmarks import zoo
from vdla.verification.zoo.archive import archives, read

pytest.importorskip("onnxruntime")


def model(name):
    return next(model for path in archives() for model in read(path) if model.entry.name == name)


def test_a_network_is_compared_and_timed_on_the_cpu():
    result = zoo.run(only=("jax_perceptron_relu",))
    (row,) = result.rows
    assert row["error"] <= row["tolerance"]
    assert row["ratio"] > 0
    assert (result.figures["models"], result.figures["wrong"], result.figures["crashed"]) == (1, 0, 0)
    assert (result.figures["int8_loss"], result.figures["int8_constant"]) == (0, 0)


def test_outputs_that_differ_are_wrong():
    right = model("jax_layer_norm")
    row = zoo.row_of(replace(right, outputs=tuple(value + 1 for value in right.outputs)))
    assert row["error"] > row["tolerance"]


def test_what_no_importer_reads_is_refused():
    assert "refused" in zoo.row_of(replace(model("jax_layer_norm"), content=b"no model"))


def test_a_model_that_the_other_library_lacks_is_not_compared():
    row = zoo.row_of(model("brevitas_qonnx_depthwise"))
    assert row["error"] <= row["tolerance"]
    assert row["not_compared"].startswith("Fail: ")
    assert (row["not_quantised"], "crashed" in row) == ("has quantised operators", False)


def test_outputs_in_int8_are_compared_with_those_of_the_other_quantiser():
    row = zoo.row_of(model("torch_script_conv_relu"))  # of opset 11, which has one scale for each weight
    assert row["int8_db"][0] > row["onnxruntime_db"][0] - 1
    assert not row["int8_loss"] and not row["int8_constant"]

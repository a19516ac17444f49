# SPDX-License-Identifier: Apache-2.0
"""The networks: checked models, results of sensible spread, equal bytes for equal seeds."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from vdla.networks.counts import CountError, inferred_shapes, macs, parameters
from vdla.networks.network_builder import IR_VERSION, OPSET
from vdla.networks.registry import GALLERY, KNOWN, NETWORKS, NetworkError, network
from vdla.networks.resnet import resnet18

Arrays = dict[str, np.ndarray[Any, Any]]
every_network = pytest.mark.parametrize("name", NETWORKS)
predicted = pytest.mark.parametrize("name", [name for name in NETWORKS if name != "yolo_v8n"])
"""Networks whose statistics are predicted well: maxima of maxima are not independent."""


def small(name: str, **parameters: Any) -> onnx.ModelProto:
    return NETWORKS[name].build(**NETWORKS[name].small, **parameters)


def with_all_results(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose outputs are the results of all nodes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    names = [name for node in model.graph.node for name in node.output]
    copy.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    return copy


def outcome(model: onnx.ModelProto, inputs: Arrays) -> Arrays:
    """The outputs as ONNX Runtime computes them."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [info.name for info in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


@predicted
def test_every_intermediate_result_has_a_sensible_spread(name: str) -> None:
    model = small(name)
    for tensor, values in outcome(with_all_results(model), NETWORKS[name].inputs(model)).items():
        assert np.isfinite(values).all(), tensor
        assert 0.02 < values.std() < 10, tensor


@predicted
def test_batch_normalisation_normalises(name: str) -> None:
    model = small(name, batch=8)
    values = outcome(with_all_results(model), NETWORKS[name].inputs(model))
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            assert abs(values[node.output[0]].mean()) < 0.5, node.name
            assert 0.4 < values[node.output[0]].std() < 3, node.name


@every_network
def test_the_model_is_checked_and_its_shapes_infer(name: str) -> None:
    model = small(name)
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, [entry.version for entry in model.opset_import]) == (IR_VERSION, [OPSET])
    shapes = inferred_shapes(model)
    assert all(result in shapes for node in model.graph.node for result in node.output if result)
    names = [node.name for node in model.graph.node]
    assert all(names) and len(set(names)) == len(names)


@every_network
def test_a_symbolic_batch_takes_every_batch(name: str) -> None:
    fixed, symbolic = small(name), small(name, batch="N")
    [one], [three] = (
        outcome(model, NETWORKS[name].inputs(model, batch)).values() for model, batch in ((fixed, 1), (symbolic, 3))
    )
    assert (one.shape[0], three.shape[0]) == (1, 3)
    assert one.shape[1:] == three.shape[1:]
    assert fixed.graph.initializer == symbolic.graph.initializer


def test_models_of_recorded_seeds_are_unchanged(golden: Callable[[str, str], None]) -> None:
    """Programs compiled from them, and their results, would change too."""
    hashes = {
        f"{name}, seed {seed}": hashlib.sha256(
            small(name, seed=seed).SerializeToString(deterministic=True)
        ).hexdigest()
        for name in NETWORKS
        for seed in (0, 1)
    }  # fmt: skip
    golden("models.json", json.dumps(hashes, indent=1) + "\n")
    assert hashes["digits, seed 0"] == hashes["digits, seed 1"]  # its weights are trained
    assert len(set(hashes.values())) == len(hashes) - 1


def test_full_sizes_are_those_of_the_papers() -> None:
    """Parameters and MACs as published, for example with torchvision's models."""
    model = resnet18()
    assert (parameters(model), macs(model)) == (11_689_512, 1_814_073_344)
    counts = {name: parameters(NETWORKS[name].build()) for name in ("mobilenet_v1", "mobilenet_v2", "vit_small")}
    assert counts == {"mobilenet_v1": 4_231_976, "mobilenet_v2": 3_504_872, "vit_small": 22_049_896}


def test_the_networks_of_mlperf_tiny_have_the_parameters_of_the_reference() -> None:
    """Those of the models of Keras, without the running statistics."""
    tiny = ("ds_cnn", "resnet8", "autoencoder")
    counts = {name: parameters(NETWORKS[name].build()) for name in tiny}
    statistics = {"ds_cnn": 2 * 9 * 64, "resnet8": 2 * 240, "autoencoder": 2 * 1032}
    assert {name: counts[name] + statistics[name] for name in tiny} == {
        "ds_cnn": 24_908, "resnet8": 78_666, "autoencoder": 269_992,
    }  # fmt: skip


def test_macs_of_small_layers_counted_by_hand() -> None:
    """Conv: 12 results x 9 taps; transposed: 12 inputs x 8; Gemm: 10 results x 3; LSTM: 2 steps."""
    shapes = {"x": (1, 3, 2, 2), "w": (3, 1, 3, 3), "t": (3, 2, 2, 2), "a": (3, 2), "b": (5, 3), "s": (2, 1, 3)}
    weights = {"w": shapes["w"], "t": shapes["t"], "b": shapes["b"], "wl": (1, 8, 3), "rl": (1, 8, 2)}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["y"], group=3, pads=[1, 1, 1, 1]),
        onnx.helper.make_node("ConvTranspose", ["x", "t"], ["z"]),
        onnx.helper.make_node("Gemm", ["a", "b"], ["g"], transA=1, transB=1),
        onnx.helper.make_node("LSTM", ["s", "wl", "rl"], ["h"], hidden_size=2),
    ]
    inputs = [onnx.helper.make_tensor_value_info(name, 1, shapes[name]) for name in ("x", "a", "s")]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in "yzgh"]
    constants = [onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "by_hand", inputs, outputs, constants))
    assert macs(model) == 12 * 9 + 12 * 2 * 4 + 2 * 5 * 3 + 2 * (8 * 3 + 8 * 2)
    assert parameters(model) == sum(prod(shape) for shape in weights.values())


def test_counting_a_symbolic_shape_is_refused() -> None:
    with pytest.raises(CountError) as error:
        macs(small("deep_q_network", batch="N"))
    assert str(error.value) == "deep_q_network: shape of frames must be static, got N"


def test_the_registry_loads_without_onnx() -> None:
    code = "import sys, vdla.networks.registry; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_an_unknown_network_is_answered_with_the_choices() -> None:
    with pytest.raises(NetworkError) as error:
        network("resnet181")
    names = ", ".join(KNOWN)
    assert str(error.value) == f"network: name must be one of {names}, got resnet181 (did you mean resnet18?)"


@pytest.mark.parametrize("name", GALLERY)
def test_networks_of_the_gallery_are_valid_in_batches_and_repeat(name: str) -> None:
    build = partial(network(name).build, batch="n", **network(name).small)
    model = build(seed=3)
    onnx.checker.check_model(model, full_check=True)
    inputs = GALLERY[name].inputs(model, 2)
    whole, parts = (
        outcome(model, inputs),
        [outcome(model, {key: array[index : index + 1] for key, array in inputs.items()}) for index in range(2)],
    )
    for key, values in whole.items():
        assert len(np.unique(values)) > 2
        np.testing.assert_allclose(values, np.concatenate([part[key] for part in parts]), atol=1e-5)
    assert build(seed=3) == model != build(seed=4)
    assert parameters(model) > 1000

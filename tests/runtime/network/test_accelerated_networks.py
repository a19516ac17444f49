# SPDX-License-Identifier: Apache-2.0
"""Networks on the accelerator: the same bits for every partition, machine and oracle."""

from functools import cache

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate as exact
from helpers.quantiser import to_qdq
from helpers.seeds import sample
from onnx import helper, numpy_helper

from vdla.compiler.graph.accelerator import candidates
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import for_machine, fuse_qdq, run_passes
from vdla.hardware.config import Config
from vdla.networks import gallery
from vdla.networks.network_builder import NetworkBuilder
from vdla.networks.quantised_values import requantised
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION, evaluate_node
from vdla.runtime.network.evaluator import evaluate

ON_MACHINE = [name for name in NETWORKS if name != "lstm_language_model"]
# Residual, depthwise, attention and plain networks are split in every run of the tests, a quarter
# of the others in the long ones.
SPLIT = ["resnet18", "mobilenet_v2", "vit_small", "digits"]
OTHERS = sample((name for name in ON_MACHINE if name not in SPLIT), lambda name: ())
PRODUCTS = {
    "autoencoder": {"vdla.QDense"},
    "dcgan_generator": {"vdla.QConvTranspose"},
    "vit_small": {"vdla.QConv", "vdla.QDense", "vdla.QMatMul"},
    "yolo_v8n": {"vdla.QConv", "vdla.QConvTranspose"},
}


@cache
def quantised(name):
    """A quantised network, an input and the exact outputs."""
    network = NETWORKS[name]
    model = network.build(**network.small)
    model, inputs = to_qdq(model, [network.inputs(model, seed=seed) for seed in (1, 2)]), network.inputs(model)
    return model, inputs, expected(model, inputs)


def possible(model, config):
    """The results of all nodes that the accelerator can run, by their names in the model."""
    graph = run_passes(import_model(model), (*PREPARATION, *INTEGER))
    known = {name for node in graph.nodes for name in node.outputs}
    return [name for name in candidates(for_machine(graph, evaluate_node, {}), config).calls if name in known]


def expected(model, inputs):
    """The integer evaluator's outputs; where a tanh in float32 follows, those of the CPU alone."""
    wanted = exact(model, inputs).outputs
    if not any(node.op_type == "Tanh" for node in model.graph.node):
        return wanted
    with compile_network(model) as compiled:
        found = compiled.run(inputs).outputs
    for name, array in wanted.items():
        assert np.allclose(found[name], array, rtol=0, atol=1e-6), name
    return found


def check(network, machine, place):
    model, inputs, wanted = network
    with compile_network(model, machine, place=place) as compiled:
        results = compiled.run(inputs)
    for name, array in results.outputs.items():
        assert np.array_equal(array, wanted[name]), name
    return results


@pytest.mark.sampled
@pytest.mark.parametrize("name", ON_MACHINE)
def test_all_on_the_accelerator(name):
    network = model, *_ = quantised(name)
    machine = Config.preset("pynq_z1")
    nodes = possible(model, machine)
    results = check(network, machine, dict.fromkeys(nodes, "vdla"))
    assert results.cycles > 0
    placed = [op for run in results.steps for op in run.step.placement.operators if run.step.placement.device == "vdla"]
    assert len(placed) >= len(nodes)  # copies for joins are placed with them
    assert {op.op for op in placed} >= PRODUCTS.get(name, {"vdla.QConv", "vdla.QDense"})


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["pynq_z1", "batch4"])
@pytest.mark.parametrize("axis", [1, 2])
def test_rows_whose_dimensions_change_between_two_programs(axis, preset):
    """Unpacking and packing again cancel: the second program reads what the first one wrote."""
    net = NetworkBuilder("rows", 0)
    x = requantised(net, net.input("x", (1, 128, 64)), 1 / 16, "x")
    x = gallery._rows_product(net, x, (64, 64), "first")
    x = net.node("Unsqueeze", [x, net.constant("axis", np.array([axis]))], "alone")
    x = gallery._rows_product(net, x, (64, 48), "second")
    shape = (1, 1, 128, 48) if axis == 1 else (1, 128, 1, 48)
    graph = fuse_qdq(import_model(net.model({x: shape})))
    data = {"x": np.random.default_rng(0).standard_normal((1, 128, 64)).astype(np.float32)}
    place = dict.fromkeys(("first", "second"), "vdla")
    with compile_network(graph, Config.preset(preset), certify=True, place=place) as made:
        wanted = evaluate(graph, data, prefer="definition")
        np.testing.assert_array_equal(made.run(data).outputs[x], wanted[x])


@pytest.mark.parametrize("preset", ["tiny", "batch4", "ultra96"])
def test_other_machines(preset):
    network = model, *_ = quantised("digits")
    machine = Config.preset(preset)
    nodes = possible(model, machine)
    check(network, machine, dict.fromkeys(nodes, "vdla"))
    assert nodes or preset == "int4"


@pytest.mark.parametrize("name", [*SPLIT, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_random_partitions(name):
    network = model, *_ = quantised(name)
    machine = Config.preset("pynq_z1")
    rng = np.random.default_rng([*name.encode()])
    place = {node: str(rng.choice(["vdla", "cpu"])) for node in possible(model, machine)}
    assert len(set(place.values())) == 2
    check(network, machine, place)


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_more_partitions_of_a_transformer(seed):
    network = model, *_ = quantised("vit_small")
    machine = Config.preset(["pynq_z1", "batch4"][seed % 2])
    rng = np.random.default_rng(seed)
    check(network, machine, {n: str(rng.choice(["vdla", "cpu"])) for n in possible(model, machine)})


def branches():
    """Two branches of convolutions, what reads their concatenation, as `quantised` gives them."""
    rng, nodes, weights = np.random.default_rng(0), [], []

    def conv(x, y, channels, outputs, kernel):
        weight = (rng.normal(size=(outputs, channels, kernel, kernel)) / channels).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"{y}.weight"))
        nodes.append(helper.make_node("Conv", [x, f"{y}.weight"], [y], pads=[kernel // 2] * 4))

    conv("x", "stem", 3, 16, 3)
    conv("stem", "left", 16, 16, 3)
    conv("stem", "right", 16, 32, 1)
    nodes.append(helper.make_node("Concat", ["left", "right"], ["both"], axis=1))
    conv("both", "y", 48, 16, 3)
    x, y = (helper.make_tensor_value_info(name, 1, [1, size, 12, 12]) for name, size in (("x", 3), ("y", 16)))
    graph = helper.make_graph(nodes, "branches", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    data = [{"x": rng.normal(size=(1, 3, 12, 12)).astype(np.float32)} for _ in range(3)]
    model = to_qdq(model, data[1:])
    return model, data[0], expected(model, data[0])


def test_a_concatenation_costs_nothing():
    network = model, *_ = branches()
    machine = Config.preset("pynq_z1")
    results = check(network, machine, dict.fromkeys(possible(model, machine), "vdla"))
    operators = {op.op: op for run in results.steps for op in run.step.placement.operators}
    assert operators["Concat"].cycles == 0
    assert operators["Concat"].reason.startswith("0 ms on the accelerator")
    place = {name: "cpu" if name.startswith("both") else "vdla" for name in possible(model, machine)}
    check(network, machine, place)


@cache
def signal():
    """Convolutions over a signal of two channels, as `quantised` gives them."""
    rng, x = np.random.default_rng(0), helper.make_tensor_value_info("x", 1, [1, 2, 80])
    shapes = {"first": (20, 2, 9), "depthwise": (20, 1, 3), "last": (5, 20, 1)}
    arrays = {name: rng.normal(size=shape) / np.prod(shape[1:]) ** 0.5 for name, shape in shapes.items()}
    weights = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], strides=[2], pads=[4, 3]),
        helper.make_node("Conv", ["a", "depthwise"], ["b"], group=20, dilations=[2]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[3], strides=[3]),
        helper.make_node("Conv", ["c", "last"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["y"]),
    ]
    y = helper.make_tensor_value_info("y", 1, [1, 5, 1])
    graph = helper.make_graph(nodes, "signal", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    data = [{"x": rng.normal(size=(1, 2, 80)).astype(np.float32)} for _ in range(3)]
    model = to_qdq(model, data[1:])
    return model, data[0], expected(model, data[0])


@pytest.mark.parametrize("preset", ["pynq_z1", "batch4"])
def test_a_signal_of_two_channels(preset, tmp_path):
    model, inputs, wanted = signal()
    place = dict.fromkeys(possible(model, Config.preset(preset)), "vdla")
    assert len(place) == 5
    compiled = compile_network(model, preset, place=place)
    compiled.save(tmp_path / "m.vdla")
    with compiled, Model.load(tmp_path / "m.vdla") as loaded:
        for each in (compiled, loaded):
            assert np.array_equal(each.run(inputs).outputs["y"], wanted["y"])


@pytest.mark.rtl
def test_the_rtl_runs_a_signal():
    model, inputs, wanted = signal()
    place = dict.fromkeys(possible(model, Config.preset("pynq_z1")), "vdla")
    with Model(compile_network(model, "pynq_z1", place=place).artifact, "rtl") as verilated:
        assert np.array_equal(verilated.run(inputs).outputs["y"], wanted["y"])


def test_a_saved_model_runs_the_same(tmp_path):
    model, inputs, _ = quantised("digits")
    place = dict.fromkeys(possible(model, Config.preset("pynq_z1")), "vdla")
    compiled = compile_network(model, "pynq_z1", place=place)
    compiled.save(tmp_path / "m.vdla")
    with compiled, Model.load(tmp_path / "m.vdla") as loaded:
        first, second = compiled.run(inputs), loaded.run(inputs)
    assert loaded.artifact.config == Config.preset("pynq_z1")
    assert first.cycles == second.cycles == sum(s.placement.cycles or 0 for s in compiled.artifact.plan.steps)
    for name, array in first.outputs.items():
        assert np.array_equal(array, second.outputs[name])


def test_wrong_targets_and_places():
    model, *_ = quantised("digits")
    with pytest.raises(
        ModelError, match=r"^compile: target must be an accelerator \(.*\), a CPU \(.*\) or a GPU \(.*\), got 'pinq_z1'"
    ):
        compile_network(model, "pinq_z1")
    with pytest.raises(ModelError, match=r"^compile: device of conv must be one of vdla, cpu, got gpu$"):
        compile_network(model, "pynq_z1", place={"conv": "gpu"})
    with pytest.raises(ModelError, match=r"^compile: place must name nodes or results of .*, got nothing$"):
        compile_network(model, "pynq_z1", place={"nothing": "cpu"})

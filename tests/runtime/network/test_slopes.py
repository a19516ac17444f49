# SPDX-License-Identifier: Apache-2.0
"""PReLU in quantised networks, by an instruction and without it, against the operators' definitions
and the reference of quantised networks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.integer_evaluator import evaluate as reference
from onnx import helper

from vdla.compiler.extensions import extend
from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall
from vdla.compiler.graph.passes import fuse_qdq
from vdla.hardware.config import Config
from vdla.networks import gallery
from vdla.networks.network_builder import NetworkBuilder
from vdla.networks.quantised_values import SIXTEENTHS, dequantised, requantised
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import evaluate
from vdla.runtime.network.import_network import import_network
from vdla.runtime.network.plug_in_choice import PlugInChoice
from vdla.runtime.network.quantise import quantise

PRELU = Path(__file__).parents[3] / "examples" / "prelu" / "prelu.py"
SLOPES = {
    "usual": np.linspace(0, 0.5, 20),
    "negative": np.linspace(-1, 0.9, 20),
    "zero": np.zeros(20),
    "steepest": np.full(20, 127 / 128),
    "above one": np.linspace(0.1, 3, 20),
    "one for all": np.array([0.25]),
}


def convolutional(slopes: np.ndarray, batch: int = 1, group: int = 1, *, residual: bool = False, bound: bool = False):
    """A convolution of 20 channels, quantised, and its PReLU, with more around it."""
    net = NetworkBuilder("sloped", 0)
    x = requantised(net, net.input("image", (batch, 8, 7, 5)), SIXTEENTHS, "image")
    weight = net.random.integers(-90, 90, (20, 8 // group, 3, 3)).astype(np.int8)
    weight = dequantised(net, net.constant("integers", weight), 1 / 512, "weight")
    x = requantised(net, net.node("Conv", [x, weight], "conv", pads=[1] * 4, group=group), SIXTEENTHS, "conv", 5)
    if residual:
        x = requantised(net, net.node("Add", [x, x], "sum"), SIXTEENTHS, "sum", -3)
    slope = net.constant("slopes", slopes.reshape(-1, 1, 1).astype(np.float32))
    x = net.node("PRelu", [x, slope], "active")
    if bound:
        limits = [net.constant(name, np.array(value, np.float32)) for name, value in (("low", 0), ("high", 6))]
        x = net.node("Clip", [x, *limits], "bound")
    x = requantised(net, x, 1 / 12, "y", -7)
    return net.model({x: (batch, 20, 7, 5)})


def dense(slopes: np.ndarray, rows: tuple[int, ...] = (3,)):
    """A dense layer of 20 features and its PReLU."""
    net = NetworkBuilder("sloped", 0)
    x = requantised(net, net.input("image", (*rows, 24)), SIXTEENTHS, "image")
    integers = net.constant("integers", net.random.integers(-90, 90, (24, 20)).astype(np.int8))
    x = requantised(net, net.node("MatMul", [x, dequantised(net, integers, 1 / 256, "weight")], "dense"), 1 / 8, "d", 3)
    x = net.node("PRelu", [x, net.constant("slopes", slopes.astype(np.float32))], "active")
    return net.model({requantised(net, x, 1 / 8, "y"): (*rows, 20)})


def leaky(alpha: float):
    net = NetworkBuilder("leaky", 0)
    x = requantised(net, net.input("image", (1, 8, 7, 5)), SIXTEENTHS, "image")
    x = requantised(net, net.node("LeakyRelu", [x], "active", alpha=alpha), SIXTEENTHS, "y")
    return net.model({x: (1, 8, 7, 5)})


def shape_of(model: Any) -> list[int]:
    return [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]


def instructions(graph: Graph, config: Config, data: dict[str, np.ndarray], place: dict[str, str]) -> set[str]:
    """The operators that the instruction runs; the results are those of the definitions."""
    wanted = evaluate(graph, data, prefer="definition")
    by_numpy = evaluate(graph, data, prefer="numpy")
    with compile_network(graph, config, place=place) as made:
        got = made.run(data).outputs
        for name in graph.outputs:
            np.testing.assert_array_equal(got[name], wanted[name])
            np.testing.assert_array_equal(by_numpy[name], wanted[name])
        operators = [item for step in made.artifact.plan.steps for item in step.placement.operators]
        return {item.op for item in operators if item.extensions}


def check(model: Any, preset: str, used: bool) -> None:
    """A network with and without the instruction, against the reference of quantised networks."""
    graph = fuse_qdq(import_network(model))
    (op,) = (node for node in graph.nodes if node.op == "vdla.QPRelu")
    data = {"image": np.random.default_rng(1).normal(0, 3, shape_of(model)).astype(np.float32)}
    with_it, plain = extend(Config.preset(preset), PRELU), Config.preset(preset)
    place = {op.outputs[0]: "vdla"} if used else {}
    assert instructions(graph, with_it, data, place) == ({"vdla.QPRelu"} if used else set())
    assert instructions(graph, plain, data, {}) == set()
    expected = reference(model, data)
    assert not expected.by_float
    result = next(node.outputs[0] for node in graph.nodes if node.op == "vdla.QPRelu")
    found = evaluate(graph.replace(outputs=(result,)), data, prefer="definition")[result]
    np.testing.assert_array_equal(found, expected.quantised[result])
    assert np.unique(found).size > 5


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "batch4"])
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_any_size_are_computed_exactly(name: str, preset: str) -> None:
    check(convolutional(SLOPES[name]), preset, name != "above one")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"batch": 3}, {"group": 4}, {"group": 2, "batch": 2}, {"residual": True}, {"bound": True}],
    ids=lambda options: "_".join(options),
)
@pytest.mark.parametrize("preset", ["pynq_z1", "batch4"])
def test_neighbours_of_slopes_are_computed_exactly(options: dict[str, Any], preset: str) -> None:
    check(convolutional(SLOPES["negative"], **options), preset, used=True)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [(3,), (1,), (2, 5)])
@pytest.mark.parametrize("preset", ["pynq_z1", "tiny"])
def test_slopes_of_rows_are_computed_exactly(rows: tuple[int, ...], preset: str) -> None:
    check(dense(SLOPES["usual"], rows), preset, used=True)


@pytest.mark.parametrize("alpha", [0.25, 0.01, 0.3, 1.0])
def test_one_slope_of_all_is_offered_where_its_results_are_the_same(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlugInChoice, "_require_faster", lambda *_: None)
    graph = fuse_qdq(import_network(leaky(alpha)))
    name = next(node.outputs[0] for node in graph.nodes if node.op == "vdla.QLeakyRelu")
    data = {"image": np.random.default_rng(1).normal(0, 3, (1, 8, 7, 5)).astype(np.float32)}
    used = instructions(graph, extend(Config.preset("tiny"), PRELU), data, {name: "vdla"})
    assert used == ({"vdla.QLeakyRelu"} if alpha == 0.25 else set())


# --- quantised by the toolkit, and by others ------------------------------------------------------


def test_the_quantiser_makes_slopes_integers() -> None:
    model = gallery.faces(seed=1, image=8, width=12, features=10)
    data = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    quantised = quantise(model, calibration=[{"image": data}])
    ops = [node.op for node in fuse_qdq(quantised.graph).nodes]
    assert ops.count("vdla.QPRelu") == 4 and "PRelu" not in ops
    wanted = evaluate(import_network(model), {"image": data})
    got = evaluate(fuse_qdq(quantised.graph), {"image": data})
    (name,) = wanted
    assert 20 * np.log10(np.linalg.norm(wanted[name]) / np.linalg.norm(wanted[name] - got[name])) > 25


def test_slopes_may_be_quantised_constants() -> None:
    """Of one scale, or of scales along their dimension."""
    for scales in (np.float32(1 / 64), np.linspace(1 / 200, 1 / 100, 6).astype(np.float32).reshape(-1)):
        net = NetworkBuilder("sloped", 0)
        x = requantised(net, net.input("image", (2, 6, 4, 3)), SIXTEENTHS, "image")
        given = [net.constant("integers", np.arange(-20, 40, 10).astype(np.int8).reshape(6, 1, 1))]
        given.append(net.constant("scale", scales))
        slope = net.node("DequantizeLinear", given, "slopes", **({"axis": 0} if scales.ndim else {}))
        y = requantised(net, net.node("PRelu", [x, slope], "active"), SIXTEENTHS, "y")
        made = net.model({y: (2, 6, 4, 3)})
        node = next(node for node in fuse_qdq(import_network(made)).nodes if node.op == "vdla.QPRelu")
        wanted = np.rint(128 * (np.arange(-20, 40, 10).astype(np.float32) * scales).astype(np.float64))
        constants = fuse_qdq(import_network(made)).constants
        assert constants[node.inputs[1]].ravel().tolist() == wanted.tolist()


@pytest.mark.parametrize("opset", [7, 9, 13, 16, 18])
def test_networks_of_any_opset_have_slopes(opset: int) -> None:
    slope = onnx.numpy_helper.from_array(np.array([0.1, -0.5, 1.5], np.float32).reshape(3, 1, 1), "s")
    kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 3, 4, 4)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("PRelu", ["x", "s"], ["y"])], "g", kinds[:1], kinds[1:], [slope])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    node = next(node for node in import_network(made).nodes if node.op == "PRelu")
    assert import_network(made).constants[node.inputs[1]].shape == (3, 1, 1)


def test_slopes_that_are_none_of_channels_stay_floats() -> None:
    """Slopes of two dimensions, and those that no 16 bits hold."""
    for slopes in (np.full((20, 7, 1), 0.5), np.full((20, 1, 1), 256.0)):
        net = NetworkBuilder("sloped", 0)
        x = requantised(net, net.input("image", (1, 20, 7, 5)), SIXTEENTHS, "image")
        y = net.node("PRelu", [x, net.constant("slopes", slopes.astype(np.float32))], "active")
        graph = fuse_qdq(import_network(net.model({requantised(net, y, SIXTEENTHS, "y"): (1, 20, 7, 5)})))
        assert "PRelu" in [node.op for node in graph.nodes]


def test_a_reason_names_slopes_that_the_instruction_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = []
    choose = PlugInChoice.__call__

    def choosing(self: PlugInChoice, at: MachineNode, template: OperatorCall | None) -> OperatorCall | str:
        reasons.append((at.node.op, choose(self, at, template)))
        return reasons[-1][1]

    monkeypatch.setattr(PlugInChoice, "__call__", choosing)
    graph = fuse_qdq(import_network(convolutional(SLOPES["above one"])))
    compile_network(graph, extend(Config.preset("tiny"), PRELU)).close()
    assert ("vdla.QPRelu", "have slopes of -128 to 127 parts of 128, got 13 to 384") in reasons

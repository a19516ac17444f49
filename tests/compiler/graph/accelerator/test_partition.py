# SPDX-License-Identifier: Apache-2.0
"""Partitioning: which nodes form a region, what is packed around it, which nodes stay and why."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import operators_of
from helpers.qdq_graphs import QdqBuilder

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.graph.accelerator import (
    ACCELERATED,
    CPU_MODELS,
    REGION,
    board_cpu,
    candidates,
    choose,
    modelled_cpu,
    partition,
)
from vdla.compiler.graph.groups import BODY
from vdla.hardware.config import Config

CONFIG = Config.preset("pynq_z1")
RESULTS = {"multiplier": np.array([1 << 23]), "shift": np.array([30]), "y_zero_point": 0, "low": -128, "high": 127}
WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1, "x_zero_point": 0}


def conv(x, y, **changes):
    return Node("vdla.QConv", (x, "w", "b"), (y,), {**RESULTS, **WINDOW, **changes}, y)


def add(x, other, y):
    zeros = {"a_zero_point": 0, "b_zero_point": 0}
    return Node("vdla.QAdd", (x, other), (y,), {**RESULTS, **zeros, "factors": (1, 1)}, y)


def graph_of(*nodes, outputs=("y",), size=8, channels=16):
    shape = TensorType("int8", (1, channels, size, size))
    values = ("x", *(node.outputs[0] for node in nodes))
    constants = {"w": np.ones((channels, channels, 1, 1), np.int8), "b": np.zeros(channels, np.int32)}
    types = dict.fromkeys(values, shape)
    types |= {name: TensorType(str(value.dtype), value.shape) for name, value in constants.items()}
    return check_graph(Graph("g", ("x",), tuple(outputs), nodes, constants, types))


def partitioned(graph, without=()):
    calls = candidates(graph, CONFIG).calls
    return check_graph(partition(graph, CONFIG, {name: call for name, call in calls.items() if name not in without}))


def regions(graph):
    return [[node.name for node in each.attributes[BODY].nodes] for each in graph.nodes if each.op == ACCELERATED]


def test_neighbours_form_one_region():
    graph = partitioned(graph_of(conv("x", "a"), conv("a", "b1"), add("a", "b1", "y")))
    assert regions(graph) == [["a", "b1", "y"]]
    assert operators_of(graph).count("Transpose") == 2  # in and out, not between
    region = next(node for node in graph.nodes if node.op == ACCELERATED).attributes[REGION]
    assert len(region.chain.program.tensors) > 0


def test_a_node_of_the_cpu_separates_regions():
    graph = partitioned(graph_of(conv("x", "a"), Node("Sign", ("a",), ("s",)), conv("s", "y")))
    assert regions(graph) == [["a"], ["y"]]


def test_no_path_leaves_a_region_and_returns():
    """a is read by the accelerator and, through the CPU, by a node that reads both."""
    nodes = (conv("x", "a"), Node("Sign", ("a",), ("s",)), conv("a", "b1"), conv("s", "c"), add("b1", "c", "y"))
    graph = partitioned(graph_of(*nodes))
    assert regions(graph) == [["a", "b1"], ["c", "y"]]
    second = [node for node in graph.nodes if node.op == ACCELERATED][1]
    assert "b1.packed" in second.inputs  # handed over as it is packed


def test_a_result_read_elsewhere_is_unpacked():
    graph = partitioned(graph_of(conv("x", "a"), conv("a", "y"), outputs=("a", "y")))
    assert regions(graph) == [["a", "y"]]
    assert {name for node in graph.nodes for name in node.outputs} >= {"a", "y"}


def test_an_input_is_packed_once():
    graph = partitioned(graph_of(conv("x", "a"), conv("x", "b1"), add("a", "b1", "y")))
    assert operators_of(graph).count("Transpose") == 2


@pytest.mark.parametrize("without", [("a",), ("b1",), ("y",), ("a", "y")])
def test_any_nodes_may_stay_on_the_cpu(without):
    graph = partitioned(graph_of(conv("x", "a"), conv("a", "b1"), add("a", "b1", "y")), without)
    stayed = {node.name for node in graph.nodes if node.op.startswith("vdla.Q")}
    assert stayed == set(without)


# --- the choice -----------------------------------------------------------------------------------


def test_element_wise_operators_keep_their_neighbours_together():
    rescale = Node("vdla.QRescale", ("a",), ("r",), {**RESULTS, "x_zero_point": 3, "low": -5}, "r")
    leaky = Node("vdla.QLeakyRelu", ("r",), ("l",), {**RESULTS, "x_zero_point": 0, "factors": (10, 1)}, "l")
    graph = partitioned(graph_of(conv("x", "a", low=-7), rescale, leaky, conv("l", "y")))
    assert regions(graph) == [["a", "r", "l", "y"]]


def decisions(graph, forced=None, config=CONFIG):
    return choose(graph, config, candidates(graph, config), board_cpu(config), forced)


def test_large_operators_move_and_small_ones_stay():
    large = decisions(graph_of(conv("x", "y"), size=56, channels=64))
    assert set(large.calls) == {"y"}
    assert large.decisions["y"].device == "vdla"
    assert large.decisions["y"].reason.endswith("on cortex-a9")
    small = decisions(graph_of(conv("x", "y"), size=2))
    assert not small.calls
    assert small.decisions["y"].device == "cpu"
    assert "for packing" in small.decisions["y"].reason


def test_the_user_decides():
    graph = graph_of(conv("x", "y"), size=2)
    assert set(decisions(graph, {"y": "vdla"}).calls) == {"y"}
    graph = graph_of(conv("x", "y"), size=56, channels=64)
    forced = decisions(graph, {"y": "cpu"})
    assert not forced.calls
    assert forced.decisions["y"].reason == "placed on the CPU by the user"


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (Node("Sign", ("x",), ("y",)), "be quantised"),
        (Node("Transpose", ("x",), ("y",), {"perm": (0, 1, 3, 2)}), "compute, not only move data"),
        (
            Node("vdla.QTable", ("x",), ("y",), {"table": np.zeros(256, np.int8)}),
            "run on a machine that looks results up on their way out, got one without such a stage",
        ),
    ],
)
def test_reasons_to_stay(node, reason):
    decision = decisions(graph_of(node)).decisions["y"]
    assert (decision.device, decision.reason) == ("cpu", f"on the accelerator it must {reason}")


def qdq_case(op, dtype="int8", quantised=True):
    """An operator behind a DequantizeLinear, and before a QuantizeLinear if its result is too."""
    b = QdqBuilder()
    real = b.dequantise(b.input("x", (1, 4, 8, 8), dtype), 0.1)
    found = b.add(op, real, result="found")
    return b.graph(b.quantise(found, 0.1) if quantised else found)


CONVERTS = "compute, not only convert between floats and integers"


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (qdq_case("Softmax"), "be an operator of integers, got Softmax"),
        (qdq_case("Softmax", quantised=False), "have a quantised result, not only quantised operands"),
        (qdq_case("LeakyRelu", "int16"), "read activations of 8 bits, got int16 for v0"),
        (qdq_case("Transpose", "int16"), "compute, not only move data"),
    ],
)
def test_reasons_of_float_operators_in_a_quantised_graph(graph, reason):
    found = decisions(graph).decisions
    assert found["found"].reason == f"on the accelerator it must {reason}"
    others = [found[node.outputs[0]] for node in graph.nodes if node.op == "DequantizeLinear"]
    others += [found[node.outputs[0]] for node in graph.nodes if node.op == "QuantizeLinear"]
    assert {(each.reason, each.change) for each in others} == {(f"on the accelerator it must {CONVERTS}", "")}


@pytest.mark.parametrize("dtype", ["int64", "bool", "float32"])
def test_only_floats_are_to_be_quantised(dtype):
    types = dict.fromkeys(("x", "y"), TensorType(dtype, (4, 4)))
    graph = check_graph(Graph("g", ("x",), ("y",), (Node("Add", ("x", "x"), ("y",)),), {}, types))
    found = decisions(graph).decisions["y"]
    if dtype == "float32":
        wanted = ("be quantised", "quantisation, as with --calibration FILE")
    else:
        wanted = (f"compute in 8-bit integers, got {dtype}", "")
    assert (found.reason.removeprefix("on the accelerator it must "), found.change) == wanted


def test_figures_are_those_of_the_cpu_that_runs_the_rest():
    assert modelled_cpu(CONFIG, "cortex-a53") is CPU_MODELS["cortex-a53"]
    assert modelled_cpu(CONFIG, "cortex-a9") is board_cpu(CONFIG)
    assert modelled_cpu(CONFIG, "znver4") == replace(board_cpu(CONFIG), name="the board's cortex-a9")


def test_transposed_convolutions_of_groups_stay():
    weights = {"w": np.ones((16, 8, 1, 1), np.int8), "b": np.zeros(16, np.int32)}
    options = {**RESULTS, **WINDOW, "group": 2, "output_padding": (0, 0)}
    node = Node("vdla.QConvTranspose", ("x", "w", "b"), ("y",), options)
    graph = graph_of(node)
    types = {**graph.types, "w": TensorType("int8", (16, 8, 1, 1))}
    decision = decisions(graph.replace(constants=weights, types=types)).decisions["y"]
    wanted = "on the accelerator it must fit a template; conv2d_transpose: groups must be 1, got 2"
    assert decision.reason == wanted


def test_another_width_of_operands_is_a_reason():
    config = Config.preset("int4")
    decision = decisions(graph_of(conv("x", "y")), config=config).decisions["y"]
    assert decision.reason == "on the accelerator it must have the machine's activations, int4, got int8"


def test_the_host_lays_out_the_windows_of_an_image_with_few_channels():
    node = conv("x", "y", strides=(2, 2), pads=(1, 1, 1, 1), x_zero_point=3)
    shapes = {"x": (1, 3, 32, 32), "y": (1, 16, 16, 16)}
    constants = {"w": np.ones((16, 3, 3, 3), np.int8), "b": np.zeros(16, np.int32)}
    types = {name: TensorType("int8", shape) for name, shape in shapes.items()}
    types |= {name: TensorType(str(value.dtype), value.shape) for name, value in constants.items()}
    graph = partitioned(check_graph(Graph("g", ("x",), ("y",), (node,), constants, types)))
    assert operators_of(graph)[0] == "vdla.PackPatches"
    first = graph.nodes[0]
    assert (first.attributes["kernel_shape"], first.attributes["padding"]) == ((3, 3), 3)
    assert graph.tensor(first.outputs[0]).extents == (1, 2, 16, 16, 1, 16)

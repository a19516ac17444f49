# SPDX-License-Identifier: Apache-2.0
"""Estimates of operators on the accelerator against the cycles of their programs."""

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.graph.accelerator import board_cpu, candidates, choose
from vdla.compiler.graph.accelerator.cost import PROGRAM_SECONDS, handover_seconds
from vdla.hardware.config import Config
from vdla.simulator.timing import time_program

RESULTS = {"multiplier": np.array([1 << 23]), "shift": np.array([33]), "y_zero_point": 0, "low": -128, "high": 127}


def graph_of(op, shape, result, *constants, **options):
    """A node that reads an image `x` and constants of the given shapes."""
    arrays = {
        f"c{index}": np.ones(each, np.int8 if len(each) > 1 else np.int32) for index, each in enumerate(constants)
    }
    inputs = ("x", "x") if op == "QAdd" else ("x", *arrays)
    node = Node(f"vdla.{op}", inputs, ("y",), {**RESULTS, **options}, "y")
    types = {"x": TensorType("int8", shape), "y": TensorType("int8", result)}
    types |= {name: TensorType(array.dtype.name, array.shape) for name, array in arrays.items()}
    return check_graph(Graph("g", ("x",), ("y",), (node,), arrays, types))


def window(rank, pad=0, stride=1):
    return {"strides": (stride,) * rank, "pads": (pad,) * 2 * rank, "dilations": (1,) * rank, "x_zero_point": 0}


def conv(shape, outputs, kernel, group=1, stride=1):
    """A convolution with pads that keep the extents, over the stride."""
    rank, (count, channels, *size) = len(shape) - 2, shape
    result = (count, outputs, *(-(-extent // stride) for extent in size))
    constants = ((outputs, channels // group, *(kernel,) * rank), (outputs,))
    return graph_of("QConv", shape, result, *constants, **window(rank, kernel // 2, stride), group=group)


def pool(op, shape, kernel, **options):
    """A pool of windows that do not overlap."""
    rank, (count, channels, *size) = len(shape) - 2, shape
    result = (count, channels, *(extent // kernel for extent in size))
    return graph_of(op, shape, result, **window(rank, 0, kernel), kernel_shape=(kernel,) * rank, **options)


ZEROS = {"a_zero_point": 0, "b_zero_point": 0, "factors": (1, 1)}
LAYERS = {
    "depthwise": conv((1, 96, 28, 28), 96, 3, group=96),
    "depthwise with strides": conv((1, 32, 56, 56), 32, 3, group=32, stride=2),
    "depthwise of a signal": conv((1, 32, 600), 32, 9, group=32),
    "signal": conv((1, 32, 500), 64, 5),
    "signal of few channels": conv((1, 2, 2000), 32, 9),
    "image": conv((1, 32, 28, 28), 48, 3),
    "image of few channels": conv((1, 3, 64, 64), 16, 3),
    "one tap": conv((1, 96, 28, 28), 24, 1),
    "groups": conv((1, 64, 28, 28), 64, 3, group=4),
    "maxima": pool("QMaxPool", (1, 64, 56, 56), 2),
    "maxima of a signal": pool("QMaxPool", (1, 32, 2000), 4),
    "averages": pool("QAveragePool", (1, 32, 42, 42), 3, count_include_pad=1),
    "sum": graph_of("QAdd", (1, 64, 40, 40), (1, 64, 40, 40), **ZEROS),
    "rescale": graph_of("QRescale", (1, 64, 40, 40), (1, 64, 40, 40), x_zero_point=0),
    "leaky": graph_of("QLeakyRelu", (1, 64, 40, 40), (1, 64, 40, 40), x_zero_point=0, factors=(100, 7)),
    "dense": graph_of("QDense", (1, 512), (1, 200), (200, 512), (200,), x_zero_point=0),
}
WIDE = {"sum": 0.2}
"""Errors of operators of the vector unit where it loads its operands itself."""


@pytest.mark.sampled
@pytest.mark.parametrize("preset", ["pynq_z1", "ultra96", "zcu104", "pynq_z1_512"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_estimate_is_within_a_tenth_of_the_cycles(name, preset):
    """And a layer runs where it takes less time by its exact cycles."""
    graph, config = LAYERS[name], Config.preset(preset)
    cpu, found = board_cpu(config), candidates(graph, config)
    decision, call = choose(graph, config, found, cpu).decisions["y"], found.calls["y"]
    exact = time_program(call.operator.program).total_cycles / (config.clock_mhz * 1e6)
    error = WIDE.get(name, 0.1) if preset == "pynq_z1_512" else 0.1
    assert decision.accelerator_seconds == pytest.approx(exact, rel=error)
    layouts = {*(layout for _, layout in call.inputs.values()), call.output}
    there = exact + sum(handover_seconds(layout, cpu) for layout in layouts) + PROGRAM_SECONDS
    if not 1 / 1.2 < there / decision.cpu_seconds < 1.2:
        assert decision.device == ("vdla" if there < decision.cpu_seconds else "cpu")


def test_a_depthwise_layer_goes_where_it_is_faster():
    """The vector unit has few products in a cycle; at the rate of the matrix unit it would pay."""
    graph, config = conv((1, 32, 112, 112), 32, 5, group=32), Config.preset("ultra96")
    found = candidates(graph, config)
    decision = choose(graph, config, found, board_cpu(config)).decisions["y"]
    cycles = time_program(found.calls["y"].operator.program).total_cycles
    assert decision.device == "cpu"
    assert cycles / (config.clock_mhz * 1e6) > 1.2 * decision.cpu_seconds

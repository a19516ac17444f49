# SPDX-License-Identifier: Apache-2.0
"""The least cycles of regions: those of single layers, and below those of programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.integer_layers import LAYERS, IntegerLayers

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator.least_work import least_cycles_of, least_steps
from vdla.compiler.operators.least_cycles import LeastCycles, least_cycles
from vdla.compiler.operators.workloads import SELF_TEST, Workload
from vdla.hardware.config import Config
from vdla.runtime.network.compile_network import compile_network

TINY = Config.preset("tiny")


def convolution(layer: Workload) -> tuple[Graph, Node]:
    """A layer as a node of a graph."""
    inner = 1 if layer.operator == "depthwise_conv2d" else layer.in_channels
    types = {
        "x": TensorType("int8", (layer.batch, layer.in_channels, layer.height, layer.width)),
        "w": TensorType("int8", (layer.out_channels, inner, layer.kernel, layer.kernel)),
        "b": TensorType("int32", (layer.out_channels,)),
        "y": TensorType("int8", (layer.batch, layer.out_channels, layer.out_height, layer.out_width)),
    }
    window = {"strides": (layer.strides,) * 2, "pads": (layer.pads,) * 4, "dilations": (1, 1)}
    numbers = {"x_zero_point": 0, "y_zero_point": 0, "low": -128, "high": 127}
    scale = {"multiplier": np.array([1 << 30]), "shift": np.array([40])}
    node = Node(
        "vdla.QConv", ("x", "w", "b"), ("y",), {**window, **numbers, **scale, "group": layer.in_channels // inner}
    )
    return Graph("g", ("x", "w", "b"), ("y",), (node,), {}, types), node


@pytest.mark.parametrize("fields", [
    {}, {"kernel": 1, "pads": 0, "strides": 2}, {"height": 5, "width": 7, "pads": 2, "kernel": 5},
    {"operator": "depthwise_conv2d", "out_channels": 20}, {"batch": 3, "in_channels": 6},
])  # fmt: skip
def test_steps_of_a_convolution_are_those_of_a_single_layer(fields: dict[str, int]) -> None:
    layer = replace(SELF_TEST, **fields)
    graph, node = convolution(layer)
    known = least_cycles(layer, TINY, raw=False)
    depthwise = layer.operator == "depthwise_conv2d"
    made = LeastCycles.of(TINY, least_steps(graph, node, TINY), 0, 0, operands=1 if depthwise else 2)
    assert made.compute == known.compute


@pytest.mark.parametrize("kind", sorted(LAYERS))
def test_no_program_is_below_the_least_cycles_of_its_operators(kind: str) -> None:
    layers = IntegerLayers(5, (1, 6, 5, 6))
    layers.layer("conv")
    layers.layer(kind)
    graph = layers.graph()
    model = compile_network(graph, "tiny", place={node.outputs[0]: "vdla" for node in graph.nodes}, certify=False)
    placed = [step.placement for step in model.artifact.plan.steps if step.placement.cycles]
    assert placed
    for one in placed:
        assert 0 < one.least_cycles <= one.cycles
        assert all(operator.least_cycles <= operator.cycles for operator in one.operators if operator.cycles)
    assert any(operator.least_cycles for one in placed for operator in one.operators)


def test_what_an_extension_computes_has_no_least_steps() -> None:
    graph, _ = convolution(SELF_TEST)
    bounds = [least_cycles_of(graph, TINY, free) for free in ((), ("y",))]
    assert bounds[1].compute < bounds[0].compute
    assert bounds[1].reads == bounds[0].reads

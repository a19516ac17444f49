# SPDX-License-Identifier: Apache-2.0
"""Graphs with regions of the accelerator: regions by the simulator, other nodes by NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vdla.compiler.graph import Graph
from vdla.compiler.graph.accelerator import ACCELERATED, REGION, AcceleratedRegion
from vdla.runtime.network.evaluate_nodes import evaluate_node
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import verify

Array = np.ndarray[Any, Any]


def run_accelerated(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a partitioned graph."""
    state: dict[str, Array] = {**graph.constants, **inputs}
    for node in graph.nodes:
        if node.op == ACCELERATED:
            state |= _run_region(node.attributes[REGION], state)
        else:
            results = evaluate_node(node, [state[name] for name in node.inputs], prefer="numpy")
            state |= dict(zip(node.outputs, results, strict=True))
    return {name: state[name] for name in graph.outputs}


def _run_region(region: AcceleratedRegion, state: Mapping[str, Array]) -> dict[str, Array]:
    """The packed results of a region."""
    program = region.chain.program
    verify(program).raise_if_bad()
    shapes = {tensor.name: tensor.shape for tensor in program.tensors}
    given = {tensor: state[value].reshape(shapes[tensor]) for value, tensor in region.inputs.items()}
    outputs = simulate(program, {**given, **region.constants}).outputs
    return {value: outputs[tensor] for value, tensor in region.outputs.items()}

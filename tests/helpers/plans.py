# SPDX-License-Identifier: Apache-2.0
"""A small artifact by hand: y = relu(x @ w) in a kernel, then a NumPy step."""

from __future__ import annotations

from functools import cache

import numpy as np

from helpers.graphs import small_graph
from vdla.compiler.graph import Node
from vdla.compiler.graph.passes import run_passes
from vdla.compiler.graph.passes.fusion import fuse
from vdla.compiler.target import Target
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.network.build import build_artifact
from vdla.runtime.network.evaluate_nodes import PREPARATION

WEIGHT = np.arange(9, dtype=np.float32).reshape(3, 3) - 4
NODES = (
    Node("MatMul", ("x", "w"), ("a",)),
    Node("Relu", ("a",), ("b",)),
    Node("MatMul", ("b", "w"), ("c",)),
    Node("Neg", ("c",), ("y",)),
)


@cache
def small_artifact() -> Artifact:
    """Two kernels in a row, one constant."""
    graph = fuse(run_passes(small_graph(NODES, w=WEIGHT), PREPARATION))
    return build_artifact(graph, Target.named("host"), origin={"source": "small"})


def expected(x: np.ndarray) -> np.ndarray:
    """The result of the network in NumPy."""
    return -(np.maximum(x @ WEIGHT, 0) @ WEIGHT)

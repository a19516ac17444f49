# SPDX-License-Identifier: Apache-2.0
"""The nodes of a network on a GPU: which can run on it, which do, and the kernels that they form.

A node whose kernel turns out to be impossible to generate goes to the CPU, and the others are
placed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED, CpuModel, Decision
from vdla.compiler.graph.grid import GPU_MODEL, GRID, group_for_grid, place_on_grid
from vdla.compiler.graph.groups import BODY
from vdla.compiler.graph.operators import has_expression
from vdla.compiler.ir import DTYPES
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.network.kernels import GridKernelTable
from vdla.support.errors import Error


@dataclass(frozen=True, slots=True)
class GridChoices:
    """How the GPU of a network is used: its kernels, the CPU beside it, named places.

    Without `cpu`, the GPU runs all that it can.
    """

    kernels: GridKernelTable
    cpu: CpuModel | None
    forced: Mapping[str, str]

    def decisions(self, graph: Graph) -> Mapping[str, Decision]:
        """Where the nodes of a graph would run, by first results, if there was no other device."""
        return place_on_grid(graph, self._reasons(graph, None), GPU_MODEL, self.cpu, self.forced).decisions

    def place(self, graph: Graph, names: Set[str] | None = None) -> tuple[Graph, Mapping[str, Decision]]:
        """The graph with the kernels of the GPU as nodes, and the decisions by first results.

        `names` are the first results of the nodes that may run on the GPU, by default all.

        Raises:
            ModelError: a node that was named for the GPU and cannot run on it.
        """
        reasons = self._reasons(graph, names)
        while True:
            choice = place_on_grid(graph, reasons, GPU_MODEL, self.cpu, self.forced)
            grouped = group_for_grid(graph, choice.on_grid)
            failures = self._failures(grouped)
            if not failures:
                break
            reasons |= failures
        self._check(graph, reasons)
        return grouped, choice.decisions

    def _failures(self, grouped: Graph) -> dict[str, str]:
        """Why groups have no kernel, for each of their nodes."""
        result: dict[str, str] = {}
        for node in grouped.nodes:
            if node.op != GRID:
                continue
            try:
                self.kernels.add(node.attributes[BODY])
            except Error as error:
                why = f"have a kernel, got {str(error).splitlines()[0]}"
                result |= {inner.outputs[0]: why for inner in node.attributes[BODY].nodes}
        return result

    def _check(self, graph: Graph, reasons: Mapping[str, str]) -> None:
        """Refuse nodes that were named for the GPU and cannot run on it."""
        for node in graph.nodes:
            if "gpu" in (self.forced.get(node.name), self.forced.get(node.outputs[0])) and node.outputs[0] in reasons:
                raise ModelError(f"compile: on the GPU {node.label} must {reasons[node.outputs[0]]}")

    def _reasons(self, graph: Graph, names: Set[str] | None) -> dict[str, str]:
        """Why nodes cannot run on the GPU, by first result; reads after "must"."""
        result = {}
        for node in graph.nodes:
            why = self._reason(graph, node, names)
            if why is not None:
                result[node.outputs[0]] = why
        return result

    def _reason(self, graph: Graph, node: Node, names: Set[str] | None) -> str | None:
        if node.op == ACCELERATED or (names is not None and node.outputs[0] not in names):
            return "be an operator of the model"
        if not has_expression(node.op) or node.bodies:
            return "have a tensor expression"
        for name in filter(None, (*node.inputs, *node.outputs)):
            kind = graph.types.get(name)
            if not isinstance(kind, TensorType) or not kind.static or 0 in kind.extents:
                return f"have known extents from 1, got {name} of {kind}"
            if kind.dtype not in DTYPES or not self.kernels.device.supports(kind.dtype):
                return f"have element types of the device, got {kind.dtype}"
        if all(name in graph.constants for name in node.inputs if name):
            return "read a value that is computed"
        return None

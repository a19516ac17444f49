# SPDX-License-Identifier: Apache-2.0
"""Regions: nodes that run on the accelerator as one program, whose inner values stay packed.

A region is one node of the graph, `vdla.Accelerated`, between nodes that pack its inputs and unpack
its outputs. No path leaves a region and returns to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from vdla.compiler.graph.attributes import declare_attributes
from vdla.compiler.graph.graph import Array, Graph, Node
from vdla.compiler.graph.groups import BODY
from vdla.compiler.graph.machine.call import OperatorCall
from vdla.compiler.operators.vdla import Chain, ChainStep
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.hardware.config import Config

ACCELERATED = "vdla.Accelerated"
REGION = "region"


@dataclass(frozen=True, eq=False)
class AcceleratedRegion:
    """Operators in order, each with its node and the graph's values of its activations.

    `inputs` and `outputs` map packed values of the graph to tensors of the program.
    """

    name: str
    config: Config
    calls: tuple[tuple[Node, OperatorCall, Mapping[str, str]], ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @cached_property
    def chain(self) -> Chain:
        """The operators as one program."""
        steps = [self._step(index, *step) for index, step in self._steps.items()]
        return Chain(self.config, self.name, steps, tuple(self.outputs.values()), self._joined)

    @cached_property
    def _steps(self) -> dict[int, tuple[OperatorCall, str]]:
        """The calls with a program, and the value that each computes, by index.

        A table that only one operator of the region looks its results up in is part of its program.
        """
        places = {node.outputs[0]: index for index, (node, _, _) in enumerate(self.calls)}
        steps: dict[int, tuple[OperatorCall, str]] = {}
        for index, (node, call, sources) in enumerate(self.calls):
            maker = places.get(next(iter(sources.values()), ""))
            if call.with_maker is not None and maker is not None:
                steps[maker] = call.with_maker, node.outputs[0]
            elif call.operator is not None:
                steps[index] = call, node.outputs[0]
        return steps

    @property
    def _joined(self) -> dict[str, tuple[str, ...]]:
        """The parts of the tensors that are joined without an operator."""
        return {
            self.tensor(node.outputs[0]): tuple(map(self.tensor, sources.values()))
            for node, call, sources in self.calls
            if call.operator is None
        }

    @property
    def offsets(self) -> dict[str, str]:
        """The values of the graph that say where the parts of tensors are that stay on the machine,
        by the program's tensors.
        """
        return {call.kept[part]: value for _, call, _ in self.calls for part, value in call.offsets.items()}

    @property
    def operands(self) -> tuple[str, ...]:
        """The values of the graph that the node of the region reads, in order."""
        return tuple(dict.fromkeys((*self.inputs, *self.offsets.values())))

    @property
    def lines(self) -> tuple[int, ...]:
        """The number of the program's source lines that belong to each node."""
        lines = dict(zip(self._steps, self.chain.lines, strict=True))
        return tuple(lines.get(index, 0) for index in range(len(self.calls)))

    @property
    def constants(self) -> dict[str, Array]:
        """The packed weights, scales and tables by the program's tensors."""
        return {
            step.tensor(parameter): array
            for step, (call, _) in zip(self.chain.steps, self._steps.values(), strict=True)
            for parameter, array in call.constants.items()
        }

    def _step(self, index: int, call: OperatorCall, result: str) -> ChainStep:
        assert call.operator is not None
        tensors = {parameter: self.tensor(value) for parameter, value in self.calls[index][2].items()}
        return ChainStep(f"s{index}", call.operator, {**tensors, **call.kept, OUTPUT: self.tensor(result)})

    def tensor(self, value: str) -> str:
        """The program's tensor of an activation."""
        return self._tensors[value]

    @cached_property
    def _tensors(self) -> dict[str, str]:
        values = (name for node, _, sources in self.calls for name in (*sources.values(), node.outputs[0]))
        return {value: f"v{index}" for index, value in enumerate(dict.fromkeys(values))}

    def __str__(self) -> str:
        return f"{len(self.calls)} operators"


declare_attributes(ACCELERATED, {REGION: AcceleratedRegion, BODY: Graph})


def with_named_inputs(graph: Graph) -> Graph:
    """The graph in which each region reads its inputs under their names: passes may have found that
    what is packed for one is another value as it is.
    """
    nodes, types, known = list[Node](), dict(graph.types), {*graph.producers, *graph.constants, *graph.inputs}
    for node in graph.nodes:
        if node.op != ACCELERATED:
            nodes.append(node)
            continue
        region: AcceleratedRegion = node.attributes[REGION]
        names = tuple(dict.fromkeys((*region.inputs, *region.offsets.values())))
        for source, name in zip(node.inputs, names, strict=True):
            if name not in known:
                nodes.append(Node("Identity", (source,), (name,)))
                types[name] = types[source]
                known.add(name)
        nodes.append(replace(node, inputs=names))
    return graph.replace(nodes=tuple(nodes), types=types)

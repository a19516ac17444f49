# SPDX-License-Identifier: Apache-2.0
"""What the program of a region must compute: the integer operators of its nodes, on plain values.

Values that other devices or regions compute are inputs here, whatever they are. Results of another
region are inputs in their packed form, since its program writes anything where blocks have gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vdla.compiler.graph.accelerator.partition import Regions, packed_name, without_scattered_joins
from vdla.compiler.graph.accelerator.region import ACCELERATED, REGION, AcceleratedRegion
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.machine.call import OperatorCall
from vdla.compiler.graph.machine.factor_layout import FactorLayout
from vdla.compiler.graph.machine.packing import PackedLayout
from vdla.compiler.graph.machine.row_results import RowResults
from vdla.compiler.graph.rewriting import Replacement
from vdla.compiler.graph.topology import in_order
from vdla.hardware.config import Config


@dataclass(frozen=True, eq=False)
class RegionExpression:
    """The expression of one region.

    `plain` computes the results of all nodes, and the packed inputs of the program; `packing` maps
    these to tensors of the program. `unpacked` computes the results that the region hands on from
    its packed outputs, which `outputs` maps to tensors of the program. `results` are those of all
    nodes, in order.
    """

    name: str
    plain: Graph
    packing: Mapping[str, str]
    unpacked: Graph
    outputs: Mapping[str, str]
    results: tuple[str, ...]

    @property
    def bindings(self) -> dict[str, str]:
        """The values of the network in the activations of the program, by tensor."""
        return {tensor: name for name, tensor in (*self.packing.items(), *self.outputs.items())}


def region_expressions(
    graph: Graph, config: Config, calls: Mapping[str, OperatorCall], partitioned: Graph
) -> tuple[RegionExpression, ...]:
    """The expressions of the regions of `partition(graph, config, calls)`."""
    regions = Regions(graph, config, without_scattered_joins(graph, config, calls))
    made = (node.attributes[REGION] for node in partitioned.nodes if node.op == ACCELERATED)
    return tuple(_Building(regions, region).expression() for region in made)


class _Building:
    """The nodes of one expression, collected from its results to its inputs."""

    def __init__(self, regions: Regions, region: AcceleratedRegion) -> None:
        self.regions, self.region, self.graph = regions, region, regions.graph
        self.inside = {node.outputs[0] for node, _, _ in region.calls}
        self.inputs: dict[str, None] = {}
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, ValueType] = {}
        self._known: set[str] = set()

    def expression(self) -> RegionExpression:
        """The expression."""
        packing = {name: tensor for name, tensor in self.region.inputs.items() if self._pack(name)}
        for node, _, _ in self.region.calls:
            self._add_node(node)
        results = tuple(node.outputs[0] for node, _, _ in self.region.calls)
        plain = Graph(
            self.region.name, tuple(self.inputs), (*packing, *results), in_order(self.nodes), self.constants, self.types
        )
        name = f"region {self.region.name.removeprefix('region')}"
        return RegionExpression(name, plain, packing, self._unpacked(results), self.region.outputs, results)

    def _pack(self, name: str) -> bool:
        """Add what makes an input of the program; its layout is that of any of its readers."""
        for _, call, sources in self.region.calls:
            for parameter, (value, layout) in call.inputs.items():
                if sources[parameter] != name:
                    continue
                self._need(value)
                if self.regions.is_packed(value, layout):
                    self._need(self.regions.root(value))
                else:
                    self._add(layout.pack(value, name, self.graph.tensor(value).dtype))
                return True
        return False

    def _need(self, value: str) -> None:
        """Add what makes a value, up to inputs; views are made of what they are views of."""
        if not value or value in self._known:
            return
        self._known.add(value)
        self.types[value] = self.graph.types[value]
        if value in self.graph.constants:
            self.constants[value] = self.graph.constants[value]
        elif value in self.inside:
            return
        elif (layout := self._packed_elsewhere(value)) is not None:
            self._add_input(packed_name(value), layout, value)
            self._add(layout.unpack(packed_name(value), value, self.graph.tensor(value).dtype))
        elif self._is_view(value):
            self._add_node(self.graph.producers[value])
        else:
            self.inputs[value] = None

    def _packed_elsewhere(self, value: str) -> PackedLayout | FactorLayout | RowResults | None:
        """The layout in which another region, or a table behind one, hands a value on."""
        call = self.regions.calls.get(value)
        return call.output if call is not None else self.regions.packed_tables.get(value)

    def _is_view(self, value: str) -> bool:
        views = self.regions.views
        return value in views.plain or value in views.heads or value in views.between

    def _add_input(self, name: str, layout: PackedLayout | FactorLayout | RowResults, value: str) -> None:
        self.inputs[name] = None
        self.types[name] = TensorType(layout.stored(self.graph.tensor(value).dtype), layout.packed_shape)

    def _add_node(self, node: Node) -> None:
        for name in filter(None, node.inputs):
            self._need(name)
        self.types |= {name: self.graph.types[name] for name in node.outputs if name}
        self.nodes.append(node)

    def _add(self, made: Replacement) -> None:
        self.nodes += made.nodes
        self.constants |= made.constants
        self.types |= made.types

    def _unpacked(self, results: Sequence[str]) -> Graph:
        """The graph from outputs of the program to those results that the region hands on."""
        nodes: list[Node] = []
        constants: dict[str, Array] = {}
        types: dict[str, ValueType] = {}
        packed: list[str] = []
        handed_on = [value for value in results if packed_name(value) in self.region.outputs]
        for value in handed_on:
            layout, name, dtype = self.regions.calls[value].output, packed_name(value), self.graph.tensor(value).dtype
            made = layout.unpack(name, value, dtype)
            packed.append(name)
            types[name] = TensorType(layout.stored(dtype), layout.packed_shape)
            nodes += made.nodes
            constants |= made.constants
            types |= made.types
        return Graph(self.region.name, tuple(packed), tuple(handed_on), tuple(nodes), constants, types)

# SPDX-License-Identifier: Apache-2.0
"""Partitioning: which nodes run on the accelerator, and the regions that they form.

The region number of a node is one more than that of the nodes it depends on through other devices:
regions are as few as possible, and no path leaves a region and returns to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace

from vdla.compiler.graph.accelerator.operator_call import operator_call
from vdla.compiler.graph.accelerator.region import ACCELERATED, REGION, AcceleratedRegion
from vdla.compiler.graph.accelerator.views import Views
from vdla.compiler.graph.graph import Array, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.groups import BODY, fused_node
from vdla.compiler.graph.machine.call import MachineNode, NotAcceleratedError, OperatorCall
from vdla.compiler.graph.machine.calls import looked_up
from vdla.compiler.graph.machine.factor_layout import FactorLayout
from vdla.compiler.graph.machine.packing import InputLayout, PackedLayout
from vdla.compiler.graph.machine.row_results import RowResults
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.passes import explain_fusion
from vdla.compiler.graph.rewriting import Replacement, without_dead_code
from vdla.compiler.graph.topology import in_order
from vdla.compiler.operators.vdla.operator import shared_operators
from vdla.hardware.config import Config


@dataclass(frozen=True, eq=False)
class AcceleratorCandidates:
    """The nodes that the accelerator can run, and for each of the others the reason.

    Both are by the name of the node's first result, and so are the reasons why no instruction of
    an extension runs a node, on a machine with extensions: what it must do.
    """

    calls: Mapping[str, OperatorCall]
    reasons: Mapping[str, str]
    no_extension: Mapping[str, str] = field(default_factory=dict)


BetterCall = Callable[[MachineNode, OperatorCall | None], OperatorCall | str]
"""A call of a node by instructions of extensions if it takes less than that of a template, else
the reason why there is none.
"""


def candidates(graph: Graph, config: Config, better: BetterCall | None = None) -> AcceleratorCandidates:
    """The accelerator call of every node that has one; equal operators share an object.

    `better` gives calls in place of those of templates.
    """
    with shared_operators():
        return _candidates(graph, config, better)


def _candidates(graph: Graph, config: Config, better: BetterCall | None) -> AcceleratorCandidates:
    calls: dict[str, OperatorCall] = {}
    reasons: dict[str, str] = {}
    no_extension: dict[str, str] = {}
    moved = {node.outputs[0] for node in graph.nodes if has_trait(node.op, Trait.MOVEMENT)}
    unfused = {name: why for name, why in explain_fusion(graph).reasons.items() if name not in moved}
    made: dict[str, PackedLayout] = {}
    for node in graph.nodes:
        call: OperatorCall | None = None
        try:
            call = operator_call(graph, node, config, made)
        except NotAcceleratedError as error:
            reasons[node.outputs[0]] = f"on the accelerator it must {unfused.get(node.outputs[0], error)}"
        given = None if better is None else better(MachineNode(graph, node, config, made), call)
        if isinstance(given, str):
            no_extension |= {node.outputs[0]: given} if given else {}
        elif given is not None:
            call = given
        if call is not None:
            calls[node.outputs[0]] = call = _with_maker(graph, node, calls, call)
            if isinstance(call.output, PackedLayout):
                made[node.outputs[0]] = call.output
    refused = {name: why for name, why in reasons.items() if name not in calls}
    return AcceleratorCandidates(calls, refused, no_extension)


def _with_maker(graph: Graph, node: Node, calls: Mapping[str, OperatorCall], call: OperatorCall) -> OperatorCall:
    """The call of a table, perhaps as the way out of the operator that makes its operand."""
    operand = node.inputs[0]
    if node.op != "vdla.QTable" or operand not in calls or graph.readers(operand) != 1:
        return call
    return replace(call, with_maker=looked_up(calls[operand], node.attributes["table"]))


def partition(graph: Graph, config: Config, calls: Mapping[str, OperatorCall]) -> Graph:
    """The graph with the nodes of `calls` in regions of the accelerator, packed and unpacked."""
    building = Regions(graph, config, without_scattered_joins(graph, config, calls))
    return without_dead_code(building.graph_of_regions())


SCATTERED = "join operands that only its region reads and no other concatenation joins"
"""The rule of a concatenation that costs nothing; reads after "must"."""


def without_scattered_joins(
    graph: Graph, config: Config, calls: Mapping[str, OperatorCall]
) -> Mapping[str, OperatorCall]:
    """The operators without the concatenations whose operands cannot be computed in place."""
    while True:
        regions = Regions(graph, config, calls)
        scattered = {name for name, call in calls.items() if call.operator is None and not regions.joins(name)}
        if not scattered:
            return calls
        calls = {name: call for name, call in calls.items() if name not in scattered}


@dataclass
class Regions:
    """The regions of the operators in `calls`; `level` has the region number of each value.

    `packed_tables` has the layouts of results that the host looks up in packed tensors, between two
    regions.
    """

    graph: Graph
    config: Config
    calls: Mapping[str, OperatorCall]
    level: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.views = Views.of(self.graph)
        self.packed_tables = {n.outputs[0]: self._kept(n) for n in self.graph.nodes if self._keeps(n)}
        self.packed: dict[tuple[str, InputLayout], str] = {}  # inputs of regions, each packed once for all of them
        for node in self.graph.nodes:
            level = self._level(node)
            self.level.update((name, level) for name in node.outputs if name)
        for node in reversed(self.graph.nodes):
            self._delay_parts(node)

    def _kept(self, node: Node) -> PackedLayout:
        output = self.calls[node.inputs[0]].output
        assert isinstance(output, PackedLayout), "a table has an operand of 8 bits"
        return output

    def _keeps(self, node: Node) -> bool:
        """Whether the host looks up a result of the accelerator in its packed form."""
        result, producer = node.outputs[0], self.calls.get(node.inputs[0]) if node.inputs else None
        if node.op != "vdla.QTable" or result in self.calls or producer is None or producer.output.conversion:
            return False
        readers = (self.calls.get(reader.outputs[0]) for reader in self.graph.consumers.get(result, ()))
        reads = (item for call in readers if call is not None for item in call.inputs.values())
        return any(value == result and producer.output.same_bytes(layout) for value, layout in reads)

    def _delay_parts(self, node: Node) -> None:
        """Move an operator that one concatenation reads to its region, to compute in place."""
        call = self.calls.get(node.outputs[0])
        if call is None or call.operator is not None:
            return
        for name in node.inputs:
            if name in self.calls and self.graph.readers(name) == 1:
                self.level[name] = self.level[node.outputs[0]]

    def _level(self, node: Node) -> int:
        """The region of a node on the accelerator; for other nodes the last region that they depend
        on.
        """
        call = self.calls.get(node.outputs[0])
        if call is None:
            return max((self.level.get(name, 0) for name in node.inputs if name), default=0)
        offsets = [self.level.get(value, 0) + 1 for value in call.offsets.values()]
        return max([1, *offsets, *(self._after(value, layout) for value, layout in call.inputs.values())])

    def _after(self, value: str, layout: InputLayout) -> int:
        """The first region that can read a value."""
        level = self.level.get(value, 0)
        here = self.root(value) in self.calls and self.is_packed(value, layout)
        return level if here else level + 1

    def root(self, value: str) -> str:
        """The value that a value is a view of."""
        return self.views.root(value)

    def is_packed(self, value: str, layout: InputLayout) -> bool:
        """Whether the accelerator, or a table on the host, computes a value in a layout."""
        root = self.root(value)
        call = self.calls.get(root)
        output = self.packed_tables.get(root) if call is None else call.output
        if output is None:
            return False
        return output.same_heads(layout) if value in self.views.heads else output.same_bytes(layout)

    def joins(self, name: str) -> bool:
        """Whether the region of a concatenation computes its operands in place."""
        level = self.level[name]
        return all(
            value in self.calls
            and self.level[value] == level
            and self.is_packed(value, layout)
            and not self._read_outside(value, level)
            and self._joined(value) == 1
            for value, layout in self.calls[name].inputs.values()
        )

    def _joined(self, value: str) -> int:
        """The number of concatenations on the accelerator that read a value."""
        calls = (self.calls.get(reader.outputs[0]) for reader in self.graph.consumers.get(value, ()))
        return sum(call is not None and call.operator is None for call in calls)

    def read_by_host(self, value: str) -> bool:
        """Whether a value is an output of the graph or read by an operator on unpacked tensors."""
        readers = [node for node in self.graph.consumers.get(value, ()) if not self._reads_packed(node)]
        views = [self.views.of_node(node, value) for node in readers]
        return value in self.graph.outputs or any(view is None or self.read_by_host(view) for view in views)

    def _reads_packed(self, node: Node) -> bool:
        return node.outputs[0] in self.calls or node.outputs[0] in self.packed_tables

    # --- the new graph

    def graph_of_regions(self) -> Graph:
        """The graph with a node for each region."""
        members: dict[int, list[Node]] = {}
        host_nodes = []
        for node in self.graph.nodes:
            if node.outputs[0] in self.calls:
                members.setdefault(self.level[node.outputs[0]], []).append(node)
            else:
                host_nodes.append(node)
        made = [self._region(number, nodes) for number, nodes in members.items()]
        made += [self._packed_table(node) for node in host_nodes if node.outputs[0] in self.packed_tables]
        host_nodes = [node for node in host_nodes if node.outputs[0] not in self.packed_tables]
        nodes = [*host_nodes, *(node for region in made for node in region.nodes)]
        constants = dict(self.graph.constants)
        types = dict(self.graph.types)
        for region in made:
            constants.update(region.constants)
            types.update(region.types)
        return self.graph.replace(nodes=in_order(nodes), constants=constants, types=types)

    def _packed_table(self, node: Node) -> Replacement:
        """The look-up of a packed tensor, and what unpacks the result for other nodes."""
        (operand,), (result,) = node.inputs, node.outputs
        around = _Around(self)
        around.output(result, self.packed_tables[result])
        name = node.name or result
        table = replace(node, inputs=(packed_name(operand),), outputs=(packed_name(result),), name=name)
        return Replacement((table, *around.after), around.constants, around.types)

    def _region(self, number: int, nodes: list[Node]) -> Replacement:
        """The node of a region, and the nodes that pack and unpack."""
        inside, around = {node.outputs[0] for node in nodes}, _Around(self)
        calls = []
        for node in nodes:
            call = self.calls[node.outputs[0]]
            sources = {p: around.input(value, layout, inside) for p, (value, layout) in call.inputs.items()}
            calls.append((node, call, sources))
        results = [node.outputs[0] for node in nodes if self._read_outside(node.outputs[0], number)]
        for value in results:
            around.output(value, self.calls[value].output)
        named = AcceleratedRegion(f"region{number}", self.config, tuple(calls), {}, {})
        region = replace(
            named,
            inputs={name: named.tensor(name) for name in around.inputs},
            outputs={packed_name(value): named.tensor(value) for value in results},
        )
        label = f"region {number}"
        body = fused_node(self.graph, nodes, label).attributes[BODY]
        attributes = {REGION: region, BODY: body}
        node = Node(ACCELERATED, region.operands, tuple(region.outputs), attributes, label)
        return Replacement((*around.before, node, *around.after), around.constants, around.types)

    def _read_outside(self, value: str, number: int) -> bool:
        """Whether a value is an output of the graph, or read by another device or region."""
        if value in self.graph.outputs:
            return True
        return any(self._is_outside(value, node, number) for node in self.graph.consumers.get(value, ()))

    def _is_outside(self, value: str, reader: Node, number: int) -> bool:
        result = reader.outputs[0]
        if result not in self.calls and (view := self.views.of_node(reader, value)) is not None:
            return self._read_outside(view, number)
        return result not in self.calls or self.level[result] != number


class _Around:
    """The nodes around a region; a value is packed once for each layout."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        self.inputs: list[str] = []
        self.before: list[Node] = []
        self.after: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.types: dict[str, ValueType] = {}

    def input(self, value: str, layout: InputLayout, inside: Set[str]) -> str:
        """The packed form of a value, unchanged if an operator of this region computes it."""
        root, made = self.regions.root(value), self.regions.is_packed(value, layout)
        if made and root in inside:
            return root
        name = packed_name(root) if made else self._packed(value, layout)
        if name not in self.inputs:
            self.inputs.append(name)
        return name

    def _packed(self, value: str, layout: InputLayout) -> str:
        """The packed form of a value, which the host packs once for all regions."""
        known, key = self.regions.packed, (value, layout)
        if key not in known:
            name = f"{packed_name(value)}.{layout.tag}"
            copies = sum(packed.startswith(name) for packed in known.values())
            known[key] = f"{name}_{copies}" if copies else name  # nodes of the first have names with a dot
            self._add(layout.pack(value, known[key], self._dtype(value)), self.before)
        return known[key]

    def output(self, value: str, layout: PackedLayout | FactorLayout | RowResults) -> None:
        """A result, packed, and the nodes that unpack it."""
        name, dtype = packed_name(value), self._dtype(value)
        self.types[name] = TensorType(layout.stored(dtype), layout.packed_shape)
        self._add(layout.unpack(name, value, dtype), self.after)

    def _dtype(self, value: str) -> str:
        return self.regions.graph.tensor(value).dtype

    def _add(self, made: Replacement, nodes: list[Node]) -> None:
        nodes.extend(made.nodes)
        self.constants.update(made.constants)
        self.types.update(made.types)


def packed_name(value: str) -> str:
    """The name of a value in the accelerator's layout."""
    return f"{value}.packed"

# SPDX-License-Identifier: Apache-2.0
"""Which layers of a network an extension's instructions run, in place of templates.

An author's program that is used is checked once against the definition of the operator, with the
weights of the first node that uses it. The call with the fewest seconds wins: exact cycles,
and what the host must pack because layouts differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.compiler.codegen.vdla import LoweringError, lift
from vdla.compiler.extensions import Extension, ExtensionError, LayerError, extension_of
from vdla.compiler.graph import Array, TensorType
from vdla.compiler.graph.accelerator import CpuModel, NotAcceleratedError, OperatorCall, seconds_of
from vdla.compiler.graph.accelerator.choose import milliseconds
from vdla.compiler.graph.accelerator.cost import PROGRAM_SECONDS, cpu_seconds, handover_seconds
from vdla.compiler.graph.machine.attention_call import CACHED_ATTENTION, cached_attention
from vdla.compiler.graph.machine.call import MachineNode, decline
from vdla.compiler.graph.machine.layer_call import OF_NUMBERS, ROW_REDUCTIONS, LayerCall, NodeLayer, layer_of
from vdla.compiler.graph.machine.packing import PackedLayout
from vdla.compiler.graph.passes import why_not_cached
from vdla.compiler.layer_programs import (
    WrittenProgram,
    channel_product,
    formulated,
    mapped_programs,
    weight_dtype,
    written_programs,
)
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.vdla import WrittenOperator
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.hardware.config import Config
from vdla.runtime.network.evaluate_nodes import Prefer, evaluate_node
from vdla.simulator.simulate import simulate
from vdla.simulator.verify import VerifyError

if TYPE_CHECKING:
    from vdla.runtime.network.build import ProgramTimer

_SEED = 0
_NODE_WEIGHTS = "int8"
"""The type of weights in graphs, whatever the machine reads."""


@dataclass
class PlugInChoice:
    """Gives the call of a node that the machine's extensions run faster."""

    config: Config
    time: ProgramTimer
    cpu: CpuModel

    def __post_init__(self) -> None:
        declared = [(extension_of(self.config, plug_in), plug_in) for plug_in in self.config.extensions]
        self._declared = [item for item, plug_in in declared if item.program is not None or not plug_in.states]
        self._written: dict[Any, WrittenProgram] = {}  # by extension and layer
        self._accepted: dict[tuple[Any, ...], bool] = {}  # by definition
        self._problems: dict[str, str] = {}  # of placing programs, by hash
        self._cycles: dict[Any, int] = {}
        self._checked: set[tuple[str, bool, str]] = set()
        self.offers: dict[str, list[LayerCall]] = {}  # of nodes that run by one of them, by result

    def __call__(self, at: MachineNode, template: OperatorCall | None) -> OperatorCall | str:
        """The call by extensions if there is one and `template` takes longer, else what the node
        must do; nothing of a node that no machine can run.
        """
        if at.node.op == CACHED_ATTENTION:
            return cached_attention(at, lambda program: self.time(program).total_cycles)
        if at.node.op == "vdla.QAttention":
            why = why_not_cached(at.graph, at.node, self.config, evaluate_node)
            return why or "have its cache on the machine, as decoders have"
        if not _is_of_integers(at):  # a node in floats, or one that moves data
            return ""
        try:
            offers = self._offered(at)
            while True:
                calls = [offer.call(self._cycles_of_layer(offer)) for offer in offers]
                offer, call = min(zip(offers, calls, strict=True), key=lambda pair: self._seconds(at, pair[1]))
                if template is not None:
                    self._require_faster(at, call, template)
                elif at.node.op in OF_NUMBERS:
                    self._require_faster_than_host(at, call)
                if self._is_right(offer):
                    self.offers[at.node.outputs[0]] = offers
                    return call
                offers = [replace(item, exact=True) if item is offer else item for item in offers]
        except NotAcceleratedError as error:
            return str(error)

    def alternatives(self, name: str, call: OperatorCall) -> list[OperatorCall]:
        """The calls of the node of a result that read the same bytes as `call`, one of them."""
        offers = [offer for offer in self.offers[name] if offer.inputs == call.inputs]
        return [offer.call(self._cycles_of_layer(offer)) for offer in offers]

    def is_right(self, name: str, call: OperatorCall) -> bool:
        """Whether one of the alternatives computes the operator of its node."""
        assert isinstance(call.operator, WrittenOperator)
        program = call.operator.program
        return all(self._is_right(offer) for offer in self.offers[name] if offer.program is program)

    def accepts(self, definition: Definition) -> bool:
        """Whether an author has a program of an operator that is no layer without one.

        Programs that fail at an operator that they may not know are none of it.
        """
        key = definition.name, *sorted(definition.options.items())
        if key not in self._accepted:
            self._accepted[key] = any(self._has_program(extension, definition) for extension in self._declared)
        return self._accepted[key]

    def _has_program(self, extension: Extension, definition: Definition) -> bool:
        try:
            return any(item.programs for item in written_programs([extension], definition, self.config))
        except ExtensionError:
            return False

    # --- offers

    def _offered(self, at: MachineNode) -> list[LayerCall]:
        """The programs of a node by extensions, and by the toolkit.

        Raises:
            NotAcceleratedError: there is none; the message has the first reason of each extension.
        """
        offers, reasons = list[LayerCall](), dict[str, list[str]]()
        for extension in self._declared:
            try:
                offers += self._offers_of(extension, at)
            except NotAcceleratedError as error:
                reasons.setdefault(str(error), []).append(extension.name)
        if any(extension.program is not None for extension in self._declared):
            offers += _channel_products(at)
        if not offers:
            alone = "run on a machine with an instruction that has programs of layers, or computes sums, got none"
            decline(_of_each(reasons) or alone)
        problems = [self._problem_of_placing(offer) for offer in offers]
        if all(problems):
            decline(f"have a program that can be placed among others, got {problems[0]}")
        return [offer for offer, problem in zip(offers, problems, strict=True) if not problem]

    def _offers_of(self, extension: Extension, at: MachineNode) -> list[LayerCall]:
        """The programs of a node by an extension, of its author or of the mapper.

        Raises:
            NotAcceleratedError: there is none, with the reason.
        """
        layer = self._layer(extension, at)
        made = tuple(map(at.made.get, layer.activations.values()))  # a mapping that reads them in place is tried
        key = extension.name, *layer.key, made, at.node.outputs[0] if layer.is_formulated else ""
        if key not in self._written:
            self._written[key] = self._programs_of(extension, layer)
        written = self._written[key]
        offers = [
            LayerCall(layer, given, label=written.label, extensions=(extension.name,), place=extension.place)
            for given in written.programs
        ]
        if not offers:
            decline(f"fit a program of an extension; {written.reason}")
        for offer in offers:
            offer.require_result()
        return offers

    def _layer(self, extension: Extension, at: MachineNode) -> NodeLayer:
        """The layer of a node as an extension has it."""
        if extension.formulation is None:
            return layer_of(at, "" if extension.program is not None else weight_dtype(extension))
        layer = layer_of(at, _NODE_WEIGHTS)
        try:
            return layer.formulated(formulated(extension, layer.facts, self.config))
        except LayerError as error:
            decline(f"have a formulation for {extension.name}; {error}")

    def _programs_of(self, extension: Extension, layer: NodeLayer) -> WrittenProgram:
        if extension.program is not None:
            return written_programs([extension], layer.definition, self.config)[0]
        return mapped_programs(extension, layer.definition.output, self.config, layer)

    def _problem_of_placing(self, offer: LayerCall) -> str:
        """Why a chain cannot place the program of an offer, which is safe; empty if it can."""
        self._cycles_of_layer(offer)
        key = offer.program.hash
        if key not in self._problems:
            try:
                lift(offer.program)
                self._problems[key] = ""
            except LoweringError as error:
                self._problems[key] = str(error)
        return self._problems[key]

    # --- costs

    def _cycles_of_layer(self, offer: LayerCall) -> int:
        key = offer.program.hash
        if key not in self._cycles:
            try:
                self._cycles[key] = self.time(offer.program).total_cycles
            except VerifyError as error:
                where = f"{offer.place}: {offer.label} for {offer.layer.at.node.label}"
                got = error.verdict.findings[0].message
                raise ExtensionError(f"{where} must be a safe program, got {got}") from None
        return self._cycles[key]

    def _cycles_of(self, call: OperatorCall) -> int:
        assert call.operator is not None, "a concatenation has no other program"
        if isinstance(call.operator, WrittenOperator):
            return call.operator.cycles
        if call.operator not in self._cycles:
            self._cycles[call.operator] = self.time.cycles(call.operator)
        return self._cycles[call.operator]

    def _seconds(self, at: MachineNode, call: OperatorCall) -> float:
        return seconds_of(self._cycles_of(call), self.config) + self._packing_seconds(at, call)

    def _require_faster(self, at: MachineNode, call: OperatorCall, template: OperatorCall) -> None:
        if self._seconds(at, call) >= self._seconds(at, template):
            cycles = [f"{self._cycles_of(item):,}" for item in (template, call)]
            packing = 1e3 * self._packing_seconds(at, call)
            more = f", and {packing:.3g} ms to pack activations" if packing else ""
            decline(f"take less time than without, {cycles[0]} cycles, got {cycles[1]}{more}")

    def _require_faster_than_host(self, at: MachineNode, call: OperatorCall) -> None:
        got = self._seconds(at, call) + handover_seconds(call.output, self.cpu)
        host = cpu_seconds(at.graph, at.node, call.macs, self.cpu)
        if got >= host:
            times = f"{milliseconds(host)} on {self.cpu.name}, got {milliseconds(got)}"
            decline(f"take less time than on the CPU, the transfer of results included, {times}")

    def _packing_seconds(self, at: MachineNode, call: OperatorCall) -> float:
        """The time in which the host packs results of the machine for another layout."""
        seconds = 0.0
        for value, layout in call.inputs.values():
            made = at.made.get(value)
            if made is not None and not made.same_bytes(layout):
                seconds += PROGRAM_SECONDS + handover_seconds(made, self.cpu) + handover_seconds(layout, self.cpu)
        return seconds

    # --- checks

    def _is_right(self, offer: LayerCall) -> bool:
        """Whether a program computes the operator of its node whatever lies in gaps of its input.

        ExtensionError if it computes something else where constants lie there.
        """
        key = offer.program.hash, offer.exact, offer.layer.at.node.outputs[0] if offer.layer.is_formulated else ""
        if key in self._checked:
            return True
        at, random = offer.layer.at, np.random.default_rng(_SEED)
        data = {
            name: random.choice(offer.layer.facts.values[plain], at.shape(name)).astype(self.config.inp_dtype)
            for plain, name in offer.layer.activations.items()
        }
        operands = [data.get(name, at.graph.constants.get(name)) for name in at.node.inputs]
        (wanted,) = evaluate_node(at.node, operands, prefer=Prefer.DEFINITION)
        assert isinstance(wanted, np.ndarray)
        right = np.array_equal(self._run(offer, data), wanted)
        if not right:
            self._require_equal(offer, self._run(replace(offer, exact=True), data), wanted)
            return False
        self._checked.add(key)
        return True

    @staticmethod
    def _require_equal(offer: LayerCall, result: Array, wanted: Array) -> None:
        node = offer.layer.at.node
        where = f"{offer.place}: {offer.label} for {node.label}"
        wrong = np.argwhere(result != wanted)
        if len(wrong):
            first = tuple(map(int, wrong[0]))
            rule = f"result{list(first)} must be {wanted[first]}, by the definition of {node.op}"
            got = f"{result[first]}; {len(wrong):,} of {wanted.size:,} elements differ"
            raise ExtensionError(f"{where}: {rule}, got {got}")

    def _run(self, offer: LayerCall, data: Mapping[str, Array]) -> Array:
        """The plain result of a program; `data` has the activations."""
        arrays = dict(offer.constants)
        for tensor, (value, layout) in offer.inputs.items():
            packed = layout.packed(data[value])
            if isinstance(layout, PackedLayout):
                packed = np.random.default_rng(_SEED).integers(-128, 128, packed.shape).astype(packed.dtype)
                packed.ravel()[layout.places.ravel()] = data[value].ravel()
            arrays[tensor] = packed
        outputs = simulate(offer.program, arrays, mode="function").outputs
        return offer.result.unpacked(outputs[str(OUTPUT)])


def _of_each(reasons: Mapping[str, Sequence[str]]) -> str:
    """The reasons, with the names of the extensions that have each, if there are several."""
    if len(reasons) < 2:
        return next(iter(reasons), "")
    return ", or ".join(f"{reason} (for {', '.join(names)})" for reason, names in reasons.items())


def _is_of_integers(at: MachineNode) -> bool:
    """Whether a node computes integers of 8 bits."""
    kind = at.graph.types.get(at.node.inputs[0]) if at.node.inputs else None
    of_rows = at.node.op in ROW_REDUCTIONS and isinstance(kind, TensorType) and kind.dtype == at.config.inp_dtype
    return of_rows or at.node.op.startswith("vdla.Q")


def _channel_products(at: MachineNode) -> list[LayerCall]:
    """The toolkit's program of a product with a factor for each channel, where it fits."""
    if at.node.op != "vdla.QMul":
        return []
    try:
        layer = layer_of(at)
        call = LayerCall(
            layer, channel_product(layer.definition, at.config), label="product by channel", extensions=(), place=""
        )
        call.require_result()
    except (LayerError, NotAcceleratedError):
        return []
    return [call]

# SPDX-License-Identifier: Apache-2.0
"""The operands of an extension: which index of the instruction addresses each, and how.

A step has as many operands as the instruction has indices: `acc` the entry written (and its old
value), `src` one of the input buffer or the accumulator, `wgt` one of the weight buffer. Of the
input and the weight buffer an operand may be a *group* of entries; one of weights may see the bits
of its entries as narrower elements. The indices that are left address rows of private state, in the
order in which the declaration names states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from vdla.compiler import ir, te
from vdla.compiler.extensions.state import ExtensionError, State, check_operand, state_ports
from vdla.compiler.extensions.step_text import SUMS, Interval
from vdla.compiler.ir import INTEGER_BITS
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.hardware.isa import MOST_ENTRIES, Buffer, OldSum, Opcode, PlugIn, PlugInField, Port, StatePort, isa_of

_SCOPES = ("inp", "wgt", "acc", "immediate")
_RESULTS = ("acc", "inp")


class DeclaredStep(Protocol):
    """The parts of an extension that determine its operands."""

    @property
    def behaviour(self) -> ir.Function:
        """What a step computes: placeholders first, then the output and the updates."""

    @property
    def output(self) -> te.Tensor | None:
        """The accumulator entry that a step computes."""

    @property
    def updates(self) -> Mapping[State, te.Tensor]:
        """The rows of states that a step computes."""

    @property
    def scopes(self) -> Mapping[str, str | State]:
        """Where each operand lies."""

    @property
    def in_place(self) -> str | None:
        """The operand that is the old value of the output."""

    @property
    def fields(self) -> Sequence[PlugInField]:
        """The fields that immediates name."""


@dataclass(frozen=True, slots=True)
class StepOperands:
    """Where the operands of a step come from; `arguments` names each in the text of the step."""

    old: OldSum
    src: Port | None
    wgt: Port | None
    states: tuple[StatePort, ...]
    arguments: Mapping[str, str]
    writes_inputs: bool

    @property
    def signature(self) -> str:
        """The name and the arguments of a step: states that are read, then new rows."""
        return ", ".join(["step(new, old, src, wgt, fields, begin", *state_arguments(self.states)]) + ")"

    def narrow(self, config: Config) -> dict[str, tuple[int, int]]:
        """(Bits of an element, elements in one of the buffer) of operands with narrower ones."""
        ports = [port for port in (self.src, self.wgt) if port is not None]
        return {port.operand: (port.bits, config.wgt_bits // port.bits) for port in ports if port.bits is not None}


def state_arguments(ports: Sequence[StatePort]) -> list[str]:
    """The arguments of a step for its states: values before it, then rows that it writes."""
    read = [f"old_{port.state.name}" for port in ports if port.operand is not None]
    return read + [f"new_{port.state.name}" for port in ports if port.writes]


def field_limits(config: Config, plug_in: PlugIn) -> dict[str, Interval]:
    """The least and the greatest value of each field of its own."""
    isa = isa_of(replace(config.plain, extensions=(replace(plug_in, wide=True, states=()),)))
    slots = isa.formats[max(isa.formats)].values
    return {slot.field.name: (slot.low, slot.high) for slot in slots[len(slots) - len(plug_in.fields) :]}


def operands_of(where: str, config: Config, extension: DeclaredStep, unit: str) -> StepOperands:
    """The operands of an extension on a machine; ExtensionError where layout and scope disagree."""
    _check_scopes(where, extension)
    ports = dict(_ports(where, config, extension))
    by_index: dict[str, Port] = {}
    for name, port in ports.items():
        index = "wgt" if port.buffer is Buffer.WGT else "src"
        if index in by_index:
            rule = f"at most one operand can be indexed by {index}"
            remedy = "in_place makes one of the accumulator's the old value"
            raise ExtensionError(f"{where}: {rule}, got {by_index[index].operand} and {name}; {remedy}")
        by_index[index] = port
    states = _state_ports(where, config, extension, unit, by_index)
    arguments = {port.operand: index for index, port in by_index.items()}
    arguments |= {extension.output.name: SUMS} if extension.output is not None else {}
    arguments |= {extension.in_place: "old"} if extension.in_place else {}
    arguments |= {port.operand: f"old_{port.state.name}" for port in states if port.operand is not None}
    arguments |= {tensor.name: f"new_{state.name}" for state, tensor in extension.updates.items()}
    writes_inputs = _writes_inputs(extension)
    old = OldSum.UNTOUCHED if writes_inputs else _old(extension)
    return StepOperands(old, by_index.get("src"), by_index.get("wgt"), states, arguments, writes_inputs)


def _writes_inputs(extension: DeclaredStep) -> bool:
    """Whether the output is an entry of the input buffer."""
    return extension.output is not None and extension.scopes[extension.output.name] == "inp"


def _state_ports(
    where: str, config: Config, extension: DeclaredStep, unit: str, known_ports: Mapping[str, Port]
) -> tuple[StatePort, ...]:
    """The states of a step, each with an index register that no other operand uses."""
    buffers = extension.behaviour.buffers
    reads = [(name, scope) for name, scope in extension.scopes.items() if isinstance(scope, State)]
    for name, state in (*reads, *((tensor.name, state) for state, tensor in extension.updates.items())):
        check_operand(where, name, state, buffers[name].dtype, buffers[name].dims)
    for state, tensor in extension.updates.items():
        if state.is_whole(buffers[tensor.name].dims):
            raise ExtensionError(f"{where}: update of {state.name} must be one row, got all rows")
    free = [index for index in ("acc", "src", "wgt") if index not in known_ports]
    ports = state_ports(
        where=where,
        unit=unit,
        reads=[(name, state, state.is_whole(buffers[name].dims)) for name, state in reads],
        writes=extension.updates,
        free=free if extension.output is None else free[1:],
    )
    most = {slot.field.name: 1 << slot.width for slot in isa_of(config).formats[Opcode.GEMM].slots}
    for port in ports:
        if port.index is not None and port.state.rows > most[port.index]:
            rule = f"state {port.state.name} must have at most {most[port.index]} rows, which {port.index} can index"
            raise ExtensionError(f"{where}: {rule}, got {port.state.rows}")
    return ports


def _old(extension: DeclaredStep) -> OldSum:
    if extension.output is None:
        return OldSum.UNTOUCHED
    stage = extension.output.stage
    assert isinstance(stage, Stage), "checked when made"
    if stage.reduction is None:
        return OldSum.OVERWRITE if extension.in_place is None else OldSum.READ
    return OldSum.ACCUMULATE


def _check_scopes(where: str, extension: DeclaredStep) -> None:
    updates = [tensor.name for tensor in extension.updates.values()]
    names, given = sorted(set(extension.behaviour.params) - set(updates)), sorted(extension.scopes)
    if names != given:
        raise ExtensionError(f"{where}: scopes must name exactly {', '.join(names)}, got {', '.join(given) or 'none'}")
    field_names = [field.name for field in extension.fields]
    for operand, scope in extension.scopes.items():
        if isinstance(scope, State):
            continue
        if scope not in _SCOPES:
            raise ExtensionError(f"{where}: scope of {operand} must be one of {', '.join(_SCOPES)}, got {scope!r}")
        if scope == "immediate" and operand not in field_names:
            rule = f"immediate {operand} must have the name of a field"
            remedy = f"add fields=[PlugInField({operand!r}, bits, meaning)]"
            raise ExtensionError(f"{where}: {rule}, got {', '.join(field_names) or 'no fields'}; {remedy}")
    result = extension.output
    if result is not None and extension.scopes[result.name] not in _RESULTS:
        got = extension.scopes[result.name]
        raise ExtensionError(f"{where}: scope of the output {result.name} must be {' or '.join(_RESULTS)}, got {got!r}")
    if _writes_inputs(extension) and _old(extension) is not OldSum.OVERWRITE:
        rule = "an output in inp must not depend on the entry before, as only sums in acc continue"
        got = "a reduction" if extension.in_place is None else f"in_place={extension.in_place!r}"
        raise ExtensionError(f"{where}: {rule}, got {got}; write it to acc")
    if extension.in_place is not None and extension.scopes.get(extension.in_place) != "acc":
        raise ExtensionError(f"{where}: in_place must name an operand in acc, got {extension.in_place!r}")


def _ports(where: str, config: Config, extension: DeclaredStep) -> Iterator[tuple[str, Port]]:
    """The ports of all operands but the old value, each checked against the layout of its scope."""
    result = None if extension.output is None else extension.output.name
    for name, scope in extension.scopes.items():
        if isinstance(scope, State):
            continue
        buffer = extension.behaviour.buffers[name]
        layouts = _layouts(config, scope)
        kind = (buffer.dtype, tuple(buffer.dims))
        layouts = layouts[:1] if name == result else layouts
        group = None if name == result else _group(config, name, scope, *kind)
        if kind not in layouts and group is None:
            choices = " or ".join(f"{dtype}{list(shape)}" for dtype, shape in layouts)
            views = "" if name == result else _GROUPS.get(scope, "")
            raise ExtensionError(
                f"{where}: {name} must be {choices}{views} in scope {scope}, got {buffer.dtype}{list(buffer.shape)}"
            )
        if scope != "immediate" and name not in (result, extension.in_place):
            whole = kind not in layouts or layouts.index(kind) == 0
            yield name, group if whole and group else Port(name, Buffer[scope.upper()], vector=not whole)


_GROUPS = {
    "inp": f", or up to {MOST_ENTRIES} entries side by side (a power of two)",
    "wgt": f", or up to {MOST_ENTRIES} entries side by side (a power of two), or the same bits as narrower elements",
}
"""The views besides an entry and a vector, in words."""


def _layouts(config: Config, scope: str) -> list[tuple[str, tuple[int, ...]]]:
    """The types and shapes of an entry and, where the buffer has them, of a vector."""
    match scope:
        case "inp":
            shapes = [(config.batch, config.block_in), (config.batch, config.block_out)]
            return list(dict.fromkeys((config.inp_dtype, shape) for shape in shapes))
        case "wgt":
            return [(config.wgt_dtype, (config.block_out, config.block_in)), (config.wgt_dtype, (config.block_out,))]
        case "acc":
            return [(config.acc_dtype, (config.batch, config.block_out))]
    return [("int32", (1,)), ("int64", (1,))]


def _group(config: Config, name: str, scope: str, dtype: str, shape: tuple[int, ...]) -> Port | None:
    """The port of entries side by side, whose elements have any dimensions after the rows; None for
    another shape or type.
    """
    if scope not in _GROUPS or len(shape) < 2:
        return None
    rows, element_bits = (config.batch, config.inp_bits) if scope == "inp" else (config.block_out, config.wgt_bits)
    bits = INTEGER_BITS.get(dtype, 0) if dtype.startswith("int") else 0
    narrow = scope == "wgt" and 0 < bits < element_bits
    entries, rest = divmod(prod(shape[1:]) * bits, config.block_in * element_bits)
    known = entries in [1 << power for power in range(MOST_ENTRIES.bit_length())]
    if shape[0] != rows or rest or not known or not (narrow or bits == element_bits):
        return None
    return Port(name, Buffer[scope.upper()], entries=entries, bits=bits if narrow else None)

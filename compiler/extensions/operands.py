"""The operands of an extension: which index of the instruction addresses each, and how.

A step has as many operands as the instruction has indices: `acc` the entry written (and its old
value), `src` one of the input buffer or the accumulator, `wgt` one of the weight buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from vdla.compiler import ir, te
from vdla.compiler.extensions.errors import ExtensionError
from vdla.compiler.extensions.value_range import Interval
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer, OldSum, PlugIn, PlugInField, Port, isa_of

_SCOPES = ("inp", "wgt", "acc", "immediate")


class DeclaredStep(Protocol):
    """An extension, as far as its operands follow from it."""

    @property
    def behaviour(self) -> ir.Function:
        """What a step computes: placeholders first, the output last."""

    @property
    def output(self) -> te.Tensor:
        """The tensor that a step computes."""

    @property
    def scopes(self) -> Mapping[str, str]:
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
    arguments: Mapping[str, str]

    def field_limits(self, config: Config, plug_in: PlugIn) -> dict[str, Interval]:
        """The least and the greatest value of each field of its own."""
        isa = isa_of(replace(config, extensions=(replace(plug_in, wide=True),)))
        slots = isa.formats[max(isa.formats)].values
        return {slot.field.name: (slot.low, slot.high) for slot in slots[len(slots) - len(plug_in.fields) :]}


def operands_of(where: str, config: Config, extension: DeclaredStep) -> StepOperands:
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
    arguments = {port.operand: index for index, port in by_index.items()}
    arguments |= {extension.output.name: "new"} | ({extension.in_place: "old"} if extension.in_place else {})
    return StepOperands(_old(extension), by_index.get("src"), by_index.get("wgt"), arguments)


def _old(extension: DeclaredStep) -> OldSum:
    stage = extension.output.stage
    assert isinstance(stage, Stage), "checked when made"
    if stage.reduction is None:
        return OldSum.OVERWRITE if extension.in_place is None else OldSum.READ
    return OldSum.ACCUMULATE


def _check_scopes(where: str, extension: DeclaredStep) -> None:
    names, given = sorted(extension.behaviour.params), sorted(extension.scopes)
    if names != given:
        raise ExtensionError(f"{where}: scopes must name exactly {', '.join(names)}, got {', '.join(given) or 'none'}")
    own = [field.name for field in extension.fields]
    for operand, scope in extension.scopes.items():
        if scope not in _SCOPES:
            raise ExtensionError(f"{where}: scope of {operand} must be one of {', '.join(_SCOPES)}, got {scope!r}")
        if scope == "immediate" and operand not in own:
            rule = f"immediate {operand} must have the name of a field"
            remedy = f"add fields=[PlugInField({operand!r}, bits, meaning)]"
            raise ExtensionError(f"{where}: {rule}, got {', '.join(own) or 'no fields'}; {remedy}")
    if extension.scopes[extension.output.name] != "acc":
        got = extension.scopes[extension.output.name]
        raise ExtensionError(f"{where}: scope of the output {extension.output.name} must be acc, got {got!r}")
    if extension.in_place is not None and extension.scopes.get(extension.in_place) != "acc":
        raise ExtensionError(f"{where}: in_place must name an operand in acc, got {extension.in_place!r}")


def _ports(where: str, config: Config, extension: DeclaredStep) -> Iterator[tuple[str, Port]]:
    """The ports of all operands but the old value, each checked against the layout of its scope."""
    for name, scope in extension.scopes.items():
        buffer = extension.behaviour.buffers[name]
        layouts = _layouts(config, scope)
        found = (buffer.dtype, buffer.shape)
        if found not in layouts:
            choices = " or ".join(f"{dtype}{list(shape)}" for dtype, shape in layouts)
            got = f"{buffer.dtype}{list(buffer.shape)}"
            raise ExtensionError(f"{where}: {name} must be {choices} in scope {scope}, got {got}")
        if scope != "immediate" and name not in (extension.output.name, extension.in_place):
            yield name, Port(name, Buffer[scope.upper()], vector=layouts.index(found) > 0)


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

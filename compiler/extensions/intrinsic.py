"""The intrinsic of an extension: what schedules tensorize with, lowered to its instruction.

The operands are those of the declaration, so that nothing is said twice. An operand of which an
index is neither one axis nor depends on data has no intrinsic: matching needs whole axes. Nor has
an instruction with private state: what it computes is no function of its operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from vdla.compiler.codegen.vdla import LoweringError
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.extensions.load import extension_of
from vdla.compiler.extensions.step_intrinsic import step_intrinsic
from vdla.compiler.tensorize import Intrinsic, IntrinsicError, StepCycles
from vdla.hardware import isa
from vdla.hardware.config import Config
from vdla.hardware.isa import OldSum, PlugIn, isa_of
from vdla.hardware.timing import ISSUE_DELAY, extension_step


def extension_intrinsic(extension: Extension, config: Config) -> Intrinsic:
    """The intrinsic of an extension on a machine that has it.

    Raises:
        IntrinsicError: an operand is indexed by more than whole axes, or is private state.
        ExtensionError: the declaration does not fit the machine.
    """
    ports = extension.operands(config).states
    if ports or extension.output is None:
        states = ", ".join(port.state.name for port in ports)
        raise IntrinsicError(f"extension {extension.name}: an intrinsic must have no private state, got {states}")
    plug_in = extension.plug_in(config)

    def instruction(machine: Config, fields: dict[str, Any]) -> isa.Instruction:
        begins = {} if plug_in.old is OldSum.ACCUMULATE else {"init": 0}
        return _class_of(machine, plug_in)(**{**fields, **begins})

    return step_intrinsic(
        extension,
        config,
        instruction,
        ranges=extension.ranges(config),
        cycles=partial(_cycles, plug_in),
        skips_padding=plug_in.skips_zeros,
    )


def _cycles(plug_in: PlugIn, immediates: Mapping[str, int]) -> StepCycles:
    """The cycles of a step; of fields that are not known yet, those of the loops are 1, else 0."""
    own = {**{field.name: 0 for field in plug_in.fields}, **immediates}

    def value(name: str) -> int:
        return own.get(name, 1)

    return StepCycles(int(extension_step(plug_in, value)), int(plug_in.latency.value(value)) + ISSUE_DELAY)


def machine_intrinsics(config: Config) -> list[Intrinsic]:
    """The intrinsics of the plug-ins of a machine; a plug-in that can have none is left out.

    ExtensionError where the extension of a plug-in is not loaded.
    """
    found = []
    for plug_in in config.extensions:
        try:
            found.append(extension_intrinsic(extension_of(config, plug_in), config.plain))
        except IntrinsicError:
            continue
    return found


def _class_of(config: Config, plug_in: PlugIn) -> type[isa.Instruction]:
    """The class of the plug-in's instructions; LoweringError where the machine lacks it."""
    found = isa_of(config).format_named(plug_in.name)
    if found is None or found.plug_in is None or replace(plug_in, unit=found.plug_in.unit) != found.plug_in:
        got = ", ".join(each.label for each in config.extensions) or "none"
        raise LoweringError(f"extension {plug_in.name}: machine must have {plug_in.label}, got {got}; extend it first")
    return found.cls

# SPDX-License-Identifier: Apache-2.0
"""The operations of an extension's steps as events, so that they have a price.

They are those of the expression that defines the step (`step_operations`), whatever its datapath
does. What only compares has the price of an addition of its width; what is neither that nor an
addition nor a multiplication is counted, without a price.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from vdla.compiler.extensions import (
    EmitStage,
    Extension,
    ExtensionError,
    StepOperation,
    extension_of,
    step_operations,
    unit_with_stage,
)
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugIn, PlugInStage
from vdla.simulator.energy import Action, EventCounts, MachineEvent

_ACTIONS = {
    Action.MULTIPLY: ("mul",),
    Action.ADD: ("add", "sub", "min", "max", "abs", "compare"),
    Action.LOGIC: ("and", "or", "xor", "select", "popcount"),
    Action.SHIFT: ("shl", "shr"),
    Action.DIVIDE: ("floordiv", "mod"),
}
_ACTION_OF = {op: action for action, ops in _ACTIONS.items() for op in ops}


def with_operations(counts: EventCounts, config: Config) -> EventCounts:
    """The counts, with the operations of the steps that they have; those of extensions that this
    process has not loaded stay steps.
    """
    result = dict(counts)
    for name, operations in _operations(config):
        steps = counts.get(MachineEvent(name, Action.STEP), 0)
        for event, count in operations if steps else ():
            result[event] = result.get(event, 0) + count * steps
    return result


_Events = tuple[tuple[MachineEvent, int], ...]


@lru_cache(maxsize=64)
def _operations(config: Config) -> tuple[tuple[str, _Events], ...]:
    """The events of a step of each extension that is loaded."""
    return tuple(_loaded(config))


def _loaded(config: Config) -> Iterator[tuple[str, _Events]]:
    for part in (*config.extensions, config.stage):
        declared = None if part is None else _declared(config, part)
        if part is not None and declared is not None:
            operations = sorted(step_operations(declared).items())
            yield part.name, tuple((_event(part.name, operation), count) for operation, count in operations)


def _declared(config: Config, part: PlugIn | PlugInStage) -> Extension | EmitStage | None:
    """The declaration of an instruction or a stage; None where it is not loaded here."""
    try:
        return extension_of(config, part) if isinstance(part, PlugIn) else unit_with_stage(config, part).stage
    except ExtensionError:
        return None


def _event(name: str, operation: StepOperation) -> MachineEvent:
    action = _ACTION_OF.get(operation.op, Action.FUNCTION)
    other = operation.other_bits if action is Action.MULTIPLY else 0
    return MachineEvent(name, action, operation.bits, other)

"""What kernels and programs are bound to: each is bound once, to arrays that never move."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.runtime.artifact.errors import ArtifactError
from vdla.runtime.artifact.plan import GridStep, KernelStep, PlannedValue, ProgramStep, Step


def check_bindings(where: str, step: Step, values: Mapping[str, PlannedValue]) -> None:
    """Refuse a step that is bound to a value without a place, or to one that it does not name.

    Values that are not among `values`, those of the plan, are constants.
    """
    match step:
        case KernelStep() | GridStep():
            bound = set(step.arguments)
        case ProgramStep():
            bound = set(step.tensors.values())
        case _:
            return
    for name in sorted(bound & values.keys()):
        if values[name].offset is None:
            raise ArtifactError(f"{where}: {name} must have a place in the arena, got none")
        if name not in step.inputs and name not in step.outputs:
            named = ", ".join((*step.inputs, *step.outputs))
            raise ArtifactError(f"{where}: {name} must be an input or output of the step, got {named}")

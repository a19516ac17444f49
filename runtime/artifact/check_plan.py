"""The rules of a plan, checked before anything of it runs.

Every value is computed before it is read, lies within the arena, and shares bytes with no other
value that is live at the same step; kernels and programs take what the plan gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler.abi import Signature
from vdla.hardware.program import Program
from vdla.runtime.artifact.arena_blocks import ArenaBlock, arena_blocks
from vdla.runtime.artifact.check_bindings import check_bindings
from vdla.runtime.artifact.check_control_step import check_control_step
from vdla.runtime.artifact.dtypes import size_bytes
from vdla.runtime.artifact.errors import ArtifactError
from vdla.runtime.artifact.plan import (
    ARENA_ALIGNMENT,
    ControlStep,
    KernelStep,
    NumpyStep,
    Plan,
    PlannedValue,
    ProgramStep,
    Step,
)

_MAX_ARENA_BYTES = 1 << 40


_MOST_NESTED = 16


@dataclass(frozen=True, slots=True)
class _Available:
    """What steps may refer to, in a plan and in its bodies."""

    constants: Mapping[str, PlannedValue]
    kernels: Sequence[Signature]
    programs: Sequence[Program]


def check_plan(
    plan: Plan, constants: Mapping[str, PlannedValue], kernels: Sequence[Signature], programs: Sequence[Program]
) -> None:
    """Refuse a plan that breaks a rule, or a body that does.

    Raises:
        ArtifactError: the message names the step or the value.
    """
    _check(f"plan {plan.name}", plan, _Available(constants, kernels, programs), 0)


def _check(where: str, plan: Plan, available: _Available, depth: int) -> None:
    if depth > _MOST_NESTED:
        raise ArtifactError(f"{where}: bodies must be nested at most {_MOST_NESTED} deep, got more")
    known = {**plan.values, **available.constants}
    for name in plan.inputs:
        _find(where, name, plan.values)
    for name in plan.outputs:
        _find(where, name, known)
    for name in plan.values.keys() & available.constants.keys():
        raise ArtifactError(f"{where}: {name} must be a constant or a value of the plan, got both")
    _check_values(where, plan)
    _check_order(where, plan, available.constants)
    for step in plan.steps:
        _check_step(f"{where}, step {step.name}", step, known, available, depth)
        check_bindings(f"{where}, step {step.name}", step, plan.values)
    _check_overlaps(where, plan)


def _find(where: str, name: str, known: Mapping[str, PlannedValue]) -> PlannedValue:
    if name not in known:
        raise ArtifactError(f"{where}: values must include {name}, got no such value")
    return known[name]


def _check_values(where: str, plan: Plan) -> None:
    if not 0 <= plan.arena_bytes <= _MAX_ARENA_BYTES:
        raise ArtifactError(f"{where}: arena must be of 0..{_MAX_ARENA_BYTES} bytes, got {plan.arena_bytes}")
    for name, value in plan.values.items():
        if value.shape is not None and any(extent < 0 for extent in value.shape):
            raise ArtifactError(f"{where}: extents of {name} must be at least 0, got {list(value.shape)}")
        if value.alias_of is not None:
            _check_alias(where, name, value, plan)
        if value.offset is None:
            continue
        if value.shape is None:
            raise ArtifactError(f"{where}: {name} must have known extents to lie in the arena, got none")
        end = value.offset + size_bytes(value.dtype, value.shape)
        if value.offset < 0 or value.offset % ARENA_ALIGNMENT or end > plan.arena_bytes:
            rule = f"{name} must lie at a multiple of {ARENA_ALIGNMENT} in the arena of {plan.arena_bytes} bytes"
            raise ArtifactError(f"{where}: {rule}, got {value.offset}..{end}")


def _check_alias(where: str, name: str, value: PlannedValue, plan: Plan) -> None:
    source = _find(where, str(value.alias_of), plan.values)
    same = (source.dtype, source.offset, source.alias_of) == (value.dtype, value.offset, None)
    if not same or source.shape is None or value.shape is None:
        raise ArtifactError(f"{where}: {name} must have type and place of {value.alias_of}, its source, got {value}")
    if size_bytes(source.dtype, source.shape) != size_bytes(value.dtype, value.shape):
        raise ArtifactError(f"{where}: {name} must have the size of {value.alias_of}, got {list(value.shape)}")


def _check_order(where: str, plan: Plan, constants: Mapping[str, PlannedValue]) -> None:
    """Every value is computed once, before it is read."""
    ready = {*plan.inputs, *constants}
    aliases: dict[str, list[str]] = {}
    for name, value in plan.values.items():
        aliases.setdefault(value.alias_of or name, []).append(name)
    for name in plan.inputs:
        ready.update(aliases.get(name, ()))
    for step in plan.steps:
        for name in filter(None, step.inputs):
            if name not in ready:
                raise ArtifactError(f"{where}, step {step.name}: {name} must be computed before, got no such step")
        for name in filter(None, step.outputs):
            if name in ready or name not in plan.values:
                raise ArtifactError(f"{where}, step {step.name}: {name} must be a value computed once, got another")
            ready.update(aliases.get(name, (name,)))
    for name in plan.outputs:
        if name not in ready:
            raise ArtifactError(f"{where}: output {name} must be computed, got no such step")


def _check_step(where: str, step: Step, known: Mapping[str, PlannedValue], available: _Available, depth: int) -> None:
    match step:
        case KernelStep():
            kernels = available.kernels
            if not 0 <= step.kernel < len(kernels):
                raise ArtifactError(f"{where}: kernel must be one of {len(kernels)}, got {step.kernel}")
            _check_kernel(where, step, known, kernels[step.kernel])
        case ProgramStep():
            programs = available.programs
            if not 0 <= step.program < len(programs):
                raise ArtifactError(f"{where}: program must be one of {len(programs)}, got {step.program}")
            _check_program(where, step, known, programs[step.program])
            _check_lines(where, step, programs[step.program])
        case NumpyStep():
            for name in filter(None, (*step.inputs, *step.outputs)):
                _find(where, name, known)
        case ControlStep():
            for name in filter(None, (*step.inputs, *step.outputs)):
                _find(where, name, known)
            check_control_step(where, step)
            for key, body in step.bodies.items():
                _check(f"{where}, {key}", body, available, depth + 1)


def _check_kernel(where: str, step: KernelStep, known: Mapping[str, PlannedValue], signature: Signature) -> None:
    if len(step.arguments) != len(signature.arguments):
        rule = f"arguments must be {len(signature.arguments)}, as of {signature.name}"
        raise ArtifactError(f"{where}: {rule}, got {len(step.arguments)}")
    written = []
    for name, argument in zip(step.arguments, signature.arguments, strict=True):
        value = _find(where, name, known)
        if (value.dtype, value.shape or (1,)) != (argument.dtype, argument.static):  # kernels have no rank 0
            got = f"{value.dtype}{list(value.shape or ())}"
            raise ArtifactError(f"{where}: {name} must be {argument.dtype}{list(argument.shape)}, got {got}")
        if argument.output:
            written.append(name)
    if tuple(written) != step.outputs:
        raise ArtifactError(f"{where}: outputs must be {', '.join(written)}, got {', '.join(step.outputs)}")


def _check_program(where: str, step: ProgramStep, known: Mapping[str, PlannedValue], program: Program) -> None:
    needed = {t.name: t for t in program.tensors if t.data is None and t.role != "scratch"}
    if step.tensors.keys() != needed.keys():
        rule = f"tensors must be {', '.join(needed)}, as of {program.name}"
        raise ArtifactError(f"{where}: {rule}, got {', '.join(step.tensors) or 'none'}")
    for name, tensor in needed.items():
        value = _find(where, step.tensors[name], known)
        if value.dtype != tensor.dtype or value.shape is None or prod(value.shape) != prod(tensor.shape):
            got = f"{value.dtype}{list(value.shape or ())}"
            raise ArtifactError(f"{where}: {step.tensors[name]} must be {tensor.dtype}{list(tensor.shape)}, got {got}")


def _check_lines(where: str, step: ProgramStep, program: Program) -> None:
    count, all_lines = len(step.placement.operators), len(program.source_lines)
    if len(step.lines) != count or any(each < 0 for each in step.lines) or sum(step.lines) != all_lines:
        rule = f"lines must be {count} numbers from 0 whose sum is {all_lines}"
        raise ArtifactError(f"{where}: {rule}, got {list(step.lines)}")


# --- the arena ------------------------------------------------------------------------------------


def _check_overlaps(where: str, plan: Plan) -> None:
    """No two live values share bytes."""
    live: list[ArenaBlock] = []
    for each in sorted(arena_blocks(plan), key=lambda block: block.first):
        live = [other for other in live if other.last >= each.first]
        for other in live:
            if max(each.start, other.start) < min(each.end, other.end):
                raise ArtifactError(f"{where}: {each.name} must share no bytes with {other.name}, live at one step")
        live.append(each)

# SPDX-License-Identifier: Apache-2.0
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
from vdla.runtime.executor.arena_blocks import ArenaBlock, arena_blocks
from vdla.runtime.executor.check_control_step import check_control_step
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.plan import (
    ARENA_ALIGNMENT,
    DEVICE_ALIGNMENT,
    ControlStep,
    CopyStep,
    DeviceValue,
    GridStep,
    KernelStep,
    NumpyStep,
    Plan,
    PlannedValue,
    ProgramStep,
    Step,
    numpy_dtype,
    shape_text,
    size_bytes,
)


def check_bindings(where: str, step: Step, values: Mapping[str, PlannedValue]) -> None:
    """Refuse a step that is bound to a value without a place, or to a value that it does not name.

    Values that are not among `values`, those of the plan, are constants.
    """
    match step:
        case KernelStep() | GridStep():
            bound = set(step.arguments)
        case ProgramStep():
            bound = {*step.tensors.values(), *step.offsets.values()}
        case _:
            return
    for name in sorted(bound & values.keys()):
        if values[name].offset is None:
            raise ArtifactError(f"{where}: {name} must have a place in the arena, got none")
        if name not in step.inputs and name not in step.outputs:
            named = ", ".join((*step.inputs, *step.outputs))
            raise ArtifactError(f"{where}: {name} must be an input or output of the step, got {named}")


_ON_DEVICE = ("scratch", "resident", "part")
"""The roles of tensors that have no value in a plan."""
_OFFSETS = ("int32", "int64")
"""The types of values that say where parts lie."""
_MAX_ARENA_BYTES = 1 << 40


_MOST_NESTED = 16


@dataclass(frozen=True, slots=True)
class _Available:
    """What steps may refer to, in a plan and in its bodies."""

    constants: Mapping[str, PlannedValue]
    kernels: Sequence[Signature]
    programs: Sequence[Program]
    grid: Sequence[Signature]


def check_plan(
    plan: Plan,
    constants: Mapping[str, PlannedValue],
    kernels: Sequence[Signature],
    programs: Sequence[Program],
    grid: Sequence[Signature] = (),
) -> None:
    """Refuse a plan that breaks a rule, or a body that does.

    Raises:
        ArtifactError: the message names the step or the value.
    """
    _check(f"plan {plan.name}", plan, _Available(constants, kernels, programs, grid), 0)


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
        _check_memories(f"{where}, step {step.name}", step, known)
        check_bindings(f"{where}, step {step.name}", step, plan.values)
    for kind in (PlannedValue, DeviceValue):
        _check_overlaps(where, plan, kind)


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
        if isinstance(value, DeviceValue):
            if value.offset < 0 or value.offset % DEVICE_ALIGNMENT or end > _MAX_ARENA_BYTES:
                rule = f"{name} must lie at a multiple of {DEVICE_ALIGNMENT} below {_MAX_ARENA_BYTES}"
                raise ArtifactError(f"{where}: {rule}, got {value.offset}..{end}")
            continue
        if value.offset < 0 or value.offset % ARENA_ALIGNMENT or end > plan.arena_bytes:
            rule = f"{name} must lie at a multiple of {ARENA_ALIGNMENT} in the arena of {plan.arena_bytes} bytes"
            raise ArtifactError(f"{where}: {rule}, got {value.offset}..{end}")


def _check_alias(where: str, name: str, value: PlannedValue, plan: Plan) -> None:
    source = _find(where, str(value.alias_of), plan.values)
    same = (source.dtype, source.offset, source.alias_of) == (value.dtype, value.offset, None)
    same = same and type(source) is type(value)
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
        case GridStep():
            if not 0 <= step.kernel < len(available.grid):
                raise ArtifactError(f"{where}: kernel must be one of {len(available.grid)}, got {step.kernel}")
            _check_kernel(where, step, known, available.grid[step.kernel])
        case CopyStep():
            _check_copy(where, step, known)
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


def _check_memories(where: str, step: Step, known: Mapping[str, PlannedValue]) -> None:
    """The GPU reads and writes its memory only, and all others that of the host; copies cross."""
    if isinstance(step, CopyStep):
        return
    on_grid = isinstance(step, GridStep)
    for name in filter(None, (*step.inputs, *step.outputs)):
        if isinstance(known[name], DeviceValue) != on_grid:
            memory = "the GPU" if on_grid else "the host"
            raise ArtifactError(f"{where}: {name} must be in the memory of {memory}, got a value in another memory")


def _check_copy(where: str, step: CopyStep, known: Mapping[str, PlannedValue]) -> None:
    if len(step.inputs) != 1 or len(step.outputs) != 1:
        raise ArtifactError(f"{where}: a copy must have one input and one output, got {step.inputs}, {step.outputs}")
    given, made = (_find(where, name, known) for name in (*step.inputs, *step.outputs))
    if (given.dtype, given.shape) != (made.dtype, made.shape) or given.offset is None or made.offset is None:
        raise ArtifactError(f"{where}: both values must have one type and a place, got {given}, {made}")
    if isinstance(given, DeviceValue) == isinstance(made, DeviceValue):
        raise ArtifactError(f"{where}: the memories of a copy must differ, got the same memory")


def _check_kernel(
    where: str, step: KernelStep | GridStep, known: Mapping[str, PlannedValue], signature: Signature
) -> None:
    if len(step.arguments) != len(signature.arguments):
        rule = f"arguments must be {len(signature.arguments)}, as of {signature.name}"
        raise ArtifactError(f"{where}: {rule}, got {len(step.arguments)}")
    written = []
    for name, argument in zip(step.arguments, signature.arguments, strict=True):
        value = _find(where, name, known)
        same = numpy_dtype(value.dtype) == numpy_dtype(argument.dtype)  # as the memory holds them
        if not same or (value.shape or (1,)) != argument.static:  # kernels have no rank 0
            got = f"{value.dtype}{list(value.shape or ())}"
            raise ArtifactError(f"{where}: {name} must be {argument.dtype}{list(argument.shape)}, got {got}")
        if argument.output:
            written.append(name)
    if tuple(written) != step.outputs:
        raise ArtifactError(f"{where}: outputs must be {', '.join(written)}, got {', '.join(step.outputs)}")


def _check_program(where: str, step: ProgramStep, known: Mapping[str, PlannedValue], program: Program) -> None:
    needed = {t.name: t for t in program.tensors if t.data is None and t.role not in _ON_DEVICE}
    if step.tensors.keys() != needed.keys():
        rule = f"tensors must be {', '.join(needed)}, as of {program.name}"
        raise ArtifactError(f"{where}: {rule}, got {', '.join(step.tensors) or 'none'}")
    for name, tensor in needed.items():
        value = _find(where, step.tensors[name], known)
        same = numpy_dtype(value.dtype) == numpy_dtype(tensor.dtype)  # as the memory holds them
        if not same or value.shape is None or prod(value.shape) != prod(tensor.shape):
            got = f"{value.dtype}{list(value.shape or ())}"
            raise ArtifactError(f"{where}: {step.tensors[name]} must be {tensor.dtype}{list(tensor.shape)}, got {got}")

    _check_offsets(where, step, known, program)


def _check_offsets(where: str, step: ProgramStep, known: Mapping[str, PlannedValue], program: Program) -> None:
    parts = [tensor.name for tensor in program.tensors if tensor.role == "part"]
    if step.offsets.keys() != set(parts):
        rule = f"offsets must be of {', '.join(parts) or 'no tensor'}, as of {program.name}"
        raise ArtifactError(f"{where}: {rule}, got {', '.join(step.offsets) or 'none'}")
    for name in step.offsets.values():
        value = _find(where, name, known)
        if value.dtype not in _OFFSETS or value.shape is None or prod(value.shape) != 1:
            got = f"{value.dtype}{shape_text(value.shape)}"
            raise ArtifactError(f"{where}: {name} must be one {' or '.join(_OFFSETS)}, got {got}")


def _check_lines(where: str, step: ProgramStep, program: Program) -> None:
    count, all_lines = len(step.placement.operators), len(program.source_lines)
    if len(step.lines) != count or any(line < 0 for line in step.lines) or sum(step.lines) != all_lines:
        rule = f"lines must be {count} numbers from 0 whose sum is {all_lines}"
        raise ArtifactError(f"{where}: {rule}, got {list(step.lines)}")


# --- the arena ------------------------------------------------------------------------------------


def _check_overlaps(where: str, plan: Plan, kind: type[PlannedValue]) -> None:
    """No two live values share bytes."""
    live: list[ArenaBlock] = []
    for item in sorted(arena_blocks(plan, kind), key=lambda block: block.first):
        live = [other for other in live if other.last >= item.first]
        for other in live:
            if max(item.start, other.start) < min(item.end, other.end):
                raise ArtifactError(f"{where}: {item.name} must share no bytes with {other.name}, live at one step")
        live.append(item)

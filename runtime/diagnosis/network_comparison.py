# SPDX-License-Identifier: Apache-2.0
"""A network on two devices: the first step that differs, and in its program the instruction.

The first device is believed. Steps run on the host and on the device in turn, so what one step got
right is right for all that follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import STREAM, Program, input_tensors
from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.diagnosis.culprit import Culprit, WrongEntry, find_culprit
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.bind_kernels import KernelBinder
from vdla.runtime.executor.executor import Executor, NetworkResult, StepRun
from vdla.runtime.executor.operator_cycles import operator_of
from vdla.runtime.executor.plan import ProgramStep, Step
from vdla.runtime.executor.resident_program import ResidentDamage
from vdla.runtime.numpy_operators import FUNCTIONS, Value
from vdla.simulator.support.errors import SimulationError
from vdla.support.errors import Error
from vdla.support.html_repr import shown_by

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """The first entry of a step's result that differs, on both devices, and how many do."""

    name: str
    index: tuple[int, ...]
    values: tuple[Any, Any]
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class StepDifference:
    """The first step that differs: its number, and the entry, or the error of the second device.

    `damage`: what had changed in the second device's memory. `culprit`: the instruction, if the
    program alone differs too; `layer`, its operator.
    """

    number: int
    step: Step
    value: ValueDifference | None
    failure: str = ""
    damage: ResidentDamage | None = None
    culprit: Culprit | None = None
    program: Program | None = None
    layer: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RegionRun:
    """The program of a step, and the arrays that the first device's run of the network feeds it."""

    number: int
    step: ProgramStep
    program: Program
    arrays: Mapping[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class NetworkComparison:
    """The two runs of a network; `cycles` of all programs, by device.

    `region` is the program of the step that differs; for equal results, that of the first step
    whose cycles differ. `runs` has what each step took, by device, where both ran them all.
    """

    name: str
    devices: tuple[str, str]
    steps: int
    cycles: tuple[int, int]
    difference: StepDifference | None
    region: RegionRun | None = None
    runs: tuple[tuple[StepRun, ...], ...] = ()

    @property
    def same_results(self) -> bool:
        """Whether all steps gave the same values; cycles may differ."""
        return self.difference is None

    @property
    def equal(self) -> bool:
        """Whether all steps gave the same values in the same cycles."""
        return self.same_results and self.cycles[0] == self.cycles[1] and not self.late_steps

    @property
    def late_steps(self) -> tuple[tuple[StepRun, StepRun], ...]:
        """The runs of each step that took other numbers of cycles, by device."""
        return tuple(pair for pair in zip(*self.runs, strict=True) if _cycles(pair[0]) != _cycles(pair[1]))

    _repr_html_ = shown_by("verdicts", "network_comparison_html")

    def __str__(self) -> str:
        """A line per finding; for equal runs, how much was compared."""
        if self.difference is not None:
            return "\n".join(_lines(self.difference, self.devices))
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        if self.equal:
            return f"equal: {steps}, {self.cycles[0]} cycles"
        return "\n".join([f"equal results: {steps}; cycles: {self._both(self.cycles)}", *self._late_lines()])

    def _late_lines(self) -> Iterator[str]:
        for one, other in self.late_steps:
            yield f"cycles of {one.step.name}: {self._both((_cycles(one), _cycles(other)))}"

    def _both(self, values: tuple[object, object]) -> str:
        return ", ".join(f"{device} {value}" for device, value in zip(self.devices, values, strict=True))


def _lines(difference: StepDifference, devices: tuple[str, str]) -> list[str]:
    one, other = devices
    operators = ", ".join(f"{operator.op} {operator.name}" for operator in difference.step.placement.operators)
    lines = [f"step {difference.number} ({difference.step.name}) on {difference.step.placement.device}: {operators}"]
    if difference.failure:
        lines.append(f"error: {difference.failure}")
    if difference.value is not None:
        value, index = difference.value, ", ".join(map(str, difference.value.index))
        said = f"{one} {value.values[0]}, {other} {value.values[1]}"
        lines.append(f"result: {value.name}[{index}]: {said} ({value.count} of {value.size} differ)")
    if difference.damage is not None:
        damage, what = (
            difference.damage,
            "the program" if difference.damage.tensor == STREAM else difference.damage.tensor,
        )
        said = f"{damage.expected:#04x} was written, got {damage.got:#04x} ({damage.count} bytes differ)"
        lines.append(f"memory of {other}: byte {damage.offset} of {what} changed between steps: {said}")
    elif difference.culprit is not None:
        lines += _instruction_lines(difference, devices)
    elif isinstance(difference.step, ProgramStep):
        lines.append("the program alone gives equal results on both: the fault does not repeat")
    return lines


def _instruction_lines(difference: StepDifference, devices: tuple[str, str]) -> list[str]:
    culprit, program = difference.culprit, difference.program
    assert culprit is not None and program is not None
    lines = [f"layer: {difference.layer}"] if difference.layer else []
    lines.append(f"instruction {culprit.instruction}: {_text(program, culprit.instruction)}")
    line = int(program.source_of[culprit.instruction])
    if line >= 0:
        lines.append(f"from: {program.source_lines[line].strip()}")
    if culprit.failure:
        lines.append(f"with it the program fails: {culprit.failure}")
    if culprit.entry is not None:
        lines.append(f"it leaves {_said(culprit.entry, devices)}")
    if culprit.store is not None and culprit.store[0] != culprit.instruction:
        number, entry = culprit.store
        lines.append(f"first seen in memory after instruction {number}: {_text(program, number)}")
        lines.append(f"as {_said(entry, devices)}")
        if culprit.shown_by_stores:
            lines.append(f"{devices[1]} shows its buffers through stores alone: they may be at fault instead")
    return lines


def _text(program: Program, number: int) -> str:
    from vdla.hardware.asm.disassembler import row_text

    return row_text(program, number)


def _said(entry: WrongEntry, devices: tuple[str, str]) -> str:
    values = ", ".join(f"{name} {value}" for name, value in zip(devices, entry.values, strict=True))
    return f"{entry.place}: {values} ({entry.count} differ)"


# --- comparing ------------------------------------------------------------------------------------


class _StopError(Error, RuntimeError):
    """Ends a run at the first step that differs."""


class _Watch:
    """Compares the results of each step with those of the first device."""

    def __init__(self, right: list[dict[str, Value]]) -> None:
        self.right, self.seen = right, 0
        self.value: ValueDifference | None = None

    def __call__(self, step: Step, values: Mapping[str, Value]) -> None:
        for name, expected in self.right[self.seen].items():
            self.value = _difference(name, expected, values[name])
            if self.value is not None:
                raise _StopError
        self.seen += 1


def compare_network(
    artifact: Artifact, inputs: Mapping[str, Array], devices: tuple[Device, Device]
) -> NetworkComparison:
    """Run a network on two open devices; search the cause of the first difference.

    Raises:
        ExecutorError: inputs that do not fit the model.
    """
    binder, right = KernelBinder(artifact), list[dict[str, Value]]()
    with closing(Executor(artifact, binder.bind, FUNCTIONS, devices[0])) as executor:
        first = executor.run(inputs, observe=lambda step, values: right.append(_results(step, values)))
    watch, second, failure, damage = _Watch(right), None, "", None
    with closing(Executor(artifact, binder.bind, FUNCTIONS, devices[1])) as executor:
        try:
            second = executor.run(inputs, observe=watch)
        except _StopError:
            damage = _damage(executor, first.steps[watch.seen].step)
        except (DeviceError, SimulationError) as error:
            failure = str(error)
    number = watch.seen if second is None else _late_step(first, second)
    region = None if number is None else _region_run(artifact, number, first.steps[number].step, {**inputs}, right)
    difference = None
    if second is None:
        step = first.steps[watch.seen].step
        difference = StepDifference(number=watch.seen, step=step, value=watch.value, failure=failure, damage=damage)
        if region is not None and damage is None:
            difference = _searched(difference, region, devices)
    return NetworkComparison(
        name=artifact.plan.name,
        devices=(devices[0].name, devices[1].name),
        steps=len(first.steps),
        cycles=(first.cycles, 0 if second is None else second.cycles),
        difference=difference,
        region=region,
        runs=() if second is None else (first.steps, second.steps),
    )


def _late_step(first: NetworkResult, second: NetworkResult) -> int | None:
    """The first step whose program takes another number of cycles."""
    pairs = zip(first.steps, second.steps, strict=True)
    return next((k for k, (one, other) in enumerate(pairs) if _cycles(one) != _cycles(other)), None)


def _cycles(run: StepRun) -> int | None:
    return None if run.statistics is None else run.statistics.total_cycles


def _region_run(
    artifact: Artifact, number: int, step: Step, known: dict[str, Value], right: list[dict[str, Value]]
) -> RegionRun | None:
    """The program of a step, with the values that are `known` from before it."""
    if not isinstance(step, ProgramStep):
        return None
    known |= artifact.constants
    for results in right[:number]:
        known |= results
    program = artifact.programs[step.program]
    arrays = {
        tensor.name: np.asarray(known[step.tensors[tensor.name]]).reshape(tensor.shape)
        for tensor in input_tensors(program)
    }
    return RegionRun(number, step, program, arrays)


def _results(step: Step, values: Mapping[str, Value]) -> dict[str, Value]:
    """Copies of a step's results."""
    results = {name: values[name] for name in step.outputs if name}
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in results.items()}


def _damage(executor: Executor, step: Step) -> ResidentDamage | None:
    return executor.damage(step) if isinstance(step, ProgramStep) else None


def _difference(name: str, expected: Value, got: Value) -> ValueDifference | None:
    """The first entry in which two values differ, bit for bit; values of other kinds are alike."""
    if not (isinstance(expected, np.ndarray) and isinstance(got, np.ndarray)) or expected.dtype.hasobject:
        return None
    ours, theirs = (np.ascontiguousarray(item).reshape(-1) for item in (expected, got))
    width = expected.dtype.itemsize
    differ = (ours.view(np.uint8) != theirs.view(np.uint8)).reshape(-1, width).any(axis=1)
    where = np.flatnonzero(differ)
    if not len(where):
        return None
    first = int(where[0])
    index = tuple(map(int, np.unravel_index(first, expected.shape)))
    return ValueDifference(name, index, (ours[first].item(), theirs[first].item()), len(where), expected.size)


def _searched(difference: StepDifference, region: RegionRun, devices: tuple[Device, Device]) -> StepDifference:
    """The difference with the instruction that causes it, where the program alone differs."""
    program, step = region.program, region.step
    culprit = find_culprit(program, region.arrays, devices)
    if culprit is None:
        return difference
    operator = int(operator_of(program, step.lines)[culprit.instruction]) if step.lines else -1
    operators = step.placement.operators
    layer = f"{operators[operator].op} {operators[operator].name}" if 0 <= operator < len(operators) else ""
    return replace(difference, culprit=culprit, program=program, layer=layer)

# SPDX-License-Identifier: Apache-2.0
"""Runs a compiled network: its steps in order, on one arena, kernels bound to their arrays once.

An executor holds the state of one run at a time; a lock keeps threads apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vdla.hardware.program import Program, ProgramTensor
from vdla.runtime.devices import Device
from vdla.runtime.devices.residents import Residents
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.grid_executor import GridExecutor
from vdla.runtime.executor.plan import STORED_IN_BYTES, GridStep, Plan, ProgramStep, Step, numpy_dtype, shape_text
from vdla.runtime.executor.plan_runner import Binders, BindKernel, NumpyFunctions, PlanRunner, Span
from vdla.runtime.executor.resident_program import ResidentDamage, ResidentProgram, activation_bytes
from vdla.runtime.numpy_operators import Value
from vdla.simulator.stats import RunStats
from vdla.support.arrays import cast_hint
from vdla.support.html_repr import shown_by
from vdla.support.symbolic_shapes import shape_words

Array = npt.NDArray[Any]
Observe = Callable[[Step, Mapping[str, Value]], None]
"""Called with a step that has run and the values, which the next steps may overwrite."""
ObserveProgram = Callable[[ProgramStep, Program, Mapping[str, Array]], None]
"""Called with a step that is about to run, its program, and what its input tensors take: arrays
that the next steps may overwrite.
"""


_MOST_KINDS = 64
"""Of inputs whose plan is remembered: open extents may be others in every run."""


class StepRun(NamedTuple):
    """What one step of a run took; `statistics` of a program."""

    step: Step
    seconds: float
    statistics: RunStats | None = None


@dataclass(slots=True, eq=False)
class NetworkResult:
    """The outputs of a run by name, and the steps of the plan that ran."""

    plan: Plan
    outputs: Mapping[str, Array]
    _spans: Sequence[Span]
    _steps: tuple[StepRun, ...] | None = None

    _repr_html_ = shown_by("networks", "network_result_html")

    def __repr__(self) -> str:
        return f"<NetworkResult of {self.plan.name}: outputs {', '.join(self.outputs)}; {self.cycles:,} cycles>"

    @property
    def steps(self) -> tuple[StepRun, ...]:
        """What each step took."""
        if self._steps is None:
            runs = zip(self.plan.steps, _step_times(self._spans), strict=True)
            self._steps = tuple(StepRun(step, *times) for step, times in runs)
        return self._steps

    @property
    def cycles(self) -> int:
        """The cycles of all accelerator programs."""
        return sum(run.statistics.total_cycles for run in self.steps if run.statistics is not None)


_Content = tuple[str, str, int, int]
"""A constant as elements of a type in so many bytes, and which of a program's tensors with it."""


def _contents(step: ProgramStep, tensors: Sequence[ProgramTensor]) -> dict[str, _Content]:
    """What the constants of a program are, by their tensors, which may not share memory."""
    made: dict[str, _Content] = {}
    for tensor in tensors:
        kind = step.tensors[tensor.name], tensor.dtype, tensor.nbytes
        made[tensor.name] = *kind, sum(other[:3] == kind for other in made.values())
    return made


class Executor:
    """An artifact ready to run on this machine.

    `bind_kernel(index, arrays)` prepares a call of a kernel; `numpy_functions` has the operators of
    NumPy steps; `device` runs programs and `grid` the kernels of a GPU; either is None where the
    network has none of these. `poison` finds mistakes of plans: memory that holds no value is
    overwritten before every step, with NaN or with large integers, so that a result that depends on
    it is wrong.
    """

    def __init__(
        self,
        artifact: Artifact,
        bind_kernel: BindKernel,
        numpy_functions: NumpyFunctions,
        device: Device | None = None,
        grid: GridExecutor | None = None,
        *,
        poison: bool = False,
    ) -> None:
        self.artifact, self.plan, self.device = artifact, artifact.plan, device
        self._lock, self._stack = Lock(), ExitStack()
        self._programs: dict[str, ResidentProgram] = {}
        self._written: dict[_Content, int] = {}  # constants on the device, which programs share
        self._residents = self._resident_tensors()
        self._activations = self._device_memory()
        self._grid = grid
        self._binders = Binders(bind_kernel, self._program, numpy_functions, grid, poison)
        self._runners = {id(self.plan): PlanRunner(self.plan, artifact.constants, self._binders)}
        self._plans: dict[object, Plan] = {}
        self._observe_program: ObserveProgram | None = None

    def _device_memory(self) -> int:
        """The address of the activations, which all programs share since one runs at a time."""
        nbytes = max(map(activation_bytes, self.artifact.programs), default=0)
        if self.device is None or not nbytes:
            return 0
        address = self.device.allocate(nbytes)
        self._stack.callback(self.device.free, address)
        return address

    def _resident_tensors(self) -> Residents | None:
        """The tensors that programs keep on the device, where they keep some."""
        if self.device is None or not any(t.role == "resident" for p in self.artifact.programs for t in p.tensors):
            return None
        residents = Residents(self.device, self.artifact.programs)
        self._stack.callback(residents.close)
        return residents

    @property
    def residents(self) -> Residents:
        """The tensors that stay on the device from run to run; ExecutorError if it has none."""
        if self._residents is None:
            raise ExecutorError(
                f"model {self.plan.name}: programs must have resident tensors on a device, got none to read"
            )
        return self._residents

    def _program(self, step: ProgramStep, values: Mapping[str, Array]) -> Callable[[], RunStats]:
        if self.device is None:
            raise ExecutorError(f"model {self.plan.name}: device must be given for the step {step.name}, got none")
        program = self.artifact.programs[step.program]
        fixed = {tensor: values[value] for tensor, value in step.tensors.items() if value in self.artifact.constants}
        contents = _contents(step, [program.tensor(name) for name in fixed])
        written = {name: self._written[content] for name, content in contents.items() if content in self._written}
        resident = ResidentProgram(program, self.device, fixed, self._activations, self._residents, written)
        self._stack.callback(resident.close)
        self._programs[step.name] = resident
        self._written |= {content: resident.address(name) for name, content in contents.items()}
        inputs = {tensor: values[value] for tensor, value in step.tensors.items() if value in step.inputs}
        outputs = {tensor: values[value] for tensor, value in step.tensors.items() if value in step.outputs}

        offsets = tuple(step.offsets.items())

        def run() -> RunStats:
            if self._observe_program is not None:
                self._observe_program(step, program, {**fixed, **inputs})
            return resident.run(inputs, outputs, {part: int(values[name].item()) for part, name in offsets})

        return run

    # --- runs

    def outputs(self, inputs: Mapping[str, Array], plan: Plan | None = None) -> dict[str, Array]:
        """The outputs of one run by name, without the time of each step; `plan` as of `run`.

        Raises:
            ExecutorError: inputs that do not fit the model.
        """
        if plan is None:
            plan, inputs = self._fitted(inputs)
        with self._lock:
            outputs = self._runner(plan).run([inputs[name] for name in plan.inputs])
            return dict(zip(self.plan.outputs, outputs, strict=True))

    def run(
        self,
        inputs: Mapping[str, Array],
        progress: Callable[[Step], None] | None = None,
        observe: Observe | None = None,
        plan: Plan | None = None,
        observe_program: ObserveProgram | None = None,
    ) -> NetworkResult:
        """One run; `progress` is called after each step, `observe` with the values by name, too,
        `observe_program` before each run of a program, those in bodies included.
        `plan` is the one of these inputs where it is known, as of `plan_for`.

        Raises:
            ExecutorError: inputs that do not fit the model.
        """
        if plan is None:
            plan, inputs = self._fitted(inputs)
        with self._lock, self._observing(observe_program):
            runner = self._runner(plan)
            runner.start([inputs[name] for name in plan.inputs])
            if progress is None and observe is None and self._grid is None:
                spans = runner.timed()
            else:
                spans = list(self._observed(runner, progress, observe))
            return NetworkResult(plan, dict(zip(plan.outputs, runner.outputs(), strict=True)), spans)

    @contextmanager
    def _observing(self, observe_program: ObserveProgram | None) -> Iterator[None]:
        """Call `observe_program` within this."""
        self._observe_program = observe_program
        try:
            yield
        finally:
            self._observe_program = None

    def _observed(
        self, runner: PlanRunner, progress: Callable[[Step], None] | None, observe: Observe | None
    ) -> Iterator[Span]:
        """What each step took, one by one."""
        for step, run in zip(runner.plan.steps, runner.calls, strict=True):
            start = time.perf_counter_ns()
            made = run()
            if self._grid is not None and isinstance(step, GridStep):
                self._grid.stream.synchronize()  # for its time
            end = time.perf_counter_ns()
            yield start, end, made if isinstance(made, RunStats) else None
            if progress is not None:
                progress(step)
            if observe is not None:
                observe(step, runner.observed(step))

    def _runner(self, plan: Plan) -> PlanRunner:
        """The runner of a plan, made at its first run."""
        runner = self._runners.get(id(plan))  # plans are those of the artifact
        if runner is None:
            runner = self._runners[id(plan)] = PlanRunner(plan, self.artifact.constants, self._binders)
        return runner

    def _fitted(self, inputs: Mapping[str, Array]) -> tuple[Plan, Mapping[str, Array]]:
        """The plan for the inputs, and the inputs as it takes them."""
        plan = self.known_plan(inputs)
        if plan is not None:
            return plan, inputs
        inputs = _in_bytes(inputs)
        return self.plan_for(inputs), inputs

    def known_plan(self, inputs: Mapping[str, Array]) -> Plan | None:
        """The plan of inputs of these kinds, if such inputs ran before, as they are."""
        return self._plans.get(_kinds(inputs))

    def plan_for(self, inputs: Mapping[str, Array]) -> Plan:
        """The plan for the shapes of the inputs; inputs of known names, types and shapes are not
        checked again.

        Raises:
            ExecutorError: inputs that do not fit the model.
        """
        kinds = _kinds(inputs)
        plan = self._plans.get(kinds)
        if plan is None:
            plan = self._checked_plan(inputs)
            if len(self._plans) == _MOST_KINDS:
                self._plans.clear()
            self._plans[kinds] = plan
        return plan

    def _checked_plan(self, inputs: Mapping[str, Array]) -> Plan:
        self._check_names(inputs)
        plans = self.artifact.plans
        for name in self.plan.inputs:
            self._check_input(name, inputs[name], self.plan.values[name].shape if len(plans) == 1 else None)
        if self.artifact.recipe is not None:
            given = {name: inputs[name].shape for name in self.plan.inputs}
            self.artifact.recipe.check(f"model {self.plan.name}", given)
        for plan in plans:
            if all(plan.values[name].shape in (None, inputs[name].shape) for name in plan.inputs):
                return plan
        shapes = " or ".join(plan.input_shapes for plan in plans)
        got = ", ".join(f"{name}{shape_text(inputs[name].shape)}" for name in self.plan.inputs)
        option = " ".join(f"{name}={shape_words(inputs[name].shape)}" for name in self.plan.inputs)
        added = f"compile the model with --shape {option} as well to add them"
        raise ExecutorError(f"model {self.plan.name}: inputs must have the shapes {shapes}, got {got}; {added}")

    def _check_names(self, inputs: Mapping[str, Array]) -> None:
        where, names = f"model {self.plan.name}", self.plan.inputs
        if not isinstance(inputs, Mapping) or inputs.keys() != set(names):
            got = ", ".join(map(str, inputs)) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise ExecutorError(f"{where}: inputs must be {', '.join(names) or 'none'}, got {got or 'none'}")

    def _check_input(self, name: str, array: Array, shape: tuple[int, ...] | None) -> None:
        """Refuse an input of another type, or of another shape than a known one."""
        dtype = self.plan.values[name].dtype
        fits = isinstance(array, np.ndarray) and array.dtype == numpy_dtype(dtype)
        if not fits or (shape is not None and array.shape != shape):
            extents = " of any shape" if shape is None else str(list(shape))
            got = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            hint = cast_hint(name, array, numpy_dtype(dtype)) if isinstance(array, np.ndarray) else ""
            rule = f"{name} must be an array {dtype}{extents}"
            raise ExecutorError(f"model {self.plan.name}: {rule}, got {got}{hint}")

    def damage(self, step: ProgramStep) -> ResidentDamage | None:
        """What changed in the device's memory of constants that the program of a step reads."""
        return self._programs[step.name].damage()

    def close(self) -> None:
        """Free the memory of programs on the device."""
        self._stack.close()


def _step_times(spans: Sequence[Span]) -> Iterator[tuple[float, RunStats | None]]:
    """Seconds and statistics of each step."""
    for span in spans:
        if isinstance(span, bytes):
            times = np.frombuffer(span, np.int64)
            yield from ((seconds, None) for seconds in ((times[1:] - times[:-1]) / 1e9).tolist())
        else:
            start, end, statistics = span
            yield (end - start) / 1e9, statistics


def _in_bytes(inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The inputs, integers of less than a byte as those of a byte."""
    if not isinstance(inputs, Mapping) or not any(_is_short(array) for array in inputs.values()):
        return inputs
    return {
        name: array.astype(STORED_IN_BYTES[array.dtype.name]) if _is_short(array) else array
        for name, array in inputs.items()
    }


def _is_short(array: Array) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "V" and array.dtype.name in STORED_IN_BYTES


def _kinds(inputs: object) -> object:
    """Names, types and shapes of inputs; None if they are no arrays by name."""
    try:
        return tuple([(name, type(x), x.dtype, x.shape) for name, x in inputs.items()])  # type: ignore[attr-defined]
    except AttributeError:
        return None

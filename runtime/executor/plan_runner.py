# SPDX-License-Identifier: Apache-2.0
"""A plan bound to memory: its arena, its values as arrays, its steps as calls.

The bodies of If, Loop and Scan are plans with runners of their own. What a body takes is copied
into its arena and what it gives is copied out, so that iterations do not disturb each other.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.executor.arena_blocks import Poison
from vdla.runtime.executor.artifact import aligned_bytes
from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.grid_executor import DeviceArrays, GridExecutor
from vdla.runtime.executor.plan import (
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
    size_bytes,
)
from vdla.runtime.native.call_chain import CallChain, has_chains
from vdla.runtime.native.kernel import BoundCall
from vdla.runtime.numpy_operators import CONTROL_FLOW, Body, Value
from vdla.runtime.numpy_operators.blocked import call_in_layouts
from vdla.simulator.stats import RunStats
from vdla.support.errors import Error

Array = npt.NDArray[Any]
NumpyFunctions = Mapping[str, Callable[..., Sequence[Array]]]


def call_numpy(
    where: str, step: NumpyStep, functions: NumpyFunctions, arrays: Sequence[Array | None]
) -> Sequence[Array]:
    """The results of a step on these arrays; None for an input that is absent.

    Raises:
        ExecutorError: no such function, or attributes or arrays that it cannot take.
    """
    if step.op not in functions:
        raise ExecutorError(f"{where}: operator must be one of {len(functions)} NumPy functions, got {step.op}")
    try:
        given, made = (list(map(step.layouts.get, names)) for names in (step.inputs, step.outputs))
        with np.errstate(all="ignore"):  # infinities and NaN are values of a model, as in compiled kernels
            results = call_in_layouts(functions[step.op], step.attributes, arrays, given, made)
    except Error:
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise ExecutorError(f"{where}: {step.op} must be able to run on its inputs, got {got}") from error
    if len(results) < len(step.outputs):
        raise ExecutorError(f"{where}: {step.op} must have {len(step.outputs)} results, got {len(results)}")
    return results


BindKernel = Callable[[int, Sequence[Array]], Callable[[], object]]
BindProgram = Callable[[ProgramStep, Mapping[str, Array]], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Binders:
    """What turns steps into calls: of kernels by index, of programs, of NumPy functions by name.

    `grid` has the kernels of a GPU, or is None. With `poison`, memory
    that holds no value is overwritten, so that whatever reads it computes nonsense.
    """

    kernel: BindKernel
    program: BindProgram
    numpy: NumpyFunctions
    grid: GridExecutor | None = None
    poison: bool = False


Span = tuple[int, int, RunStats | None] | bytes
"""The nanoseconds at the start and the end of a step, and the statistics of its program; those
before, between and after the kernels of a chain.
"""


class PlanRunner:
    """A plan ready to run; `values` has the arrays of its values by name."""

    def __init__(self, plan: Plan, constants: Mapping[str, Array], binders: Binders) -> None:
        self.plan = plan
        self._constants, self._binders = constants, binders
        self._arena = _allocate(plan.name, plan.arena_bytes)
        self.values: dict[str, Value] = {"": None, **constants}
        placed = ((name, value) for name, value in plan.values.items() if value.offset is not None)
        self._places = {name: self._view(value) for name, value in placed if not isinstance(value, DeviceValue)}
        self.values |= self._places
        self._input_places = [self._places.get(name) for name in plan.inputs]
        placed_outputs = [self._places[name] for name in plan.outputs if name in self._places]
        self._output_places = placed_outputs if len(placed_outputs) == len(plan.outputs) else None
        self._on_device: DeviceArrays = binders.grid.arrays(plan) if binders.grid and plan.device_bytes else {}
        self.calls = [self._prepared(step) for step in plan.steps]
        self._poison = Poison(plan, self._arena, self._on_device, binders.grid) if binders.poison else None
        if self._poison is not None:
            self.calls = self._poison.between(self.calls)
        self._joined = list(_joined(self.calls))

    def _view(self, value: PlannedValue) -> Array:
        assert value.offset is not None and value.shape is not None
        end = value.offset + size_bytes(value.dtype, value.shape)
        return self._arena[value.offset : end].view(numpy_dtype(value.dtype)).reshape(value.shape)

    def _prepared(self, step: Step) -> Callable[[], object]:
        """A call that runs a step; that of a program returns its statistics."""
        match step:
            case KernelStep():
                return self._binders.kernel(step.kernel, [self.values[name] for name in step.arguments])
            case ProgramStep():
                return self._binders.program(step, self.values)
            case NumpyStep():
                return lambda: self._run_numpy(step)
            case ControlStep():
                return self._control(step)
            case GridStep():
                assert self._binders.grid is not None
                return self._binders.grid.kernel(step, self._on_device)
            case CopyStep():
                assert self._binders.grid is not None
                return self._binders.grid.copy(step, self._on_device, self.values)

    def observed(self, step: Step) -> Mapping[str, Value]:
        """The values by name, with copies of those on the GPU that a step has made."""
        grid = self._binders.grid
        made = [name for name in step.outputs if name in self._on_device]
        if grid is None or not made:
            return self.values
        return {**self.values, **{name: grid.stream.download(self._on_device[name]) for name in made}}

    def _run_numpy(self, step: NumpyStep) -> None:
        where = f"model {self.plan.name}, step {step.name}"
        results = call_numpy(where, step, self._binders.numpy, [self.values[name] for name in step.inputs])
        self._store_results(step, results)

    def _store_results(self, step: NumpyStep | ControlStep, results: Sequence[Value]) -> None:
        for name, result in zip(step.outputs, results, strict=False):
            if name:
                self.store(f"step {step.name}", name, result)

    def store(self, where: str, name: str, value: Value) -> None:
        """Make `value` that of a name; ExecutorError if it has not the extents of its place.

        A value without a place may outlive the values in the arena that it is a view of.
        """
        place = self._places.get(name)
        if place is None:
            shared = isinstance(value, np.ndarray) and np.may_share_memory(value, self._arena)
            self.values[name] = _copied(value) if shared else value
            return
        shape = value.shape if isinstance(value, np.ndarray) else np.shape(value)
        if shape != place.shape:
            rule = f"{name} must have the extents {list(place.shape)}"
            raise ExecutorError(f"model {self.plan.name}, {where}: {rule}, got {list(shape)}")
        place[...] = value

    def start(self, inputs: Sequence[Value]) -> None:
        """Store the inputs of a run."""
        if self._poison is not None:
            self._poison.clear()
        for place, name, value in zip(self._input_places, self.plan.inputs, inputs, strict=True):
            if place is not None and type(value) is np.ndarray and value.shape == place.shape:
                place[...] = value
            else:
                self.store("input", name, value)

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """The outputs, in memory of their own, of one run on `inputs`."""
        self.start(inputs)
        for call in self._joined:
            call()
        return self.outputs()

    def timed(self) -> list[Span]:
        """Run all steps; what each of them, or each chain of kernels, took."""
        spans: list[Span] = []
        for call in self._joined:
            start = time.perf_counter_ns()
            made = call()
            if type(made) is bytes:
                spans.append(made)
            else:
                end = time.perf_counter_ns()
                spans.append((start, end, made if isinstance(made, RunStats) else None))
        return spans

    def outputs(self) -> list[Value]:
        """The outputs of the run before, in memory of their own."""
        if self._output_places is not None:
            return [place.copy() for place in self._output_places]
        return [_copied(self.values[name]) for name in self.plan.outputs]

    # --- control flow

    def _control(self, step: ControlStep) -> Callable[[], object]:
        bodies = {key: self._body(step, plan) for key, plan in step.bodies.items()}

        def run() -> None:
            try:
                results = CONTROL_FLOW[step.op](step.attributes, [self.values[name] for name in step.inputs], bodies)
            except ExecutorError:
                raise
            except (ValueError, IndexError, TypeError, AttributeError) as error:  # of values that do not fit
                raise ExecutorError(f"model {self.plan.name}, step {step.name}: {error}") from error
            self._store_results(step, results)

        return run

    def _body(self, step: ControlStep, plan: Plan) -> Body:
        runner = PlanRunner(plan, self._constants, self._binders)

        def row(output: int) -> tuple[Sequence[int], npt.DTypeLike]:
            planned = step.rows[output]
            return planned.shape or (), numpy_dtype(planned.dtype)

        return Body(runner.run, len(plan.outputs), row)


def _joined(calls: Sequence[Callable[[], object]]) -> Iterator[Callable[[], object]]:
    """The calls, kernels in a row as chains where this process has them."""
    for is_kernel, group in itertools.groupby(calls, lambda call: isinstance(call, BoundCall)):
        row = list(group)
        if is_kernel and len(row) > 1 and has_chains():
            yield CallChain(row)  # type: ignore[arg-type]  # all are BoundCall
        else:
            yield from row


def _copied(value: Value) -> Value:
    return value.copy() if isinstance(value, np.ndarray) else value


def _allocate(name: str, nbytes: int) -> npt.NDArray[np.uint8]:
    try:
        arena = aligned_bytes(nbytes)
    except (MemoryError, ValueError):
        raise ExecutorError(f"model {name}: cannot allocate {nbytes} bytes for intermediate results") from None
    arena[:] = 0
    return arena

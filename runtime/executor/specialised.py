# SPDX-License-Identifier: Apache-2.0
"""Executors of a network for shapes that were not known when it was compiled.

Each set of shapes is compiled at its first run, and kept until _MOST others were used after it.
Where there is no compiler, as on a board, NumPy functions run instead, and a warning says so.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.errors import ExecutorError, ModelWarning
from vdla.runtime.executor.executor import Executor
from vdla.runtime.executor.plan import Plan, shape_text
from vdla.support.errors import Error
from vdla.support.symbolic_shapes import Shape, shape_words

Array = npt.NDArray[Any]
SpecialiseModel = Callable[[Mapping[str, Shape]], Artifact]
"""The network for inputs of these shapes."""
_MOST = 16
_COMPILER = ("onnx", "llvmlite")


def specialiser_here(artifact: Artifact) -> SpecialiseModel | None:
    """What compiles a network for other shapes; None without a recipe or a compiler."""
    if artifact.recipe is None or not all(find_spec(package) for package in _COMPILER):
        return None
    module = import_module("vdla.runtime.network.compile_network")  # not there on a board
    made: SpecialiseModel = module.specialiser_of(artifact.recipe, artifact.plan.name)
    return made


class _Known(NamedTuple):
    """The executor and the plan of the inputs of a run: name, type and shape of each."""

    kinds: tuple[tuple[str, np.dtype[Any], Shape], ...]
    executor: Executor
    plan: Plan

    def fits(self, inputs: Mapping[str, Array]) -> bool:
        """Whether inputs are of these kinds."""
        if type(inputs) is not dict or len(inputs) != len(self.kinds):
            return False
        for name, dtype, shape in self.kinds:
            x = inputs.get(name)
            if type(x) is not np.ndarray or x.dtype is not dtype or x.shape != shape:
                return False
        return True


class SpecialisedExecutors:
    """Chooses the executor of each run; `make` gives that of an artifact."""

    def __init__(self, make: Callable[[Artifact], Executor], specialise: SpecialiseModel | None) -> None:
        self._make, self._specialise = make, specialise
        self._executors: OrderedDict[tuple[Shape, ...], Executor] = OrderedDict()
        self._constants: WeakValueDictionary[bytes, Array] = WeakValueDictionary()
        self._warned: set[tuple[Shape, ...]] = set()
        self._last: _Known | None = None

    def chosen(self, general: Callable[[], Executor], inputs: Mapping[str, Array]) -> tuple[Executor, Plan | None]:
        """The executor for these inputs, and their plan if it is that of the run before.

        `general` makes the executor of the network as it was compiled.

        Raises:
            ExecutorError: inputs that do not fit the model.
        """
        last = self._last
        if last is not None and last.fits(inputs):
            return last.executor, last.plan
        executor = self.executor(general(), inputs)
        plan = executor.known_plan(inputs)
        self._last = None  # never one that other runs have closed since
        if plan is not None:
            kinds = tuple((name, array.dtype, array.shape) for name, array in inputs.items())
            self._last = _Known(kinds, executor, plan)
        return executor, None

    def executor(self, general: Executor, inputs: Mapping[str, Array]) -> Executor:
        """The executor for inputs of these shapes: `general`, if it has a plan for them.

        Raises:
            ExecutorError: inputs that do not fit the model.
        """
        if general.artifact.recipe is None:
            return general
        plan = general.plan_for(inputs)
        if not plan.is_open:
            return general
        key = tuple([inputs[name].shape for name in plan.inputs])
        executor = self._executors.get(key)
        if executor is not None:
            self._executors.move_to_end(key)
            return executor
        shapes = dict(zip(plan.inputs, key, strict=True))
        if self._specialise is None:
            self._warn(general.artifact, shapes, key)
            return general
        executor = self._executors[key] = self._make(self._artifact(plan, shapes))
        if len(self._executors) > _MOST:
            self._executors.popitem(last=False)[1].close()
        return executor

    def _artifact(self, plan: Plan, shapes: Mapping[str, Shape]) -> Artifact:
        """The network for these shapes; equal constants are in memory once."""
        assert self._specialise is not None
        try:
            made = self._specialise(shapes)
        except Error as error:
            got = ", ".join(f"{name}{shape_text(shape)}" for name, shape in shapes.items())
            raise ExecutorError(
                f"model {plan.name}: inputs must have shapes that it takes, got {got}: {error}"
            ) from error
        return replace(made, constants={name: self._shared(value) for name, value in made.constants.items()})

    def _shared(self, value: Array) -> Array:
        import hashlib

        if value.dtype == object or not value.ndim:
            return value
        content = np.ascontiguousarray(value).view(np.uint8) if value.size else value
        digest = hashlib.sha256(f"{value.dtype}{value.shape}".encode() + content.tobytes()).digest()
        return self._constants.setdefault(digest, value)

    def _warn(self, artifact: Artifact, shapes: Mapping[str, Shape], key: tuple[Shape, ...]) -> None:
        """Say once for each set of shapes that NumPy functions run."""
        if key in self._warned:
            return
        self._warned.add(key)
        plans = [plan for plan in artifact.plans if not plan.is_open]
        known = " or ".join(plan.input_shapes for plan in plans) or "no shapes"
        got = ", ".join(f"{name}{shape_text(shape)}" for name, shape in shapes.items())
        option = " ".join(f"{name}={shape_words(shape)}" for name, shape in shapes.items())
        text = f"inputs should have the shapes {known}, got {got}, which run on NumPy functions without a compiler"
        warnings.warn(
            f"model {artifact.plan.name}: {text}; vdla compile --shape {option}, where there is one, adds them",
            ModelWarning,
            4,
        )

    def close(self) -> None:
        """Free the memory of all executors."""
        self._last = None
        while self._executors:
            self._executors.popitem()[1].close()

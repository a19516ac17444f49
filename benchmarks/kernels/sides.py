# SPDX-License-Identifier: Apache-2.0
"""Both sides of a comparison: a compiled model and ONNX Runtime, their arrays bound before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.benchmarks.kernels.operators import KernelCase
from vdla.runtime.executor.bind_kernels import KernelBinder
from vdla.runtime.executor.plan_runner import Binders, PlanRunner
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.numpy_operators import FUNCTIONS
from vdla.support.arrays import Array


class OurKernels:
    """The kernels of a case, compiled for this CPU, with inputs that stay in their memory.

    A plan that reuses the memory of an input gets the input again before each run.
    """

    def __init__(self, case: KernelCase) -> None:
        artifact = compile_network(case.model().SerializeToString()).artifact
        self._inputs = list(case.inputs)
        self._runner = PlanRunner(
            artifact.plan, artifact.constants, Binders(KernelBinder(artifact).bind, _no_program, FUNCTIONS)
        )
        self.results = [np.asarray(result) for result in self._runner.run(self._inputs)]
        self._keeps_inputs = all(
            np.array_equal(self._runner.values[name], array)
            for name, array in zip(artifact.plan.inputs, self._inputs, strict=True)
        )

    def __call__(self) -> None:
        """One run."""
        if not self._keeps_inputs:
            self._runner.start(self._inputs)
        self._runner.timed()

    def current_results(self) -> list[Array]:
        """The results of the last run."""
        return [np.asarray(result) for result in self._runner.outputs()]


def _no_program(*_: Any) -> Callable[[], object]:  # noqa: ANN401
    raise AssertionError("a network for a CPU has no programs")


class TheirKernels:
    """ONNX Runtime on one thread, with inputs and outputs in arrays of ours."""

    def __init__(self, case: KernelCase) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        model = case.model().SerializeToString()
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        for value, array in zip(self._session.get_inputs(), case.inputs, strict=True):
            self._binding.bind_ortvalue_input(value.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        self.results = [_result(value) for value in self._session.get_outputs()]
        for value, array in zip(self._session.get_outputs(), self.results, strict=True):
            self._binding.bind_output(value.name, "cpu", 0, array.dtype.type, list(array.shape), array.ctypes.data)
        self()

    def __call__(self) -> None:
        """One run."""
        self._session.run_with_iobinding(self._binding)


def _result(value: Any) -> Array:  # noqa: ANN401  onnxruntime has no types
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    return np.empty(value.shape, kinds[value.type])

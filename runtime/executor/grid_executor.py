# SPDX-License-Identifier: Apache-2.0
"""The part of a network on a GPU: its kernels, its constants, its copies, all in one stream.

Kernels are started and not waited for; a copy to the host waits for all that was started before.
Constants are copied to the device once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.grid_code import GridPart
from vdla.runtime.executor.plan import CopyStep, DeviceValue, GridStep, Plan
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.grid.protocol import DeviceArray, GridDevice

Array = npt.NDArray[Any]
DeviceArrays = Mapping[str, DeviceArray]


class GridExecutor:
    """The kernels of an artifact on an open device, loaded when needed, as constants are."""

    def __init__(self, part: GridPart, constants: Mapping[str, Array], device: GridDevice) -> None:
        self.device, self.stream = device, device.stream()
        self._part, self._constants = part, constants
        self._kernels: dict[int, DeviceKernel] = {}
        self._uploaded: dict[str, DeviceArray] = {}

    def arrays(self, plan: Plan) -> DeviceArrays:
        """The values of a plan in device memory: parts of one arena.

        Raises:
            ExecutorError: the device allows no arrays where the plan has them.
            GridDeviceError: the device runs out of memory.
        """
        result: dict[str, DeviceArray] = {}
        arena = self.device.empty((plan.device_bytes,), "uint8")
        for name, value in plan.values.items():
            if not isinstance(value, DeviceValue):
                continue
            assert value.offset is not None and value.shape is not None
            if value.offset % self.device.alignment:
                rule = f"{name} must lie at a multiple of {self.device.alignment} on {self.device.name}"
                raise ExecutorError(f"model {plan.name}: {rule}, got {value.offset}")
            result[name] = arena.view(value.offset, value.shape or (1,), value.dtype)  # kernels have no rank 0
        return result

    def kernel(self, step: GridStep, arrays: DeviceArrays) -> Callable[[], object]:
        """A call that starts the kernels of a step."""
        if step.kernel not in self._kernels:
            self._kernels[step.kernel] = DeviceKernel(self._part.kernels[step.kernel], self.device)
        kernel = self._kernels[step.kernel]
        given = [
            arrays[name] if name in arrays else self._constant(name, argument.dtype)
            for name, argument in zip(step.arguments, kernel.signature.arguments, strict=True)
        ]
        return kernel.bind(self.stream, given)

    def copy(self, step: CopyStep, arrays: DeviceArrays, values: Mapping[str, Any]) -> Callable[[], object]:
        """A call that copies a value to the device or back."""
        (source,), (target,) = step.inputs, step.outputs
        if target in arrays:
            return lambda: self.stream.upload(values[source], arrays[target])
        return lambda: self.stream.download(arrays[source], values[target])

    def _constant(self, name: str, dtype: str) -> DeviceArray:
        if name not in self._uploaded:
            value = self._constants[name]
            array = self.device.empty(value.shape or (1,), dtype)
            self._uploaded[name] = self.stream.upload(value, array)
        return self._uploaded[name]

"""A network as a list of kernel calls, bound to their arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.network_cpu.buffers import ResultBuffers
from vdla.benchmarks.network_cpu.layers import NetworkLayer, needed_until
from vdla.compiler import ir, te
from vdla.compiler.operators.cpu import default_schedule
from vdla.runtime.native import BoundCall, Kernel, build

Array = NDArray[Any]
Operator = Callable[..., te.Tensor]  # of placeholders for the arrays of a kernel
KernelPart = tuple[Operator, list[Array]]


class BoundNetwork:
    """Kernels in sequence; `arrays` has the result of each layer while it is needed."""

    def __init__(self, layers: Sequence[NetworkLayer], source: str, image: Array) -> None:
        self.arrays: dict[str, Array] = {source: image}
        self.calls: list[BoundCall] = []
        self.compile_seconds = 0.0
        self._kernels: dict[str, Kernel] = {}
        self._buffers = ResultBuffers(needed_until(layers))
        self._result = layers[-1].y

    def add(self, number: int, y: str, operator: Operator, arrays: Sequence[Array]) -> None:
        """Append the kernel of `operator`; its result is tensor `y`, of layer `number`."""
        inputs = [te.placeholder(array.shape, array.dtype.name, f"x{n}") for n, array in enumerate(arrays)]
        result = operator(*inputs)
        out = self._buffers.take(y, [int(extent) for extent in result.shape], result.dtype)
        fn = te.create_function(inputs, [result], "layer")
        self.calls.append(self._kernel(fn).bind(*arrays, out=out))
        self.arrays[y] = out
        self._buffers.release(number)

    def _kernel(self, fn: ir.Function) -> Kernel:
        """The kernel of a function, compiled once for equal layers."""
        start, text = time.process_time(), str(fn)
        if text not in self._kernels:
            self._kernels[text] = build(default_schedule(fn).fn)
        self.compile_seconds += time.process_time() - start
        return self._kernels[text]

    def __call__(self) -> None:
        """Run all kernels."""
        for call in self.calls:
            call()

    @property
    def result(self) -> Array:
        """The result of the last layer."""
        return np.asarray(self.arrays[self._result])

"""The kernels of an artifact, loaded into this process and bound to arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from vdla.runtime.artifact import Artifact
from vdla.runtime.native.kernel import BoundCall, Kernel

Array = npt.NDArray[Any]


class KernelBinder:
    """Loads each kernel at its first use."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self._loaded: dict[int, Kernel] = {}

    def bind(self, index: int, arrays: Sequence[Array]) -> Callable[[], object]:
        """A call of a kernel on these arrays, inputs before outputs."""
        kernel = self._kernel(index)
        arrays = [array.reshape(array.shape or (1,)) for array in arrays]  # kernels have no rank 0
        return BoundCall(kernel, arrays, tuple(arrays[-len(kernel.signature.outputs) :]))

    def _kernel(self, index: int) -> Kernel:
        if index not in self._loaded:
            from vdla.runtime.native.jit import load_object

            code = self.artifact.kernels[index]
            loaded = load_object(code.object, code.signature.symbol)
            self._loaded[index] = Kernel(code.signature, loaded.addresses[code.signature.symbol], loaded)
        return self._loaded[index]

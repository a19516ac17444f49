# SPDX-License-Identifier: Apache-2.0
"""The kernels of an artifact, loaded into this process and bound to arrays.

Machine code ends in an illegal instruction on an x86-64 CPU that lacks a feature it uses, so
features are compared before the first kernel is loaded. Boards have one CPU, so that the
architecture suffices for their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy.typing as npt

from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.native.arguments import NativeError
from vdla.runtime.native.elf_loader import ElfLoader
from vdla.runtime.native.kernel import BoundCall, Kernel
from vdla.support.processor import cpu_flags

_SAME = """
avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 f16c fma gfni movbe
popcnt ssse3 vaes vpclmulqdq
"""
_FLAGS = {name: name for name in _SAME.split()} | {
    "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
}
"""LLVM's names of features of instructions, and those of Linux."""


def require_features(where: str, cpu: str, triple: str, features: Iterable[str]) -> None:
    """Refuse kernels for features that this CPU lacks; what the system does not tell is trusted.

    Raises:
        NativeError: with the features that are missing.
    """
    flags = cpu_flags()
    if not triple.startswith("x86_64") or "sse2" not in flags:
        return
    missing = sorted(name for name in features if name in _FLAGS and _FLAGS[name] not in flags)
    if missing:
        lacks = f"compiled for {cpu}; this one has no {', '.join(missing)}"
        raise NativeError(f"{where}: kernels must be for this CPU, got kernels {lacks}")


Array = npt.NDArray[Any]
POOL = frozenset({"vdla_parallel", "vdla_set_threads", "vdla_threads"})
"""The functions of the thread pool."""


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
            self._require_features()
            code = self.artifact.kernels[index]
            symbol = code.signature.symbol
            loaded = _loader().load(code.object, f"kernel {symbol}")
            if symbol not in loaded.addresses:
                raise NativeError(f"kernel {symbol}: object must define the function {symbol}, got another object")
            self._loaded[index] = Kernel(code.signature, loaded.addresses[symbol], loaded)
        return self._loaded[index]

    def _require_features(self) -> None:
        cpu, where = self.artifact.cpu, f"model {self.artifact.plan.name}"
        if not self._loaded:
            require_features(where, cpu.name, cpu.triple, cpu.features)


@cache
def _loader() -> ElfLoader:
    """The loader of this process; all kernels share one pool of threads."""
    try:
        from vdla.runtime.native.kernel import thread_pool

        return ElfLoader(POOL, dict(thread_pool().addresses))
    except ImportError:  # no LLVM: the pool of the first kernel that has one
        return ElfLoader(POOL)

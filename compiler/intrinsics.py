# SPDX-License-Identifier: Apache-2.0
"""The tensor intrinsics of all targets, one module an instruction class.

`dma`, `gemm`, `vector` and `requantise` are the accelerator's; `dot`, `window_dot` and `bitserial`
are CPUs', `mma` is that of tensor cores of GPUs. Each has functions that return an `Intrinsic` for
a configuration or for a target: `s.tensorize("sums", gemm.gemm(config))`. The lowering of an
accelerator intrinsic of your own folds its steps into instructions with `fold_compute`, which takes
their `ComputeFields`; that of an instruction of your own follows from its extension
(`extension_intrinsic`; `machine_intrinsics` has those of all extensions of a machine,
`stage_intrinsic` that of its stage on the way out).

Those of CPUs and GPUs load at their first use, since they need LLVM.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vdla.compiler.codegen.vdla import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import stage_intrinsic
from vdla.compiler.extensions import cpu_intrinsics, extension_intrinsic, machine_intrinsics

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm.intrinsics import bitserial, dot, mma, window_dot

__all__ = [
    "ComputeFields",
    "bitserial",
    "cpu_intrinsics",
    "dma",
    "dot",
    "extension_intrinsic",
    "fold_compute",
    "gemm",
    "machine_intrinsics",
    "mma",
    "requantise",
    "stage_intrinsic",
    "vector",
    "window_dot",
]

_WITH_LLVM = ("bitserial", "dot", "mma", "window_dot")


def __getattr__(name: str) -> Any:  # noqa: ANN401  a module
    if name in _WITH_LLVM:
        return import_module(f"vdla.compiler.codegen.llvm.intrinsics.{name}")
    raise AttributeError(f"module 'vdla.intrinsics' has no attribute {name!r}; it has {', '.join(__all__)}")

# SPDX-License-Identifier: Apache-2.0
"""The tensor intrinsics of all targets, one module an instruction class.

`dma`, `gemm`, `vector` and `requantise` are the accelerator's; `dot`, `window_dot` and `bitserial`
are CPUs', `mma` is that of tensor cores of GPUs. Each has functions that return an `Intrinsic` for
a configuration or for a target: `s.tensorize("sums", gemm.gemm(config))`. The lowering of an
accelerator intrinsic of your own folds its steps into instructions with `fold_compute`, which takes
their `ComputeFields`; that of an instruction of your own follows from its extension
(`extension_intrinsic`; `machine_intrinsics` has those of all extensions of a machine,
`stage_intrinsic` that of its stage on the way out).
"""

from vdla.compiler.codegen.llvm.intrinsics import bitserial, dot, mma, window_dot
from vdla.compiler.codegen.vdla import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import stage_intrinsic
from vdla.compiler.extensions import cpu_intrinsics, extension_intrinsic, machine_intrinsics

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

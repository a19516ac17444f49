# SPDX-License-Identifier: Apache-2.0
"""The public names of `vdla.compiler.intrinsics`, as `vdla.intrinsics`."""

from typing import TYPE_CHECKING

from vdla.compiler.intrinsics import (
    ComputeFields,
    cpu_intrinsics,
    dma,
    extension_intrinsic,
    fold_compute,
    gemm,
    machine_intrinsics,
    requantise,
    stage_intrinsic,
    vector,
)
from vdla.compiler.intrinsics import __doc__ as __doc__
from vdla.compiler.intrinsics import __getattr__ as __getattr__

if TYPE_CHECKING:
    from vdla.compiler.intrinsics import bitserial, dot, mma, window_dot

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

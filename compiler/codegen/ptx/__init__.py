# SPDX-License-Identifier: Apache-2.0
"""Code generation for NVIDIA's GPUs: from a function to kernels in PTX, through LLVM, and what
`ptxas` says of them."""

from __future__ import annotations

from vdla.compiler.codegen.ptx.architectures import PtxError
from vdla.compiler.codegen.ptx.assemble import KernelResources, PtxAssembly, assemble_ptx, find_ptxas
from vdla.compiler.codegen.ptx.compile import PtxSource, emit_ptx
from vdla.compiler.target import PTX_ARCHITECTURES

__all__ = [
    "PTX_ARCHITECTURES",
    "KernelResources",
    "PtxAssembly",
    "PtxError",
    "PtxSource",
    "assemble_ptx",
    "emit_ptx",
    "find_ptxas",
]

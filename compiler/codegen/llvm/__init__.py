# SPDX-License-Identifier: Apache-2.0
"""Code generation for CPUs: from a function to an object file with a C entry, through LLVM."""

from __future__ import annotations

from vdla.compiler.codegen.llvm.compile import (
    NativeModule,
    NativeObject,
    SignatureError,
    compile_module,
    compile_native,
    emit_native,
    extent_of,
    signature_of,
)
from vdla.compiler.codegen.llvm.intrinsic_emitter import IntrinsicEmitter
from vdla.compiler.codegen.llvm.loops import ROLLED
from vdla.compiler.codegen.llvm.objects import POOL_SYMBOLS, CodegenError, chain_object, pool_object

__all__ = [
    "POOL_SYMBOLS",
    "ROLLED",
    "CodegenError",
    "IntrinsicEmitter",
    "NativeModule",
    "NativeObject",
    "SignatureError",
    "chain_object",
    "compile_module",
    "compile_native",
    "emit_native",
    "extent_of",
    "pool_object",
    "signature_of",
]

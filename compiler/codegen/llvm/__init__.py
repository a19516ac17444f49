"""Code generation for CPUs: from a function to an object file with a C entry, through LLVM."""

from __future__ import annotations

from vdla.compiler.codegen.llvm.compile import NativeObject, compile_module, compile_native
from vdla.compiler.codegen.llvm.function_signature import SignatureError, signature_of
from vdla.compiler.codegen.llvm.objects import CodegenError

__all__ = ["CodegenError", "NativeObject", "SignatureError", "compile_module", "compile_native", "signature_of"]

"""Native code as `vdla.native`: kernels of shared libraries, threads, object files for any target.

`NativeLibrary` needs NumPy only; `compile_native` loads LLVM at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdla.runtime.native import *
from vdla.runtime.native import __all__ as _RUNTIME

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm import compile_native as compile_native

__all__ = [*_RUNTIME, "compile_native"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a public function
    if name != "compile_native":
        raise AttributeError(f"module 'vdla.native' has no attribute {name!r}; it has {', '.join(__all__)}")
    from vdla.compiler.codegen.llvm import compile_native

    return compile_native

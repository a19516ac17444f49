# SPDX-License-Identifier: Apache-2.0
"""Native code as `vdla.native`: kernels of shared libraries, threads, object files for any target.

`NativeLibrary` needs NumPy only; `compile_native` and `best_register_tile` load the compiler at
their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdla.runtime.native import *
from vdla.runtime.native import __all__ as _RUNTIME

if TYPE_CHECKING:
    from vdla.compiler.codegen.llvm import compile_native as compile_native
    from vdla.compiler.operators.cpu.register_tile import best_register_tile as best_register_tile

__all__ = [*_RUNTIME, "best_register_tile", "compile_native"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a public function
    if name == "compile_native":
        from vdla.compiler.codegen.llvm import compile_native

        return compile_native
    if name == "best_register_tile":
        from vdla.compiler.operators.cpu.register_tile import best_register_tile

        return best_register_tile
    raise AttributeError(f"module 'vdla.native' has no attribute {name!r}; it has {', '.join(__all__)}")

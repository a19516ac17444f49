"""The tensor intrinsics of all targets, one module an instruction class.

`dma`, `gemm`, `vector` and `requantise` are the accelerator's; `dot`, `window_dot` and `bitserial`
are CPUs'. Each has functions that return an `Intrinsic` for a configuration or for a target:
`s.tensorize("sums", gemm.gemm(config))`.
"""

from vdla.compiler.codegen.llvm.intrinsics import bitserial, dot, window_dot
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector

__all__ = ["bitserial", "dma", "dot", "gemm", "requantise", "vector", "window_dot"]

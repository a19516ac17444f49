# SPDX-License-Identifier: Apache-2.0
"""The arrays of the kernels of a grid: what every writer of such kernels asks of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from vdla.compiler import ir
from vdla.compiler.abi import Argument, ExtentExpr
from vdla.compiler.codegen.llvm import extent_of
from vdla.compiler.ir import GridKernel
from vdla.support.errors import Error


def check_elements(fn: ir.Function, kernels: Sequence[GridKernel], error: type[Error]) -> None:
    """Refuse, by `error`, arrays whose elements an int32 cannot count."""
    for buffer in (buffer for kernel in kernels for buffer in kernel.buffers.values()):
        count = prod(extent for extent in buffer.shape if isinstance(extent, int))
        if count > ir.MAX_EXTENT:
            raise error(f"{fn.name}: {buffer.name} must have at most {ir.MAX_EXTENT} elements, got {count}")


def temporaries_of(fn: ir.Function, kernels: Sequence[GridKernel]) -> tuple[Argument, ...]:
    """The arrays between kernels, which exist in device memory during a call."""
    between = {name: kernel.buffers[name] for kernel in kernels for name in kernel.params if name not in fn.params}
    return tuple(
        Argument(name, buffer.dtype, tuple(extent_of(f"{fn.name}: extent of {name}", e) for e in buffer.shape), True)
        for name, buffer in between.items()
    )


def groups_of(fn: ir.Function, kernel: GridKernel) -> tuple[ExtentExpr, ...]:
    """The groups of a kernel's grid, along x, y and z."""
    return tuple(extent_of(f"{fn.name}: grid", extent) for extent in kernel.grid)

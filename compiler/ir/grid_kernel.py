# SPDX-License-Identifier: Apache-2.0
"""A kernel: what one launch on a GPU runs, a body for each thread of each block of a grid.

The variables that are free in the body are the axes of the grid (`blockIdx.x` to `threadIdx.z`) and
the symbolic extents of the function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler.ir.dtypes import storage_dtype
from vdla.compiler.ir.names import BLOCK_AXES, THREAD_AXES
from vdla.compiler.ir.nodes import Buffer, Extent, Stmt
from vdla.compiler.ir.printer import extent_text, stmt_text

_Grid = tuple[Extent, Extent, Extent]
_ThreadGrid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GridKernel:
    """One launch: `grid` blocks, each of `block` threads, both as extents along x, y and z.

    `params` are the global buffers it accesses: parameters of the function, and temporaries between
    its kernels. `buffers` has all that the body accesses; those in "local" are allocated by the
    `Alloc` statements of the body, those in "shared" exist while a block runs. A barrier of a warp
    stops `warp` threads, consecutive in x, then y, then z.
    """

    name: str
    grid: _Grid
    block: _ThreadGrid
    params: tuple[str, ...]
    buffers: Mapping[str, Buffer]
    body: Stmt
    scalars: tuple[str, ...] = ()
    warp: int = 1

    @property
    def threads(self) -> int:
        """The number of threads in a block."""
        return prod(self.block)

    @property
    def shared(self) -> tuple[Buffer, ...]:
        """The buffers that each block has a copy of."""
        return tuple(buffer for buffer in self.buffers.values() if buffer.scope == "shared")

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block."""
        return sum(prod(buffer.dims) * storage_dtype(buffer.dtype).itemsize for buffer in self.shared)

    @property
    def extents(self) -> dict[str, Extent]:
        """The extent of each axis of the grid, by name."""
        return dict(zip((*BLOCK_AXES, *THREAD_AXES), (*self.grid, *self.block), strict=True))

    def __str__(self) -> str:
        sizes = (", ".join(map(extent_text, extents)) for extents in (self.grid, self.block))
        grid, block = sizes
        lines = [f"kernel {self.name}({', '.join(self.params)}) of ({grid}) blocks of ({block}) threads:"]
        lines += [f"    {b.name}: {b.dtype}[{', '.join(map(extent_text, b.shape))}] in shared" for b in self.shared]
        return "\n".join([*lines, *(f"    {line}" for line in stmt_text(self.body).split("\n"))])

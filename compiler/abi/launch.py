"""How to start a kernel of a grid of threads."""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.abi.signature import ExtentExpr


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a kernel: its name, the buffers and symbolic extents it takes, and its grid.

    `groups` are the groups of the grid and `threads` the threads of a group, each along x, y, z.
    `shared_bytes` is the shared memory of a group that the launch must ask for; what the kernel
    declares itself is not part of it.
    """

    kernel: str
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    groups: tuple[ExtentExpr, ...]
    threads: tuple[int, ...]
    shared_bytes: int = 0

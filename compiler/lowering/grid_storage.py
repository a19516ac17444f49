# SPDX-License-Identifier: Apache-2.0
"""Place storage on a GPU: an intermediate buffer is shared by a block of threads, local to one
thread, or global.

A shared buffer holds what all threads of a block access while the loops around its accesses, other
than those of threads, stand still. A buffer without a scope is local if one thread alone accesses
it, else global and of full shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.analysis import LeafBlock, written_buffers
from vdla.compiler.arith import Linear, Ranges, function_ranges
from vdla.compiler.ir import BLOCK_AXES, THREAD, THREAD_AXES
from vdla.compiler.lowering.live_window import LeafAccess, LiveWindow, align_strides, live_windows, wants_double_buffer
from vdla.compiler.lowering.storage import (
    Loops,
    StoragePlan,
    accesses_of,
    allocation_depth,
    hoisted_loop,
    with_storage,
)

SCOPES = ("shared", "warp", "local")

_MOVING = {"shared": THREAD_AXES, "warp": THREAD_AXES[:1], "local": ()}
"""The axes along which the threads differ that have a buffer in common."""


def place_grid_storage(fn: ir.Function) -> ir.Function:
    """`fn` with an Alloc around the accesses of each intermediate buffer, shrunk to its live part.

    for i in range(8):  # blockIdx.x                for i in range(8):  # blockIdx.x
        for j in range(4):  # threadIdx.x               with alloc(t):
            for k in range(4):  # threadIdx.x               for j in range(4):  # threadIdx.x
                t[i * 4 + k] = ...             ->               for k in range(4):  # threadIdx.x
            for k2 in range(4):                                     t[k] = ...
                ... t[i * 4 + k2]                               for k2 in range(4): ... t[k2]
    """
    ranges = function_ranges(fn)
    plans = {name: _plan(fn.buffers[name], touching, ranges) for name, touching in accesses_of(fn).items()}
    return with_storage(fn, plans)


def _plan(buffer: ir.Buffer, accesses: list[LeafAccess], ranges: Ranges) -> StoragePlan:
    """The placement of a buffer."""
    touching = list({id(access.leaf): access.leaf for access in accesses}.values())
    writers = [leaf for leaf in touching if buffer.name in written_buffers(leaf.block)]
    around = touching[0].loops[: allocation_depth(touching, writers, accesses)]
    scope = buffer.scope if buffer.scope in SCOPES else _scope_of(touching, around)
    if scope == "global":
        full = tuple(LiveWindow(Linear({}), extent) for extent in buffer.shape)
        return StoragePlan(replace(buffer, scope="global"), None, full, None)
    moving = _MOVING[scope]
    still = tuple(loop for loop in around if not _is_bound(loop, moving))
    windows = tuple(live_windows(accesses, buffer, {loop.var for loop in still}, ranges))
    shape = align_strides(buffer.name, tuple(window.extent for window in windows), writers)
    turns = [loop.var for loop in around if THREAD not in loop.annotations] if wants_double_buffer(writers) else []
    parity = turns[-1] if turns else None
    new = replace(buffer, shape=shape if parity is None else (2, *shape), scope=scope)
    return StoragePlan(new, _place(scope, around, new, parity), windows, parity)


def _scope_of(touching: Iterable[LeafBlock], around: Loops) -> str:
    """The scope of a buffer without one: "local" if all its accesses are of one thread."""
    bound = {loop.var for leaf in touching for loop in leaf.loops if THREAD in loop.annotations}
    return "local" if around and bound <= {loop.var for loop in around} else "global"


def _place(scope: str, around: Loops, buffer: ir.Buffer, parity: str | None) -> str | None:
    """The loop inside which a buffer is allocated: that of the block, or the thread's innermost."""
    if scope == "shared":
        blocks = [loop.var for loop in around if _is_bound(loop, BLOCK_AXES)]
        return blocks[-1] if blocks else None
    names = [loop.var for loop in around]
    return hoisted_loop(around if parity is None else around[: names.index(parity)], buffer)


def _is_bound(loop: ir.For, axes: tuple[str, ...]) -> bool:
    """Whether a loop is bound to one of `axes`."""
    return loop.annotations.get(THREAD) in axes

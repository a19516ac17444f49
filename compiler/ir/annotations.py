"""Reserved annotations of blocks and loops; all others belong to the user and mean nothing here."""

from __future__ import annotations

ATOMIC = "atomic"  # of a block: its threads combine into one element
STARTS = "starts"  # of a block: its reduction starts from a given value, not the identity
STRIPS = "strips"  # of a block: the parts of a computation that waits for transfers
THREAD = "thread"  # of a loop: the grid axis it is bound to

BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")  # of the grid: the blocks
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")  # of a block: its threads
GRID_AXES = (*BLOCK_AXES, *THREAD_AXES)

RESERVED = {
    ATOMIC: "atomic",
    "double_buffer": "double_buffer",
    "intrinsic": "tensorize",
    "prefetch": "prefetch",
    "storage_align": "storage_align",
    STARTS: "init of the reduction",
    "store_at": "store_at",
    STRIPS: "strips",
    "tensorize": "tensorize",
    THREAD: "bind",
}
"""The primitive or construct that sets each."""

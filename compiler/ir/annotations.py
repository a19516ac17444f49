"""The annotations of blocks and loops to which the compiler gives a meaning; all others are the user's own."""

from __future__ import annotations

STARTS = "starts"  # of a block: its sums start from a value of their own
THREAD = "thread"  # of a loop: the axis of a grid that it is bound to

RESERVED = {
    "double_buffer": "double_buffer",
    "intrinsic": "tensorize",
    "prefetch": "prefetch",
    "storage_align": "storage_align",
    STARTS: "init of the reduction",
    "store_at": "store_at",
    "tensorize": "tensorize",
    THREAD: "bind",
}
"""What sets them: primitives, but for STARTS."""

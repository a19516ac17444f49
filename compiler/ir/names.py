# SPDX-License-Identifier: Apache-2.0
"""Fresh names: the loops, blocks and buffers of a function share one name space."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """The names in use in a function."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._used = set(names)

    def __contains__(self, name: str) -> bool:
        return name in self._used

    def fresh(self, name: str, owner: str) -> str:
        """Reserves `name` if free, else `owner_name`, else that with a number appended."""
        choice = name if name not in self._used else f"{owner}_{name}"
        base, count = choice, 1
        while choice in self._used:
            count += 1
            choice = f"{base}_{count}"
        self._used.add(choice)
        return choice


# --- reserved annotations -------------------------------------------------------------------------

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

# SPDX-License-Identifier: Apache-2.0
"""What the client knows of its memory, so that most calls need no message of their own.

Freed blocks are kept for the next allocation of the same size, which clears them. Writes, clears
and frees wait until something needs an answer; they are sent in their order.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence

from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.request_checks import require_integer, require_size
from vdla.runtime.remote.messages import Clear, Operation, Release

MOST_SPARE_BYTES = 1 << 24
MOST_SPARE_BLOCKS = 64


class ClientMemory:
    """The blocks of a session, used and spare, and the operations that wait."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._sizes: dict[int, int] = {}
        self._starts: list[int] = []
        self._spare: OrderedDict[int, int] = OrderedDict()  # address: bytes
        self._spare_bytes = 0
        self.waiting: list[Operation] = []
        self.parts: list[bytes] = []
        self.waiting_bytes = 0

    # --- blocks

    def size(self, nbytes: object) -> int:
        """The size of an allocation as a Python integer."""
        return require_size(self._where, nbytes)

    def add(self, address: int, nbytes: int) -> None:
        """A block that the server allocated."""
        self._sizes[address] = nbytes
        insort(self._starts, address)

    def reuse(self, nbytes: int) -> int | None:
        """A spare block of exactly this size, which is going to be cleared; None without one."""
        for address, size in self._spare.items():
            if size == nbytes:
                del self._spare[address]
                self._spare_bytes -= size
                self.add(address, size)
                self.waiting.append(Clear(address, size))
                return address
        return None

    def free(self, address: object) -> None:
        """Make a block spare."""
        start = require_integer(self._where, "address to free", address)
        if start not in self._sizes:
            raise DeviceError(f"{self._where}: address to free must be one that allocate returned, got {start}")
        nbytes = self._sizes.pop(start)
        self._starts.remove(start)
        self._spare[start] = nbytes
        self._spare_bytes += nbytes
        while self._spare_bytes > MOST_SPARE_BYTES or len(self._spare) > MOST_SPARE_BLOCKS:
            self._release_oldest()

    def release_spare(self) -> None:
        """Let all spare blocks go."""
        while self._spare:
            self._release_oldest()

    def _release_oldest(self) -> None:
        address, nbytes = self._spare.popitem(last=False)
        self._spare_bytes -= nbytes
        self.waiting.append(Release(address))

    def require(self, address: object, nbytes: object) -> tuple[int, int]:
        """A range that lies in one block, as Python integers; DeviceError for any other."""
        start = require_integer(self._where, "address", address)
        count = require_integer(self._where, "number of bytes", nbytes)
        index = bisect_right(self._starts, start) - 1
        block = self._starts[index] if index >= 0 else None
        if block is None or count < 0 or start + count > block + self._sizes[block]:
            raise DeviceError(f"{self._where}: access must lie in one allocated block, got {count} bytes at {start}")
        return start, count

    # --- operations that wait

    def wait(self, operation: Operation, part: bytes = b"") -> None:
        """Let an operation wait, with the bytes that it writes."""
        self.waiting.append(operation)
        if part:
            self.parts.append(part)
            self.waiting_bytes += len(part)

    def restore(self, operations: Sequence[Operation], parts: list[bytes]) -> None:
        """Let operations that were not executed wait again."""
        self.waiting, self.parts = [*operations, *self.waiting], parts + self.parts
        self.waiting_bytes = sum(map(len, self.parts))

    def take(self) -> tuple[list[Operation], list[bytes]]:
        """The operations that wait, which do not any more, and their bytes."""
        pending = self.waiting, self.parts
        self.waiting, self.parts, self.waiting_bytes = [], [], 0
        return pending

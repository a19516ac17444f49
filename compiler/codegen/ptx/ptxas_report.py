"""What `ptxas -v` prints of each kernel: registers, spills, stack, shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KERNEL = re.compile(r"Compiling entry function '(\S+)' for")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a kernel takes: the registers of a thread, the shared memory of a block in bytes.

    `stack` is the local memory of a thread in bytes; `spill_stores` and `spill_loads` are the bytes
    that it moves there and back because registers do not suffice, each counted once in the code.
    """

    kernel: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared_bytes: int

    @property
    def spills(self) -> int:
        """The bytes of all spills."""
        return self.spill_stores + self.spill_loads

    def __str__(self) -> str:
        sizes = f"{self.spill_stores} and {self.spill_loads} bytes spilled and reloaded, {self.stack} of stack"
        return f"{self.kernel}: {self.registers} registers, {sizes}, {self.shared_bytes} shared"


def kernel_resources(log: str) -> tuple[KernelResources, ...]:
    """The kernels in the output of `ptxas -v`, in its order."""
    found = []
    parts = _KERNEL.split(log)[1:]
    for kernel, text in zip(parts[::2], parts[1::2], strict=True):
        frame, used, shared = _FRAME.search(text), _USED.search(text), _SHARED.search(text)
        if frame is None or used is None:
            continue
        stack, stores, loads = map(int, frame.groups())
        size = int(shared[1]) if shared else 0
        found.append(KernelResources(kernel, int(used[1]), stores, loads, stack, size))
    return tuple(found)

# SPDX-License-Identifier: Apache-2.0
"""The memory of a board that the machine reaches: PYNQ's contiguous buffers, by physical address.

The invariant: of a buffer's two copies, the host's and the one in DRAM, `newer` says which is
valid. Buffers are flushed and invalidated whole: PYNQ.remote writes a flushed slice to the
beginning of its buffer.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.devices.board_link import BoardLink, one_line
from vdla.runtime.devices.device import ALIGNMENT, DeviceError
from vdla.runtime.devices.overlay import LoadedOverlay
from vdla.runtime.devices.request_checks import MOST_BYTES, require_integer, require_size

_KIB = 1024
_MIB = 1 << 20
_ROUND = 64 * _MIB


def memory_report(board: LoadedOverlay, nbytes: int, held_bytes: int) -> str:
    """Who holds the board's contiguous memory, of which this device has `held_bytes`, and how
    `nbytes` more can be had.
    """
    try:
        meminfo = board.meminfo()
    except Exception:  # not to describe the failure must not hide it
        meminfo = ""
    total, free = meminfo_kib(meminfo, "CmaTotal"), meminfo_kib(meminfo, "CmaFree")
    if total is None or free is None:
        return "free tensors, or raise the kernel's contiguous memory (cma=SIZE in bootargs, such as cma=256M)"
    has = f"the board has {total} KiB, {free} KiB of it free"
    held = -(-held_bytes // _KIB)
    others = total - free - held
    if others > 0 and nbytes <= (total - held) * _KIB:
        return f"{has}, this device holds {held} KiB; {_OTHERS[board.remote].format(others)}"
    wanted = -(-(total * _KIB + nbytes) // _ROUND) * _ROUND // _MIB
    return f"{has}; free tensors, or start the kernel with cma={wanted}M in its bootargs"


_OTHERS = {
    True: "{} KiB are held by other clients, perhaps by killed ones, whose memory the board keeps: "
    "end those that run, then restart the server of PYNQ.remote on the board",
    False: "{} KiB are held by other processes on the board: end them, notebooks that are open included",
}
"""By whether the board is remote, on the memory of others."""


def meminfo_kib(meminfo: str, field: str) -> int | None:
    """A field of /proc/meminfo in KiB, None where it has none of that name."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name == field and words and words[0].isdecimal():
            return int(words[0])
    return None


Bytes = NDArray[np.uint8]
_LEAST_BYTES = 8192  # smaller buffers lie beyond 4 GiB under XRT 2.17, where a 32-bit port does not reach


class Newer(Enum):
    """Which copy of a buffer is newer."""

    NEITHER = "neither"
    HOST = "host"
    MACHINE = "machine"


@dataclass(slots=True)
class BoardBlock:
    """An allocated block and its buffer, an array of bytes that PYNQ allocated."""

    address: int
    nbytes: int
    buffer: Any
    newer: Newer


class ContiguousMemory:
    """Blocks of at most `memory_bytes` together.

    On the board itself, a coherent port needs neither flush nor invalidate; a remote buffer always
    does, since they carry its bytes.
    """

    def __init__(self, link: BoardLink, memory_bytes: int, board: LoadedOverlay) -> None:
        self._link, self._limit, self._board = link, memory_bytes, board
        self._one_copy = board.coherent and not board.remote
        self._blocks: dict[int, BoardBlock] = {}
        self._unreleased: list[BoardBlock] = []  # freed while the connection was lost
        self._end = finalize(self, _release, self._blocks, self._unreleased, link, os.getpid())

    @property
    def holds_any(self) -> bool:
        """Whether the board holds anything for this memory."""
        return bool(self._blocks or self._unreleased)

    @property
    def held_bytes(self) -> int:
        """The bytes of all blocks."""
        return sum(block.nbytes for block in self._blocks.values())

    # --- blocks

    def allocate(self, nbytes: int) -> int:
        """The physical address of a zeroed block; DeviceError where the board has none."""
        where = self._link.where
        size = require_size(where, nbytes)
        free = self._limit - self.held_bytes
        if size > free:
            raise DeviceError(
                f"{where}: cannot allocate {size} bytes of DRAM, {free} of memory_bytes are left; "
                "free tensors or open the device with more memory_bytes"
            )
        buffer, address = self._buffer(size)
        try:
            self._require_reachable(address, size)
            buffer[:] = 0
            self._blocks[address] = BoardBlock(address, size, buffer, Newer.HOST)
        except BaseException:
            self._link.release("free a buffer", buffer.freebuffer)
            raise
        return address

    def _buffer(self, size: int) -> tuple[Any, int]:
        """A buffer and its address, which is asked for once: remotely, each access is a call."""
        buffer = None
        try:
            with self._link.calls(f"allocate {size} bytes of contiguous memory"):
                buffer = self._board.allocate(max(size, _LEAST_BYTES))
                return buffer, int(buffer.physical_address)
        except BaseException as error:
            if buffer is not None:
                self._link.release("free a buffer", buffer.freebuffer)
            if self._link.lost is not None or not isinstance(error, DeviceError):
                raise
            raise DeviceError(
                f"{self._link.where}: cannot allocate {size} bytes of contiguous memory "
                f"({one_line(error.__cause__ or error)}); {memory_report(self._board, size, self.held_bytes)}"
            ) from error

    def _require_reachable(self, address: int, size: int) -> None:
        if address % ALIGNMENT or not 0 <= address <= MOST_BYTES - size:
            raise DeviceError(
                f"{self._link.where}: address of contiguous memory must be a multiple of {ALIGNMENT} below 2**40, "
                f"got {address:#x}"
            )
        if any(
            address < block.address + block.nbytes and block.address < address + size for block in self._blocks.values()
        ):
            raise DeviceError(
                f"{self._link.where}: contiguous memory must be handed out once, got {address:#x} again; "
                "restart the server of PYNQ.remote on the board"
            )

    def free(self, address: int) -> None:
        """Free the block at an address; where the connection is lost, `close` tries it again."""
        key = require_integer(self._link.where, "address to free", address)
        block = self._blocks.pop(key, None)
        if block is None:
            raise DeviceError(f"{self._link.where}: address to free must be one that allocate returned, got {address}")
        if self._link.lost is not None:
            self._unreleased.append(block)
        self._link.release("free a buffer", block.buffer.freebuffer)

    def close(self) -> None:
        """Free all blocks."""
        self._end()

    # --- the host's copy

    def require_window(self, address: int, nbytes: int) -> BoardBlock:
        """The block that has `nbytes` at an address; DeviceError unless they lie in one."""
        where = self._link.where
        address = require_integer(where, "address", address)
        nbytes = require_integer(where, "number of bytes", nbytes)
        starts = sorted(self._blocks)
        index = bisect_right(starts, address) - 1
        block = self._blocks[starts[index]] if index >= 0 else None
        if block is None or nbytes < 0 or address + nbytes > block.address + block.nbytes:
            raise DeviceError(f"{where}: access must lie in one allocated block, got {nbytes} bytes at {address}")
        return block

    def read(self, address: int, nbytes: int) -> Bytes:
        """A copy of `nbytes` at an address."""
        block = self.require_window(address, nbytes)
        self._fetch(block)
        start = address - block.address
        return np.array(block.buffer[start : start + nbytes], np.uint8, subok=False)

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into a block, unless they are there."""
        block = self.require_window(address, len(data))
        if len(data) < block.nbytes:
            self._fetch(block)
        start = address - block.address
        target = np.asarray(block.buffer)[start : start + len(data)]
        if block.newer is Newer.MACHINE or not np.array_equal(target, data):
            target[:] = data
            block.newer = Newer.HOST

    def _fetch(self, block: BoardBlock) -> None:
        if block.newer is not Newer.MACHINE:
            return
        if not self._one_copy:
            with self._link.calls(f"read {block.nbytes} bytes at {block.address:#x}"):
                block.buffer.invalidate()
        block.newer = Newer.NEITHER

    # --- the machine's copy

    def flush(self, addresses: Iterable[int]) -> None:
        """Bring what the host wrote to the blocks at addresses into DRAM."""
        for block in self._blocks_at(addresses):
            if block.newer is not Newer.HOST:
                continue
            if not self._one_copy:
                with self._link.calls(f"write {block.nbytes} bytes at {block.address:#x}"):
                    block.buffer.flush()
            block.newer = Newer.NEITHER

    def machine_writes(self, addresses: Iterable[int]) -> None:
        """From now on, the machine's copies of the blocks at addresses are the valid ones."""
        for block in self._blocks_at(addresses):
            block.newer = Newer.MACHINE

    def holds(self, address: int, data: Bytes) -> bool:
        """Whether the machine finds these bytes at an address."""
        if not len(data):
            return True
        self.machine_writes([address])
        return np.array_equal(self.read(address, len(data)), data)

    def _blocks_at(self, addresses: Iterable[int]) -> list[BoardBlock]:
        blocks = {block.address: block for block in (self.require_window(address, 0) for address in addresses)}
        return list(blocks.values())


def _release(blocks: dict[int, BoardBlock], released: list[BoardBlock], link: BoardLink, process: int) -> None:
    """Free everything. A forked process leaves it alone: it belongs to its parent."""
    held = [*blocks.values(), *released]
    blocks.clear()
    released.clear()
    for block in held if process == os.getpid() else ():
        link.release("free a buffer", block.buffer.freebuffer)

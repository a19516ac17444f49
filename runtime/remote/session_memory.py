"""The device's memory by session: every access must lie in one block of the session's own.

Used by the thread of the device only.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress

from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.session import Session
from vdla.support.errors import Error


class SessionMemory:
    """Counts what the sessions hold, and refuses what is beyond the limits or not theirs."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.used_bytes = self.blocks = 0

    def allocate(self, device: Device, session: Session, nbytes: int) -> int:
        """The address of a new block of a session."""
        where = f"device {device.name}"
        if nbytes < 1:
            raise DeviceError(f"{where}: allocation in bytes must be at least 1, got {nbytes}")
        if len(session.blocks) >= self._limits.blocks:
            raise DeviceError(f"{where}: a session must have at most {self._limits.blocks} blocks, got one more")
        if session.used_bytes + nbytes > session.memory_bytes:
            raise DeviceError(
                f"{where}: cannot allocate {nbytes} bytes of DRAM, the session holds {session.used_bytes} "
                f"of its {session.memory_bytes}; free tensors or ask for a higher limit"
            )
        if self.used_bytes + nbytes > self._limits.total_memory_bytes:
            raise DeviceError(
                f"{where}: cannot allocate {nbytes} bytes of DRAM, all sessions hold {self.used_bytes} "
                f"of {self._limits.total_memory_bytes}; try again later"
            )
        address = device.allocate(nbytes)
        session.blocks[address] = nbytes
        self._count(session, nbytes, 1)
        return address

    def _count(self, session: Session, nbytes: int, blocks: int) -> None:
        session.used_bytes += nbytes
        self.used_bytes += nbytes
        self.blocks += blocks

    def release(self, device: Device, session: Session, address: int) -> None:
        """Free a block of a session."""
        if address not in session.blocks:
            raise DeviceError(
                f"device {device.name}: address to free must be one that allocate returned, got {address}"
            )
        device.free(address)
        self._count(session, -session.blocks.pop(address), -1)

    def release_all(self, device: Device, session: Session) -> None:
        """Free what a session holds; what the device refuses is gone anyway."""
        for address in list(session.blocks):
            with suppress(Error):
                device.free(address)
            self._count(session, -session.blocks.pop(address), -1)

    @staticmethod
    def require(device: Device, session: Session, address: int, nbytes: int) -> None:
        """DeviceError unless a range lies in one block of the session."""
        starts = sorted(session.blocks)
        index = bisect_right(starts, address) - 1
        start = starts[index] if index >= 0 else None
        if start is None or nbytes < 0 or address + nbytes > start + session.blocks[start]:
            raise DeviceError(
                f"device {device.name}: access must lie in one allocated block, got {nbytes} bytes at {address}"
            )

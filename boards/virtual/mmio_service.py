# SPDX-License-Identifier: Apache-2.0
"""The service `mmio.Mmio`: words of the board's address space.

An identifier is the range that it names, so mapping a range again costs nothing; nothing is ever
unmapped.
"""

from __future__ import annotations

from vdla.boards.virtual.address_space import AddressSpace
from vdla.boards.virtual.fabric import BusError
from vdla.runtime.devices.pynq_messages import Message, messages

_MOST_BYTES = 1 << 32  # of the base address and the length of a range
_MASKS = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF}


class MmioService:
    """Reads and writes of mapped ranges; a range must lie within the address space."""

    name = "mmio.Mmio"

    def __init__(self, space: AddressSpace, run: str) -> None:
        self._space = space
        self._run = run
        self._messages = messages("mmio")

    def get_mmio(self, request: Message) -> Message:
        """Map a range."""
        base, nbytes = request.base_addr, request.length
        if base % 4 or not 1 <= nbytes < _MOST_BYTES or not self._space.covers(base, nbytes):
            raise BusError(f"mmio: range must lie in registers of the board, got {nbytes} bytes at {base:#x}")
        identifier = f"{self._run}-{base:x}-{nbytes:x}"
        return self._messages.GetMmioResponse(status=True, mmio_id=identifier)

    def read(self, request: Message) -> Message:
        """The bytes at an offset, as a number."""
        mask = _MASKS.get(request.length)
        if mask is None:
            raise BusError(f"mmio: length of a read must be 1, 2 or 4, got {request.length}")
        address = self._address(request.mmio_id, request.offset, request.length)
        return self._messages.ReadResponse(status=True, data=self._space.read_word(address) & mask)

    def write(self, request: Message) -> Message:
        """Set the word at an offset: of more words, a board's server writes the first one only."""
        data = request.data
        if not data or len(data) % 4:
            raise BusError(f"mmio: data of a write must be whole words, got {len(data)} bytes")
        address = self._address(request.mmio_id, request.offset, len(data))
        self._space.write_word(address, int.from_bytes(data[:4], "little"))
        return self._messages.WriteResponse(status=True)

    def _address(self, identifier: str, offset: int, nbytes: int) -> int:
        base, size = self._range(identifier)
        if offset < 0 or offset % 4 or offset + nbytes > -(-size // 4) * 4:
            raise BusError(
                f"mmio: offset must be a multiple of 4 within the {size} bytes of the range, "
                f"got {nbytes} bytes at {offset}"
            )
        return base + offset

    def _range(self, identifier: str) -> tuple[int, int]:
        """The base address and the length that an identifier names."""
        run, *numbers = identifier.split("-")
        try:
            base, nbytes = (int(number, 16) for number in numbers)
        except ValueError:
            base = nbytes = 0
        if run != self._run or not 1 <= nbytes < _MOST_BYTES or not self._space.covers(base, nbytes):
            raise BusError(f"mmio: range must be mapped on this run of the board, got {identifier[:40]!r}")
        return base, nbytes

# SPDX-License-Identifier: Apache-2.0
"""The registers of the processing system that PYNQ reads and writes: clocks and port widths.

Words that software wrote read back as written, and nothing else follows from them. Addresses and
fields: UG585 (Zynq-7000) and UG1087 (Zynq UltraScale+).
"""

from __future__ import annotations

from threading import Lock

_PAGE = 0x1000
_WORD = 0xFFFFFFFF

_ZYNQ_SLCR = 0xF8000000
_ZYNQ = {
    _ZYNQ_SLCR + 0x100: 26 << 12,  # ARM PLL
    _ZYNQ_SLCR + 0x104: 21 << 12,  # DDR PLL
    _ZYNQ_SLCR + 0x108: 20 << 12,  # IO PLL, 1000 MHz
    _ZYNQ_SLCR + 0x120: 2 << 8,  # the CPU at 650 MHz
    **{_ZYNQ_SLCR + 0x170 + 0x10 * clock: (1 << 20) | (10 << 8) for clock in range(4)},  # FCLK at 100 MHz
}

_CRL_APB, _CRF_APB = 0xFF5E0000, 0xFD1A0000
_ZYNQMP = {
    _CRL_APB + 0x20: 90 << 8 | 1 << 16,  # IO PLL, 1500 MHz
    _CRL_APB + 0x30: 45 << 8 | 1 << 16,  # RPLL
    **{_CRL_APB + 0xC0 + 4 * clock: 1 << 24 | 1 << 16 | 15 << 8 for clock in range(4)},  # 100 MHz
    _CRF_APB + 0x20: 72 << 8 | 1 << 16,  # APLL
    _CRF_APB + 0x2C: 64 << 8 | 1 << 16,  # DPLL
    _CRF_APB + 0x38: 90 << 8 | 1 << 16,  # VPLL
    _CRF_APB + 0x60: 1 << 8,  # the CPU
}
_PORT_WIDTHS = (0xFD615000, 0xFF419000, *range(0xFD360000, 0xFD3C0000, 0x10000), 0xFF9B0000)

_RESET = {"zynq7": _ZYNQ, "zynqmp": {**_ZYNQMP, **dict.fromkeys(_PORT_WIDTHS, 0)}}


class SystemRegisters:
    """The registers of a processor, `zynq7` or `zynqmp`, in pages of 4 KiB.

    `others` are addresses of pages with registers of which nothing is known but what is written to
    them, such as the interrupt controller's.
    """

    def __init__(self, processor: str, *others: int) -> None:
        self._words = {**_RESET[processor], **dict.fromkeys(others, 0)}
        self._pages = {address // _PAGE for address in self._words}
        self._lock = Lock()

    def covers(self, address: int, nbytes: int) -> bool:
        """Whether all these bytes lie in pages of registers."""
        return all(page in self._pages for page in range(address // _PAGE, -(-(address + nbytes) // _PAGE)))

    def read_word(self, address: int) -> int:
        """The word at an address within the pages."""
        with self._lock:
            return self._words.get(address, 0)

    def write_word(self, address: int, value: int) -> None:
        """Set the word at an address within the pages."""
        with self._lock:
            self._words[address] = value & _WORD

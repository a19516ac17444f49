"""The driver over a board's control port: each register access is a load or store, or a call to
another machine, which takes 0.4 ms or more.

It makes few accesses of them: registers that follow each other are written together, and counters
are read side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices.board_link import BoardLink
from vdla.runtime.devices.driver import Driver

_WORD_BYTES = 4
_READERS = 8


class BoardBus:
    """The control port as PYNQ's `MMIO`; `remote` where each access is a call to the board."""

    def __init__(self, link: BoardLink, mmio: Any, *, remote: bool) -> None:  # noqa: ANN401  of PYNQ
        self._link, self._mmio = link, mmio
        self._readers = ThreadPoolExecutor(_READERS) if remote else None

    def read_word(self, offset: int) -> int:
        """The word at an offset."""
        with self._link.calls(f"read the register at {offset:#x}"):
            return int(self._mmio.read(offset))

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at an offset."""
        with self._link.calls(f"write the register at {offset:#x}"):
            self._mmio.write(offset, int(value))

    def write_words(self, offset: int, values: Sequence[int]) -> None:
        """Set the words from an offset on, in order."""
        with self._link.calls(f"write the registers from {offset:#x}"):
            self._mmio.write(offset, np.array(values, "<u4").tobytes())

    def read_words(self, offsets: Sequence[int]) -> list[int]:
        """The words at offsets, read in any order."""
        if self._readers is None:
            return [self.read_word(offset) for offset in offsets]
        return list(self._readers.map(self.read_word, offsets))

    def close(self) -> None:
        """End the threads that read."""
        if self._readers is not None:
            self._readers.shutdown(wait=False)


class BoardDriver(Driver):
    """The driver of a machine on a board."""

    def __init__(self, where: str, bus: BoardBus) -> None:
        super().__init__(where, bus)
        self._board = bus

    def write_all(self, values: Mapping[str, int]) -> None:
        """Set registers in order; those that follow each other in one access."""
        runs: list[tuple[int, list[int]]] = []
        for name, value in values.items():
            offset = OFFSETS[name]
            if runs and offset == runs[-1][0] + _WORD_BYTES * len(runs[-1][1]):
                runs[-1][1].append(value)
            else:
                runs.append((offset, [value]))
        for offset, words in runs:
            self._board.write_words(offset, words)

    def read_all(self, offsets: Sequence[int]) -> list[int]:
        """The words at offsets."""
        return self._board.read_words(offsets)

# SPDX-License-Identifier: Apache-2.0
"""The driver over a board's control port, and runs that have the machine to themselves.

Each register access is a load or store, or a call to another machine, which takes 0.4 ms or more.
The driver makes few accesses of them: registers that follow each other are written together, and
counters are read side by side. PYNQ.remote's server sets one word in an access, whatever it is
sent, so that there registers are written side by side, too.

Nothing keeps other clients away: any may write the registers, and PYNQ has no lock. The invariant:
a run that counts has read back all that it depends on, before its start and after its results.
COUNT is 0 unless a run is about to start or running, so that a start which another client sends
late runs nothing. While the machine is busy, its set-up is that of the stream that it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices.board_link import BoardLink
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.driver import DONE, INTERRUPT_ENABLED, Driver, Identity, Stream, is_set

_WORD_BYTES = 4
_THREADS = 8


class BoardBus:
    """The control port as PYNQ's `MMIO`; `remote` where each access is a call to the board."""

    def __init__(self, link: BoardLink, mmio: Any, *, remote: bool) -> None:  # noqa: ANN401  of PYNQ
        self._link, self._mmio = link, mmio
        self._threads = ThreadPoolExecutor(_THREADS) if remote else None

    def read_word(self, offset: int) -> int:
        """The word at an offset."""
        with self._link.calls(f"read the register at {offset:#x}"):
            return int(self._mmio.read(offset))

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at an offset."""
        with self._link.calls(f"write the register at {offset:#x}"):
            self._mmio.write(offset, int(value))

    def write_words(self, offset: int, values: Sequence[int]) -> None:
        """Set the words from an offset on, in any order; PYNQ.remote takes them one by one."""
        if self._threads is not None:
            offsets = range(offset, offset + _WORD_BYTES * len(values), _WORD_BYTES)
            list(self._threads.map(self.write_word, offsets, values))
            return
        with self._link.calls(f"write the registers from {offset:#x}"):
            self._mmio.write(offset, np.array(values, "<u4").tobytes())

    def read_words(self, offsets: Sequence[int]) -> list[int]:
        """The words at offsets, read in any order."""
        if self._threads is None:
            return [self.read_word(offset) for offset in offsets]
        return list(self._threads.map(self.read_word, offsets))

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)


class BoardDriver(Driver):
    """The driver of a machine on a board."""

    def __init__(self, where: str, bus: BoardBus) -> None:
        super().__init__(where, bus)
        self._board = bus

    def write_all(self, values: Mapping[str, int]) -> None:
        """Set registers; those that follow each other in one access, or at the same time."""
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


class TakenError(DeviceError):
    """A run without a result, because another client used the machine or its memory meanwhile."""

    def __init__(self, where: str, got: str, others: Sequence[str] = ()) -> None:
        self._where, self._got = where, got
        also = f" (open on the board: {', '.join(others)})" if others else ""
        super().__init__(
            f"{where}: board must have one client during a run, got {got}; the run has no result: "
            f"end the other client{also}, or let all of them use one vdla board serve --listen, and run again"
        )

    def naming(self, others: Sequence[str]) -> TakenError:
        """The error with the names of the other clients, as far as they are known."""
        return TakenError(self._where, self._got, others) if others else self


class SoleRun:
    """A run of a stream on the machine that was identified when the device was opened.

    `holds_stream` is whether the stream's memory has its instructions.
    """

    def __init__(self, driver: Driver, machine: Identity, stream: Stream, holds_stream: Callable[[], bool]) -> None:
        self._driver, self._stream, self._holds_stream = driver, stream, holds_stream
        self._held = {**machine.registers, **stream.registers}
        self._setting_up = False

    def start(self) -> None:
        """Set the machine up and start it; TakenError where another client is seen."""
        driver, self._setting_up = self._driver, True
        if driver.flag("STATUS", "busy"):
            raise self._lock_error("a machine that runs the stream of another one")
        driver.disarm()
        driver.write_all({**self._stream.registers, "COUNT": 0})
        driver.enable_interrupt()
        driver.write("COUNT", self._stream.count)
        self._require({"INTERRUPT": INTERRUPT_ENABLED})  # pending where a stream has ended meanwhile
        driver.start_armed()
        self._setting_up = False

    def finish(self) -> None:
        """After the end: clear the interrupt, and leave nothing that can be started again.

        DeviceError where the machine stopped early.
        """
        self._setting_up = True
        self._driver.disarm()
        self._held["COUNT"], self._setting_up = 0, False
        self._driver.enable_interrupt()
        status = self._driver.read("STATUS")
        if is_set(status, "STATUS", "error"):
            raise DeviceError(self._driver.error())
        if status == 0:
            raise self._lock_error("a reset of the machine")

    def confirm(self) -> None:
        """TakenError unless the stream ran to its end, and machine and memory are as they were
        left.
        """
        self._require({"STATUS": DONE, "DISPATCHED": self._stream.count})
        if not self._holds_stream():
            raise self._lock_error(self._overwritten)

    def lock_error(self) -> TakenError | None:
        """The error of a run that failed, where another client made it fail."""
        difference = self._difference(self._held)
        if difference is not None:
            return self._lock_error(difference)
        if self._setting_up:
            return self._lock_error("a write that the machine refuses while it runs")
        return None if self._holds_stream() else self._lock_error(self._overwritten)

    def is_own(self) -> bool:
        """Whether the machine is set up with this stream, not with that of another client."""
        place = {name: self._held[name] for name in ("STREAM_LO", "STREAM_HI")}
        return self._difference(place) is None

    def _require(self, values: Mapping[str, int]) -> None:
        difference = self._difference({**self._held, **values})
        if difference is not None:
            raise self._lock_error(difference)

    def _difference(self, expected: Mapping[str, int]) -> str | None:
        """The first register that has another value than it must have."""
        registers = self._driver.read_all([OFFSETS[name] for name in expected])
        for (name, value), got in zip(expected.items(), registers, strict=True):
            if got != value:
                return f"{got:#x} in register {name} in place of {value:#x}"
        return None

    @property
    def _overwritten(self) -> str:
        return f"other instructions in the memory of the stream, at {self._stream.address:#x}"

    def _lock_error(self, got: str) -> TakenError:
        return TakenError(self._driver.where, got)

# SPDX-License-Identifier: Apache-2.0
"""A board in this process that several clients share, and whose every access can be stopped.

Its machine is that of the virtual board, but it runs at once when it is started, and is busy for as
many accesses of anybody as `busy` says: what happens depends on the order of accesses alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import numpy as np

from vdla.boards.virtual.bitstream import Machine
from vdla.boards.virtual.memory import BoardMemory, Buffer
from vdla.boards.virtual.sim_fabric import SimFabric
from vdla.boards.virtual.stream_run import run_stream
from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.runtime.devices import pynq_device
from vdla.runtime.devices.board_clock import BoardClock
from vdla.runtime.devices.overlay import LoadedOverlay
from vdla.runtime.devices.pynq_device import PynqDevice


class StepFabric(SimFabric):
    """The machine, whose time are the accesses to it."""

    def __init__(self, config: Config, memory: Any, busy: int) -> None:
        super().__init__(Machine(config, build_hash(config)), memory)
        self._accesses, self._left, self._to_show = busy, 0, None

    def step(self) -> None:
        """One access passes."""
        if self._to_show is None:
            return
        self._left -= 1
        if self._left <= 0:
            outcome, self._to_show = self._to_show, None
            self._end(outcome, self._cancel)

    def settle(self) -> None:
        """As much time passes as the machine needs to end."""
        while self._to_show is not None:
            self.step()

    def _start(self) -> None:
        self._busy, self._over = True, False
        self._cancel.clear()
        self._to_show = run_stream(self._limits(), self._memory, self._pages, self._request(), lambda: False)
        self._left = self._accesses

    def _reset(self) -> None:
        super()._reset()
        self._to_show = None


class SharedBoard:
    """The board; `before` is called with client and offset before each access to a register."""

    def __init__(self, config: Config, busy: int = 3) -> None:
        self.memory = BoardMemory(1 << 20)
        self.memory.changed = lambda windows: self.fabric.map(windows)
        self.before: Callable[[str, int], None] = lambda client, offset: None
        self.busy = busy
        self.download(config)

    def download(self, config: Config) -> None:
        """Load a bitstream, whatever runs."""
        self.config, self.fabric = config, StepFabric(config, self.memory.data, self.busy)
        self.fabric.map(self.memory.windows())

    def device(self, client: str, monkeypatch: Any, config: Config) -> PynqDevice:
        """The device of a client, which takes the bitstream as loaded."""
        monkeypatch.setattr(pynq_device, "find_bitstream", lambda where, config, given: Path("a.bit"))
        monkeypatch.setattr(pynq_device, "load_overlay", lambda *_, **__: self._overlay(client))
        return PynqDevice(config, download=False)

    def _overlay(self, client: str) -> LoadedOverlay:
        port = SharedPort(self, client)
        return LoadedOverlay(
            mmio=port, allocate=port.allocate, parameters={}, remote=False, interrupt=None,
            meminfo=lambda: "", await_board=lambda: None, clock=BoardClock("pynq", None),
            files=None, file="a.bin",
        )  # fmt: skip


class SharedPort:
    """What a client has of the board: registers as PYNQ's MMIO, and buffers."""

    def __init__(self, board: SharedBoard, client: str) -> None:
        self._board, self._client = board, client

    def read(self, offset: int) -> int:
        self._step(offset)
        return self._board.fabric.read_word(offset)

    def write(self, offset: int, data: int | bytes) -> None:
        values = [data] if isinstance(data, int) else np.frombuffer(data, "<u4").tolist()
        for index, value in enumerate(values):
            self._step(offset + 4 * index)
            self._board.fabric.write_word(offset + 4 * index, value)

    def _step(self, offset: int) -> None:
        self._board.before(self._client, offset)
        self._board.fabric.step()

    def allocate(self, nbytes: int) -> SharedBuffer:
        held = self._board.memory.allocate(nbytes)
        buffer = np.zeros(nbytes, np.uint8).view(SharedBuffer)
        buffer.board, buffer.held, buffer.physical_address = self._board, held, held.address
        return buffer


class SharedBuffer(np.ndarray):
    """A client's copy of a buffer in the board's memory."""

    board: SharedBoard
    held: Buffer
    physical_address: int

    def flush(self) -> None:
        self.board.memory.contents(self.held)[:] = self

    def invalidate(self) -> None:
        self[:] = self.board.memory.contents(self.held)

    def freebuffer(self) -> None:
        self.board.memory.free(self.held.identifier)


class Interleaved:
    """The work of another client, in a thread that makes an access only where it is let."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._go, self._back, self._left, self._over = Semaphore(0), Semaphore(0), 0, False
        self._work = work
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        finally:
            self._over = True
            self._back.release()

    def wait(self) -> None:
        """Wait, in the thread of the work, until it may make an access."""
        while self._left == 0:
            self._back.release()
            self._go.acquire()
        self._left -= 1

    def advance(self, accesses: int) -> None:
        """Let the work make so many accesses, or come to its end."""
        if not self._over:
            self._left = accesses
            self._go.release()
            self._back.acquire()

# SPDX-License-Identifier: Apache-2.0
"""The faults that a board has at the moment, and when each one strikes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from threading import Lock
from typing import TypeVar

from vdla.boards.virtual.faults import (
    DroppedConnection,
    Fault,
    FlippedBit,
    LostInterrupt,
    OtherBitstream,
    SlowBoard,
    SlowFabric,
)
from vdla.boards.virtual.memory import BoardMemory

Kind = TypeVar("Kind")


class ActiveFaults:
    """Answers whether a fault strikes; what has struck its number of times is over."""

    def __init__(self) -> None:
        self._faults: tuple[Fault, ...] = ()
        self._flips: list[tuple[random.Random, int]] = []  # and the starts left
        self._drops: list[int] = []  # the requests after the next start
        self._countdown: int | None = None  # requests until the connections drop
        self._lock = Lock()

    def add(self, fault: Fault) -> None:
        """Have a fault from now on."""
        with self._lock:
            self._faults = (*self._faults, fault)
            if isinstance(fault, FlippedBit):
                self._flips.append((random.Random(fault.seed), fault.starts))
            if isinstance(fault, DroppedConnection):
                self._drops.append(fault.requests)

    def clear(self) -> None:
        """Have none."""
        with self._lock:
            self._faults, self._flips, self._drops, self._countdown = (), [], [], None

    def _of(self, kind: type[Kind]) -> Sequence[Kind]:
        return [fault for fault in self._faults if isinstance(fault, kind)]

    @property
    def delay_s(self) -> float:
        """How much longer each request takes."""
        return sum(fault.milliseconds for fault in self._of(SlowBoard)) / 1000

    @property
    def pause_s(self) -> float:
        """How much longer each stream takes, of a machine that is configured now."""
        return sum(fault.milliseconds for fault in self._of(SlowFabric)) / 1000

    @property
    def loses_interrupts(self) -> bool:
        """Whether the interrupt line is cut."""
        return bool(self._of(LostInterrupt))

    @property
    def other_preset(self) -> str | None:
        """The preset that is configured whatever the bitstream; None for the right one."""
        return next((fault.preset for fault in reversed(self._of(OtherBitstream))), None)

    def drops(self) -> bool:
        """Whether the connections drop at this request."""
        with self._lock:
            if self._countdown is None:
                return False
            self._countdown -= 1
            if self._countdown > 0:
                return False
            self._countdown = None
            return True

    def start(self, memory: BoardMemory) -> None:
        """A stream is about to start."""
        with self._lock:
            if self._drops:
                self._countdown = self._drops.pop(0)
            for generator, _ in self._flips:
                _flip(generator, memory)
            self._flips = [(generator, count - 1) for generator, count in self._flips if count > 1]


def _flip(generator: random.Random, memory: BoardMemory) -> None:
    """Flip a bit of a buffer, every bit of all buffers as likely."""
    buffers = memory.buffers
    if buffers:
        (buffer,) = generator.choices(buffers, [buffer.nbytes for buffer in buffers])
        memory.contents(buffer)[generator.randrange(buffer.nbytes)] ^= 1 << generator.randrange(8)

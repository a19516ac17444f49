# SPDX-License-Identifier: Apache-2.0
"""The fabric behind the control port of a virtual board: a machine configured by a bitstream.

A fabric runs on its own: software sees it through registers, memory and the interrupt line only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vdla.support.errors import Error


class FabricError(Error, RuntimeError):
    """A fabric that cannot be built or has failed."""


class BusError(Error, RuntimeError):
    """An access that the bus answers with SLVERR or DECERR; it has no effect."""


def refused(access: str, offset: int) -> BusError:
    """The error of a `read` or `write` that a machine answers with SLVERR."""
    return BusError(f"fabric: {access} at {offset:#x} of the control port must be accepted, got SLVERR")


@dataclass(frozen=True, slots=True)
class MemoryWindow:
    """Bytes at an address of the board that the machine reaches, and their place in the array."""

    address: int
    nbytes: int
    offset: int


class Fabric(Protocol):
    """A machine with a control port of 32 bits, an interrupt line and windows into the memory."""

    def read_word(self, offset: int) -> int:
        """The word at a byte offset of the control port; BusError where it is refused."""

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at a byte offset of the control port; BusError where it is refused."""

    @property
    def interrupt(self) -> bool:
        """The level of the interrupt line."""

    @property
    def running(self) -> bool:
        """Whether a stream is executing: False at its end, and where it can never end."""

    def map(self, windows: Sequence[MemoryWindow]) -> None:
        """Set what the machine reaches; every other address is answered with DECERR.

        Returns when no access to an earlier window is outstanding.
        """

    def close(self) -> None:
        """End the machine and its thread."""

# SPDX-License-Identifier: Apache-2.0
"""Faults of a virtual board, each of which real boards can have.

    VirtualBoard(board, config, faults=(SlowBoard(milliseconds=5), FlippedBit(seed=1)))
    vdla board serve --preset pynq_z1 --fault slow=5 --fault flipped-bit=1

Every fault is a value; whatever is random in one follows from its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.support.errors import Error
from vdla.support.suggest import did_you_mean


class FaultError(Error, ValueError):
    """A fault that is unknown or out of range."""


@dataclass(frozen=True, slots=True)
class LostInterrupt:
    """The interrupt line is never raised; who polls the registers notices nothing."""


@dataclass(frozen=True, slots=True)
class SlowBoard:
    """Every request takes longer by `milliseconds`."""

    milliseconds: int = 20


@dataclass(frozen=True, slots=True)
class SlowFabric:
    """Every stream takes longer by `milliseconds` of real time; counters do not change."""

    milliseconds: int = 500


@dataclass(frozen=True, slots=True)
class DroppedConnection:
    """All connections drop at this request after a start; the board can be reached again later.

    The board keeps its memory and goes on running. It happens once.
    """

    requests: int = 3


@dataclass(frozen=True, slots=True)
class OtherBitstream:
    """The fabric is configured with the machine of another preset, whatever is uploaded."""

    preset: str


@dataclass(frozen=True, slots=True)
class FullMemory:
    """All contiguous memory but `free_bytes` is taken."""

    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FlippedBit:
    """At each of the next `starts` starts, a bit in a buffer flips."""

    seed: int = 0
    starts: int = 1


Fault = LostInterrupt | SlowBoard | SlowFabric | DroppedConnection | OtherBitstream | FullMemory | FlippedBit

_NAMES: dict[str, type[Fault]] = {
    "lost-interrupt": LostInterrupt,
    "slow": SlowBoard,
    "slow-fabric": SlowFabric,
    "dropped-connection": DroppedConnection,
    "other-bitstream": OtherBitstream,
    "full-memory": FullMemory,
    "flipped-bit": FlippedBit,
}
_MOST = 1 << 30


def fault_names() -> Sequence[str]:
    """The faults as `--fault` takes them."""
    return tuple(_NAMES)


def parse_fault(text: str) -> Fault:
    """The fault of `NAME` or `NAME=VALUE`; FaultError where it is none."""
    name, separator, value = text.partition("=")
    kind = _NAMES.get(name)
    if kind is None:
        raise FaultError(f"fault: name must be one of {', '.join(_NAMES)}, got {name}{did_you_mean(name, _NAMES)}")
    if kind is OtherBitstream:
        if not value:
            raise FaultError(f"fault {name}: value must be a preset, got none")
        return OtherBitstream(value)
    if not separator:
        return kind()  # type: ignore[call-arg]  # all but the one above have defaults
    if kind is LostInterrupt:
        raise FaultError(f"fault {name}: value must be left out, got {value}")
    return kind(_number(name, value))  # type: ignore[call-arg, arg-type]


def _number(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) > _MOST:
        raise FaultError(f"fault {name}: value must be an integer from 0 to {_MOST}, got {value}")
    return int(value)

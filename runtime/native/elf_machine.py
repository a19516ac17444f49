# SPDX-License-Identifier: Apache-2.0
"""What laying out and relocating an object takes of a machine: its relocations and its stubs.

A relocation type is a function on the bits at its place; those that it does not own stay as they
are. Numbers of machines and relocation types are those of the architectures' ELF supplements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from vdla.runtime.native.arguments import NativeError


class Route(Enum):
    """How a relocation reaches a symbol that another object or library defines."""

    ADDRESS = "its address"
    STUB = "a stub in the image, which jumps to it"
    TABLE = "a word in the image, which has its address"
    LOCAL = "not at all"


class RelocationOperands(NamedTuple):
    """A symbol's address, the addend, and the address of the place to relocate.

    `thumb` says that the symbol is a function in Thumb code; its address has no bit for that.
    """

    symbol: int
    addend: int
    place: int
    thumb: bool = False

    @property
    def target(self) -> int:
        """S + A in the terms of the supplements."""
        return self.symbol + self.addend

    @property
    def distance(self) -> int:
        """S + A - P."""
        return self.target - self.place


@dataclass(frozen=True, slots=True)
class RelocationType:
    """A type of relocation: `apply` maps the unsigned little-endian field at its place to the new
    one; ReachError if a value does not fit.

    `addend` reads the addend from the field, for objects that keep it there. `thumb` is the
    instruction set of the code around; a relocation that `switches` can reach code of the other.
    """

    name: str
    apply: Callable[[int, RelocationOperands], int]
    nbytes: int = 4
    route: Route = Route.STUB
    addend: Callable[[int], int] | None = None
    thumb: bool = False
    switches: bool = True


@dataclass(frozen=True, slots=True)
class ElfMachine:
    """A machine: `number` as in ELF, `name` as in `vdla.compiler.target`.

    A stub is code that jumps to the address in the word behind it. `interworks` says that bit 0 of
    a function's address selects the instruction set.
    """

    number: int
    name: str
    pointer_bytes: int
    relocations: Mapping[int, RelocationType]
    stub: bytes
    thumb_stub: bytes = b""
    interworks: bool = False


class ReachError(NativeError):
    """A value that does not fit into a relocation's field; the text is the broken rule."""


def signed(value: int, bits: int, multiple: int = 1) -> int:
    """The value, if it is a signed number of that many bits and a multiple."""
    if not -1 << bits - 1 <= value < 1 << bits - 1:
        raise ReachError(f"value must be a signed number of {bits} bits, got {value}")
    return _aligned(value, multiple)


def unsigned(value: int, bits: int, multiple: int = 1) -> int:
    """The value, if it is an unsigned number of that many bits and a multiple."""
    if not 0 <= value < 1 << bits:
        raise ReachError(f"value must be an unsigned number of {bits} bits, got {value}")
    return _aligned(value, multiple)


def _aligned(value: int, multiple: int) -> int:
    if value % multiple:
        raise ReachError(f"value must be a multiple of {multiple}, got {value}")
    return value


def sign_extended(value: int, bits: int) -> int:
    """The low bits of a value as a signed number."""
    sign = 1 << bits - 1
    return ((value & (sign << 1) - 1) ^ sign) - sign


def with_bits(field: int, mask: int, value: int) -> int:
    """The field with the bits of a mask replaced by those of a value, which is in place."""
    return field & ~mask | value & mask


def keep(field: int, operands: RelocationOperands) -> int:
    """The field as it is."""
    return field


_WORD, _QUAD = (1 << 32) - 1, (1 << 64) - 1


def _absolute_64(_: int, operands: RelocationOperands) -> int:
    return operands.target & _QUAD


def _relative_32(_: int, operands: RelocationOperands) -> int:
    return signed(operands.distance, 32) & _WORD


def _relative_64(_: int, operands: RelocationOperands) -> int:
    return operands.distance & _QUAD


X86_64 = ElfMachine(
    number=62,
    name="x86_64",
    pointer_bytes=8,
    relocations={
        0: RelocationType("R_X86_64_NONE", keep, nbytes=0, route=Route.LOCAL),
        1: RelocationType("R_X86_64_64", _absolute_64, nbytes=8, route=Route.ADDRESS),
        2: RelocationType("R_X86_64_PC32", _relative_32),
        4: RelocationType("R_X86_64_PLT32", _relative_32),
        9: RelocationType("R_X86_64_GOTPCREL", _relative_32, route=Route.TABLE),
        24: RelocationType("R_X86_64_PC64", _relative_64, nbytes=8, route=Route.ADDRESS),
        41: RelocationType("R_X86_64_GOTPCRELX", _relative_32, route=Route.TABLE),
        42: RelocationType("R_X86_64_REX_GOTPCRELX", _relative_32, route=Route.TABLE),
    },
    stub=bytes.fromhex("ff25020000009090"),  # jmp [rip + 2]; nop; nop
)

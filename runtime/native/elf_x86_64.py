"""Relocations of x86-64, after the System V ABI's supplement for it."""

from __future__ import annotations

from vdla.runtime.native.elf_machine import ElfMachine, RelocationOperands, RelocationType, Route, keep, signed

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

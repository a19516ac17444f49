# SPDX-License-Identifier: Apache-2.0
"""Relocations of 32-bit Arm, after Arm's "ELF for the Arm Architecture".

Addends are in the fields themselves. Kernels are in Arm code, the C library of a board may be in
Thumb code: bit 0 of a function's address says so. Thumb instructions are two halfwords, the first
one in the low bits of a field.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.runtime.native.elf_machine import (
    ElfMachine,
    ReachError,
    RelocationOperands,
    RelocationType,
    Route,
    keep,
    sign_extended,
    signed,
    with_bits,
)

_WORD = (1 << 32) - 1
_ALWAYS, _BLX = 0xE, 0xF  # conditions: always; a call that switches to Thumb


def _absolute(_: int, operands: RelocationOperands) -> int:
    return (operands.target | operands.thumb) & _WORD


def _relative(_: int, operands: RelocationOperands) -> int:
    return _thumb_distance(operands) & _WORD


def _relative_31(field: int, operands: RelocationOperands) -> int:
    return with_bits(field, _WORD >> 1, signed(_thumb_distance(operands), 31))


def _thumb_distance(operands: RelocationOperands) -> int:
    return (operands.target | operands.thumb) - operands.place


def _word_addend(field: int) -> int:
    return sign_extended(field, 32)


def _addend_31(field: int) -> int:
    return sign_extended(field, 31)


# --- branches in Arm code -------------------------------------------------------------------------


def _call(field: int, operands: RelocationOperands) -> int:
    """A bl or blx; which of the two depends on the target's instruction set."""
    if field >> 28 not in (_ALWAYS, _BLX):
        raise ReachError(f"call must be unconditional, got {field:#010x}")
    distance = signed(operands.distance, 26, 2 if operands.thumb else 4)
    if operands.thumb:
        return 0xFA000000 | (distance >> 1 & 1) << 24 | distance >> 2 & 0xFFFFFF
    return 0xEB000000 | distance >> 2 & 0xFFFFFF


def _call_addend(field: int) -> int:
    half = field >> 23 & 2 if field >> 28 == _BLX else 0
    return _jump_addend(field) + half


def _jump(field: int, operands: RelocationOperands) -> int:
    return with_bits(field, 0xFFFFFF, signed(operands.distance, 26, 4) >> 2)


def _jump_addend(field: int) -> int:
    return sign_extended(field << 2, 26)


# --- branches in Thumb code -----------------------------------------------------------------------


def _thumb_call(field: int, operands: RelocationOperands) -> int:
    """A bl, or a blx to Arm code, which counts from the word of its place."""
    place = operands.place if operands.thumb else operands.place & ~3
    distance = signed(operands.target - place, 25, 2 if operands.thumb else 4)
    return with_bits(_with_thumb_25(field, distance), 1 << 28, operands.thumb << 28)


def _thumb_jump(field: int, operands: RelocationOperands) -> int:
    return _with_thumb_25(field, signed(operands.distance, 25, 2))


def _with_thumb_25(field: int, value: int) -> int:
    """S:I1:I2:imm10:imm11:0, with J1 and J2 in place of I1 and I2."""
    sign = value >> 24 & 1
    j1, j2 = (value >> bit & 1 ^ 1 ^ sign for bit in (23, 22))
    high = sign << 10 | value >> 12 & 0x3FF
    low = j1 << 13 | j2 << 11 | value >> 1 & 0x7FF
    return with_bits(field, 0x2FFF_07FF, low << 16 | high)


def _thumb_25(field: int) -> int:
    high, low = field & 0xFFFF, field >> 16
    sign = high >> 10 & 1
    i1, i2 = (low >> bit & 1 ^ 1 ^ sign for bit in (13, 11))
    value = sign << 24 | i1 << 23 | i2 << 22 | (high & 0x3FF) << 12 | (low & 0x7FF) << 1
    return sign_extended(value, 25)


def _thumb_branch(field: int, operands: RelocationOperands) -> int:
    """A conditional branch: S:J2:J1:imm6:imm11:0."""
    value = signed(operands.distance, 21, 2)
    high = (value >> 20 & 1) << 10 | value >> 12 & 0x3F
    low = (value >> 18 & 1) << 13 | (value >> 19 & 1) << 11 | value >> 1 & 0x7FF
    return with_bits(field, 0x2FFF_043F, low << 16 | high)


def _thumb_branch_addend(field: int) -> int:
    high, low = field & 0xFFFF, field >> 16
    value = (high >> 10 & 1) << 20 | (low >> 11 & 1) << 19 | (low >> 13 & 1) << 18
    return sign_extended(value | (high & 0x3F) << 12 | (low & 0x7FF) << 1, 21)


# --- addresses in pairs of moves ------------------------------------------------------------------

_Value = Callable[[RelocationOperands], int]


def _low_address(operands: RelocationOperands) -> int:
    return operands.target | operands.thumb


def _high_address(operands: RelocationOperands) -> int:
    return operands.target >> 16


def _high_distance(operands: RelocationOperands) -> int:
    return operands.distance >> 16


def _move(value: _Value) -> Callable[[int, RelocationOperands], int]:
    def apply(field: int, operands: RelocationOperands) -> int:
        half = value(operands)
        return with_bits(field, 0xF0FFF, (half >> 12 & 0xF) << 16 | half & 0xFFF)

    return apply


def _move_addend(field: int) -> int:
    return sign_extended(field >> 4 & 0xF000 | field & 0xFFF, 16)


def _thumb_move(value: _Value) -> Callable[[int, RelocationOperands], int]:
    """imm4:i:imm3:imm8."""

    def apply(field: int, operands: RelocationOperands) -> int:
        half = value(operands)
        high = half >> 12 & 0xF | (half >> 11 & 1) << 10
        low = (half >> 8 & 7) << 12 | half & 0xFF
        return with_bits(field, 0x70FF_040F, low << 16 | high)

    return apply


def _thumb_move_addend(field: int) -> int:
    high, low = field & 0xFFFF, field >> 16
    return sign_extended((high & 0xF) << 12 | (high >> 10 & 1) << 11 | (low >> 12 & 7) << 8 | low & 0xFF, 16)


def _data(name: str, apply: Callable[[int, RelocationOperands], int], route: Route = Route.ADDRESS) -> RelocationType:
    return RelocationType(name, apply, route=route, addend=_word_addend)


def _in_move(name: str, value: _Value) -> RelocationType:
    return RelocationType(name, _move(value), route=Route.ADDRESS, addend=_move_addend)


def _in_thumb_move(name: str, value: _Value) -> RelocationType:
    return RelocationType(name, _thumb_move(value), route=Route.ADDRESS, addend=_thumb_move_addend, thumb=True)


ARM = ElfMachine(
    number=40,
    name="arm",
    pointer_bytes=4,
    relocations={
        0: RelocationType("R_ARM_NONE", keep, nbytes=0, route=Route.LOCAL, addend=lambda _: 0),
        2: _data("R_ARM_ABS32", _absolute),
        3: _data("R_ARM_REL32", _relative),
        10: RelocationType("R_ARM_THM_CALL", _thumb_call, addend=_thumb_25, thumb=True),
        28: RelocationType("R_ARM_CALL", _call, addend=_call_addend),
        29: RelocationType("R_ARM_JUMP24", _jump, addend=_jump_addend, switches=False),
        30: RelocationType("R_ARM_THM_JUMP24", _thumb_jump, addend=_thumb_25, thumb=True, switches=False),
        38: _data("R_ARM_TARGET1", _absolute),  # as on Linux; other systems take REL32
        40: RelocationType("R_ARM_V4BX", keep, route=Route.LOCAL, addend=lambda _: 0),
        42: RelocationType("R_ARM_PREL31", _relative_31, addend=_addend_31),
        43: _in_move("R_ARM_MOVW_ABS_NC", _low_address),
        44: _in_move("R_ARM_MOVT_ABS", _high_address),
        45: _in_move("R_ARM_MOVW_PREL_NC", _thumb_distance),
        46: _in_move("R_ARM_MOVT_PREL", _high_distance),
        47: _in_thumb_move("R_ARM_THM_MOVW_ABS_NC", _low_address),
        48: _in_thumb_move("R_ARM_THM_MOVT_ABS", _high_address),
        49: _in_thumb_move("R_ARM_THM_MOVW_PREL_NC", _thumb_distance),
        50: _in_thumb_move("R_ARM_THM_MOVT_PREL", _high_distance),
        51: RelocationType("R_ARM_THM_JUMP19", _thumb_branch, addend=_thumb_branch_addend, thumb=True, switches=False),
        96: _data("R_ARM_GOT_PREL", _relative, Route.TABLE),
    },
    stub=bytes.fromhex("04f01fe5"),  # ldr pc, [pc, #-4]
    thumb_stub=bytes.fromhex("dff800f0"),  # ldr.w pc, [pc]
    interworks=True,
)

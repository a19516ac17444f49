# SPDX-License-Identifier: Apache-2.0
"""Relocations of AArch64, after Arm's "ELF for the Arm 64-bit Architecture"."""

from __future__ import annotations

from collections.abc import Callable

from vdla.runtime.native.elf_machine import (
    ElfMachine,
    ReachError,
    RelocationOperands,
    RelocationType,
    Route,
    keep,
    signed,
    unsigned,
    with_bits,
)

_PAGE_OFFSET = 0xFFF
_PAGE_ENDS = (0xFF8, 0xFFC)
_ADR_IMMEDIATE = 0x60FFFFE0
_ADRP = 1 << 31  # what makes an adr an adrp


def _data(bits: int, relative: bool) -> Callable[[int, RelocationOperands], int]:
    """A number in data; the supplement allows 16 and 32 bits of either sign."""

    def apply(_: int, operands: RelocationOperands) -> int:
        value = operands.distance if relative else operands.target
        if bits < 64 and not -1 << bits - 1 <= value < 1 << bits:
            raise ReachError(f"value must be a number of {bits} bits, got {value}")
        return value & (1 << bits) - 1

    return apply


def _branch(bits: int, shift: int) -> Callable[[int, RelocationOperands], int]:
    """The distance in words, in `bits` bits from bit `shift` on."""

    def apply(field: int, operands: RelocationOperands) -> int:
        distance = signed(operands.distance, bits + 2, 4)
        return with_bits(field, (1 << bits) - 1 << shift, distance >> 2 << shift)

    return apply


def _adr(field: int, operands: RelocationOperands) -> int:
    return _with_adr_immediate(field, signed(operands.distance, 21))


def _adrp(field: int, operands: RelocationOperands) -> int:
    """The distance in pages. At the end of a page, an adr of the same page replaces the adrp.

    This avoids erratum 843419 of Cortex-A53, on which a load or store soon after such an adrp may
    use a wrong address.
    """
    page = operands.target & ~_PAGE_OFFSET
    if operands.place & _PAGE_OFFSET in _PAGE_ENDS:
        return _with_adr_immediate(field & ~_ADRP, signed(page - operands.place, 21))
    return _with_adr_immediate(field, signed(page - (operands.place & ~_PAGE_OFFSET), 33) >> 12)


def _with_adr_immediate(field: int, value: int) -> int:
    return with_bits(field, _ADR_IMMEDIATE, (value & 3) << 29 | (value >> 2 & 0x7FFFF) << 5)


def _offset_in_page(multiple: int) -> Callable[[int, RelocationOperands], int]:
    """The offset in the page, in units of what a load or store moves."""

    def apply(field: int, operands: RelocationOperands) -> int:
        offset = unsigned(operands.target & _PAGE_OFFSET, 12, multiple)
        return with_bits(field, 0xFFF << 10, offset // multiple << 10)

    return apply


def _move(group: int, checked: bool) -> Callable[[int, RelocationOperands], int]:
    """16 bits of an address, from bit 16 * `group` on; `checked` if none may lie above."""

    def apply(field: int, operands: RelocationOperands) -> int:
        value = unsigned(operands.target, 16 * (group + 1)) if checked else operands.target
        return with_bits(field, 0xFFFF << 5, value >> 16 * group << 5)

    return apply


AARCH64 = ElfMachine(
    number=183,
    name="aarch64",
    pointer_bytes=8,
    relocations={
        0: RelocationType("R_AARCH64_NONE", keep, nbytes=0, route=Route.LOCAL),
        257: RelocationType("R_AARCH64_ABS64", _data(64, relative=False), nbytes=8, route=Route.ADDRESS),
        258: RelocationType("R_AARCH64_ABS32", _data(32, relative=False), route=Route.ADDRESS),
        259: RelocationType("R_AARCH64_ABS16", _data(16, relative=False), nbytes=2, route=Route.ADDRESS),
        260: RelocationType("R_AARCH64_PREL64", _data(64, relative=True), nbytes=8, route=Route.ADDRESS),
        261: RelocationType("R_AARCH64_PREL32", _data(32, relative=True)),
        262: RelocationType("R_AARCH64_PREL16", _data(16, relative=True), nbytes=2, route=Route.ADDRESS),
        263: RelocationType("R_AARCH64_MOVW_UABS_G0", _move(0, checked=True), route=Route.ADDRESS),
        264: RelocationType("R_AARCH64_MOVW_UABS_G0_NC", _move(0, checked=False), route=Route.ADDRESS),
        265: RelocationType("R_AARCH64_MOVW_UABS_G1", _move(1, checked=True), route=Route.ADDRESS),
        266: RelocationType("R_AARCH64_MOVW_UABS_G1_NC", _move(1, checked=False), route=Route.ADDRESS),
        267: RelocationType("R_AARCH64_MOVW_UABS_G2", _move(2, checked=True), route=Route.ADDRESS),
        268: RelocationType("R_AARCH64_MOVW_UABS_G2_NC", _move(2, checked=False), route=Route.ADDRESS),
        269: RelocationType("R_AARCH64_MOVW_UABS_G3", _move(3, checked=True), route=Route.ADDRESS),
        273: RelocationType("R_AARCH64_LD_PREL_LO19", _branch(19, 5), route=Route.LOCAL),
        274: RelocationType("R_AARCH64_ADR_PREL_LO21", _adr),
        275: RelocationType("R_AARCH64_ADR_PREL_PG_HI21", _adrp),
        277: RelocationType("R_AARCH64_ADD_ABS_LO12_NC", _offset_in_page(1)),
        278: RelocationType("R_AARCH64_LDST8_ABS_LO12_NC", _offset_in_page(1), route=Route.LOCAL),
        279: RelocationType("R_AARCH64_TSTBR14", _branch(14, 5)),
        280: RelocationType("R_AARCH64_CONDBR19", _branch(19, 5)),
        282: RelocationType("R_AARCH64_JUMP26", _branch(26, 0)),
        283: RelocationType("R_AARCH64_CALL26", _branch(26, 0)),
        284: RelocationType("R_AARCH64_LDST16_ABS_LO12_NC", _offset_in_page(2), route=Route.LOCAL),
        285: RelocationType("R_AARCH64_LDST32_ABS_LO12_NC", _offset_in_page(4), route=Route.LOCAL),
        286: RelocationType("R_AARCH64_LDST64_ABS_LO12_NC", _offset_in_page(8), route=Route.LOCAL),
        299: RelocationType("R_AARCH64_LDST128_ABS_LO12_NC", _offset_in_page(16), route=Route.LOCAL),
        309: RelocationType("R_AARCH64_GOT_LD_PREL19", _branch(19, 5), route=Route.TABLE),
        311: RelocationType("R_AARCH64_ADR_GOT_PAGE", _adrp, route=Route.TABLE),
        312: RelocationType("R_AARCH64_LD64_GOT_LO12_NC", _offset_in_page(8), route=Route.TABLE),
    },
    stub=bytes.fromhex("5000005800021fd6"),  # ldr x16, 8; br x16
)

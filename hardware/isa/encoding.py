# SPDX-License-Identifier: Apache-2.0
"""Conversion between instructions, their words and their columns, by whole arrays.

Words are little-endian `np.uint8[n, instruction_bytes]`; columns are `np.int64[n, m]`, as
`isa_of(config).columns` names them, 0 where a format lacks the field. `encode`, `decode` and
`check` refuse invalid instructions; `columns` reads the bits without checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa.formats import UOP_FORMAT, Field, Slot, instruction_bytes, uop_layout
from vdla.hardware.isa.instruction_set import COL, Format, InstructionSet, isa_of
from vdla.hardware.isa.instructions import COMPUTE_BUFFERS, EXTENSION, Instruction, MicroOp, Opcode, Unit
from vdla.hardware.isa.rules import IsaError, first_broken, is_one_of
from vdla.hardware.isa.sizes import Sizes
from vdla.support.arrays import Array, Bools, Bytes, Ints

Words = Bytes
Values = Ints

UOP_COLUMNS: tuple[str, ...] = tuple(field.name for field in UOP_FORMAT)

_UNIT_OF_OPCODE = np.array([-1, Unit.LOAD, Unit.STORE, Unit.COMPUTE, Unit.COMPUTE, 0, -1, -1], np.int64)


# --- bits ----------------------------------------------------------------------------------------


def _insert(lanes: NDArray[np.uint64], slot: Slot, values: Values) -> None:
    bits = values.astype(np.uint64) & np.uint64((1 << slot.width) - 1)
    lane, shift = divmod(slot.offset, 64)
    lanes[:, lane] |= bits << np.uint64(shift)
    if shift + slot.width > 64:
        lanes[:, lane + 1] |= bits >> np.uint64(64 - shift)


def _extract(lanes: NDArray[np.uint64], slot: Slot) -> Values:
    lane, shift = divmod(slot.offset, 64)
    bits = lanes[:, lane] >> np.uint64(shift)
    if shift + slot.width > 64:
        bits = bits | lanes[:, lane + 1] << np.uint64(64 - shift)
    unused = np.uint64(64 - slot.width)
    values = (bits << unused).view(np.int64)
    return values >> np.int64(unused) if slot.field.signed else (values.view(np.uint64) >> unused).view(np.int64)


def _lanes(words: Words, width: int, what: str) -> NDArray[np.uint64]:
    if words.dtype != np.uint8 or words.ndim != 2 or words.shape[1] != width:
        raise IsaError(what, f"array must be uint8[n, {width}], got {words.dtype}{list(words.shape)}")
    return np.ascontiguousarray(words).view("<u8").astype(np.uint64, copy=False)


@lru_cache(maxsize=64)
def _used_bits(config: Sizes) -> NDArray[np.uint64]:
    """Masks of the bits that each format defines, by code."""
    isa = isa_of(config)
    masks = np.zeros((isa.codes, instruction_bytes(config) // 8), np.uint64)
    for code, encoding in isa.formats.items():
        for slot in encoding.slots:
            _insert(masks[code : code + 1], slot, np.array([-1], np.int64))
    return masks


# --- errors --------------------------------------------------------------------------------------


def _show(value: int, field: Field) -> str:
    members = {} if field.enum is None else {int(m): m.name for m in field.enum}
    return members.get(value, str(value))


def _where(index: int, encoding: Format) -> str:
    return f"instruction {index} ({encoding.name})"


def _where_row(rows: Sequence[int], encoding: Format, index: int) -> str:
    return _where(rows[index], encoding)


def _range_rule(slot: Slot) -> str:
    if slot.field.enum is not None:
        return f"be one of {', '.join(member.name for member in slot.field.enum)}"
    return f"be an integer from {slot.low} to {slot.high}"


@cache
def _members(choices: type[IntEnum]) -> tuple[int, ...]:
    return tuple(int(member) for member in choices)


def _in_range(slot: Slot, values: Array) -> Bools:
    if slot.field.enum is not None:
        return is_one_of(values, _members(slot.field.enum))
    return np.asarray((values >= slot.low) & (values <= slot.high), np.bool_)


# --- instructions to columns and words -----------------------------------------------------------


@lru_cache(maxsize=64)
def _getter(encoding: Format) -> attrgetter[tuple[int, ...]]:
    return attrgetter(*(slot.field.name for slot in encoding.values))


@lru_cache(maxsize=256)
def _limits(encoding: Format) -> tuple[Values, Values]:
    return _ranges(encoding.values)


@lru_cache(maxsize=64)
def _uop_limits(config: Sizes) -> tuple[Values, Values]:
    return _ranges(uop_layout(config))


def _ranges(slots: Sequence[Slot]) -> tuple[Values, Values]:
    """The least and greatest values of fields."""
    ranges = np.array([_range(slot) for slot in slots], np.int64)
    return ranges[:, 0], ranges[:, 1]


def _range(slot: Slot) -> tuple[int, int]:
    if slot.field.enum is None:
        return slot.low, slot.high
    members = sorted(int(member) for member in slot.field.enum)
    assert members == list(range(members[0], members[-1] + 1)), "the members of an enum have no gaps"
    return members[0], members[-1]


def _table(
    rows: list[tuple[int, ...]], slots: Sequence[Slot], limits: tuple[Values, Values], place: Callable[[int], str]
) -> Values:
    """The rows as an array; IsaError where a value is not an integer or does not fit its field."""
    try:
        values = np.array(rows)
    except (OverflowError, ValueError):
        values = np.array(rows, object)
    if values.dtype.kind not in "iub":
        _refuse_values(rows, slots, place)
    values = values.astype(np.int64)
    low, high = limits
    if (values < low).any() or (values > high).any():
        _refuse_values(rows, slots, place)
    return values


def _refuse_values(rows: list[tuple[int, ...]], slots: Sequence[Slot], place: Callable[[int], str]) -> None:
    for index, row in enumerate(rows):
        for value, slot in zip(row, slots, strict=True):
            if not isinstance(value, (int, np.integer)) or not _in_range(slot, np.array(int(value), object)).all():
                raise IsaError(place(index), f"{slot.field.name} must {_range_rule(slot)}, got {value!r}")


def _positions(isa: InstructionSet, instructions: Sequence[Instruction]) -> dict[Format, list[int]]:
    positions: dict[Format, list[int]] = {}
    for index, instruction in enumerate(instructions):
        if not isinstance(instruction, isa.classes):
            choices = ", ".join(cls.__name__ for cls in isa.classes)
            raise IsaError(f"instruction {index}", f"type must be one of {choices}, got {type(instruction).__name__}")
        positions.setdefault(isa.format_of(instruction), []).append(index)
    return positions


def instruction_columns(config: Sizes, instructions: Sequence[Instruction]) -> Values:
    """The columns of instructions; IsaError where a value does not fit its field."""
    isa = isa_of(config)
    table, codes = np.zeros((len(instructions), len(isa.columns)), np.int64), np.zeros(len(instructions), np.int64)
    for encoding, rows in _positions(isa, instructions).items():
        get = _getter(encoding)
        raw = [get(instructions[row]) for row in rows]
        values = _table(raw, encoding.values, _limits(encoding), partial(_where_row, rows, encoding))
        table[np.ix_(rows, encoding.value_columns)] = values
        codes[rows] = encoding.code
    isa.set_codes(table, codes)
    fill_unit(config, table)
    return table


def fill_unit(config: Sizes, table: Values) -> None:
    """Set the column `unit`: the unit that executes each instruction, -1 for an unknown opcode."""
    opcode = table[:, COL["opcode"]]
    unit = np.where(opcode == Opcode.SYNC, table[:, COL["unit"]], _UNIT_OF_OPCODE[opcode])
    buffer = table[:, COL["buffer"]]
    on_compute = (opcode == Opcode.LOAD) & np.logical_or.reduce([buffer == int(one) for one in COMPUTE_BUFFERS])
    if config.extensions:
        on_compute |= opcode == EXTENSION
    table[:, COL["unit"]] = np.where(on_compute, int(Unit.COMPUTE), unit)


def pack(config: Sizes, table: Values) -> Words:
    """The words of columns, without checks; values are truncated to their fields."""
    isa = isa_of(config)
    lanes = np.zeros((len(table), instruction_bytes(config) // 8), np.uint64)
    codes = isa.codes_of_columns(table)
    for code, encoding in isa.formats.items():
        rows = np.flatnonzero(codes == code)
        part = np.zeros((len(rows), lanes.shape[1]), np.uint64)
        for slot, column in zip(encoding.slots, encoding.columns, strict=True) if len(rows) else ():
            _insert(part, slot, table[rows, column])
        lanes[rows] = part
    return lanes.astype("<u8", copy=False).view(np.uint8)


def encode(config: Sizes, instructions: Sequence[Instruction]) -> Words:
    """The words of instructions, `np.uint8[n, instruction_bytes(config)]`.

    Raises:
        IsaError: an instruction is invalid.
    """
    table = instruction_columns(config, instructions)
    check_rules(config, table)
    return pack(config, table)


def with_fields(config: Sizes, words: Words, fields: Mapping[str, Values]) -> Words:
    """A copy of words with fields set in the instructions whose formats have them."""
    lanes = _lanes(words, instruction_bytes(config), "instructions").copy()
    isa = isa_of(config)
    codes = isa.codes_of_words(lanes)
    for code, encoding in isa.formats.items():
        rows = np.flatnonzero(codes == code)
        changed = [slot for slot in encoding.slots if slot.field.name in fields] if len(rows) else []
        used = np.zeros((1, lanes.shape[1]), np.uint64)
        for slot in changed:
            _insert(used, slot, np.array([-1], np.int64))
        part = lanes[rows] & ~used
        for slot in changed:
            _insert(part, slot, fields[slot.field.name][rows])
        lanes[rows] = part
    return lanes.astype("<u8", copy=False).view(np.uint8)


# --- words to columns and instructions -----------------------------------------------------------


def columns(config: Sizes, words: Words) -> Values:
    """The fields of words, with `unit` set for every instruction."""
    isa = isa_of(config)
    lanes = _lanes(words, instruction_bytes(config), "instructions")
    table = np.zeros((len(words), len(isa.columns)), np.int64)
    codes = isa.codes_of_words(lanes)
    isa.set_codes(table, codes)
    for code, encoding in isa.formats.items():
        rows = np.flatnonzero(codes == code)
        part = lanes[rows]
        for slot, column in zip(encoding.slots, encoding.columns, strict=True) if len(rows) else ():
            table[rows, column] = _extract(part, slot)
    fill_unit(config, table)
    return table


def check(config: Sizes, words: Words) -> Values:
    """The columns of words; IsaError names the first invalid instruction."""
    isa = isa_of(config)
    table = columns(config, words)
    lanes = _lanes(words, instruction_bytes(config), "instructions")
    codes = isa.codes_of_columns(table)
    _check_codes(isa, codes)
    _check_enums(isa, table, codes)
    stray = lanes & ~_used_bits(config)[codes]
    for row in np.flatnonzero(stray.any(axis=1))[:1]:
        lane = int(np.flatnonzero(stray[row])[0])
        bit = 64 * lane + (int(stray[row, lane]) & -int(stray[row, lane])).bit_length() - 1
        raise IsaError(_where(int(row), isa.formats[int(codes[row])]), f"bit {bit} must be 0, got 1")
    check_rules(config, table)
    return table


def _check_codes(isa: InstructionSet, codes: Values) -> None:
    for row in np.flatnonzero(~is_one_of(codes, isa.formats))[:1]:
        number, opcode = divmod(int(codes[row]), 8)
        if opcode == EXTENSION and isa.plug_ins:
            choices = ", ".join(f"{k} ({plug_in.name})" for k, plug_in in enumerate(isa.plug_ins))
            raise IsaError(f"instruction {row}", f"extension must be one of {choices}, got {number}")
        choices = ", ".join(f"{o.value} ({o.name})" for o in Opcode)
        more = f", {EXTENSION} (an extension)" if isa.plug_ins else ""
        raise IsaError(f"instruction {row}", f"opcode must be one of {choices}{more}, got {opcode}")


def _check_enums(isa: InstructionSet, table: Values, codes: Values) -> None:
    for code, encoding in isa.formats.items():
        rows = np.flatnonzero(codes == code)
        for slot, column in zip(encoding.slots[1:], encoding.columns[1:], strict=True):
            values = table[rows, column]
            if slot.field.enum is not None and not _in_range(slot, values).all():
                row = int(rows[int((~_in_range(slot, values)).argmax())])
                raise IsaError(
                    _where(row, encoding), f"{slot.field.name} must {_range_rule(slot)}, got {table[row, column]}"
                )


def check_rules(config: Sizes, table: Values) -> None:
    """Refuse columns, whose values fit their fields, that break a rule of the instruction set.

    IsaError names the first.
    """
    isa = isa_of(config)
    broken = first_broken(config, table, isa.col)
    if broken is not None:
        row, rule = broken
        encoding = isa.formats[int(isa.codes_of_columns(table[row : row + 1])[0])]
        field = next(slot.field for slot in encoding.slots if slot.field.name == rule.field)
        got = _show(int(table[row, encoding.column(rule.field)]), field)
        raise IsaError(_where(row, encoding), f"{rule.field} must {rule.words}, got {got}")


def decode(config: Sizes, words: Words) -> tuple[Instruction, ...]:
    """The instructions of words; IsaError names the first invalid one."""
    isa = isa_of(config)
    table = check(config, words)
    codes = isa.codes_of_columns(table)
    result: list[Instruction | None] = [None] * len(table)
    for code, encoding in isa.formats.items():
        rows = np.flatnonzero(codes == code)
        part = table[rows][:, encoding.value_columns].tolist()
        for row, values in zip(rows.tolist(), part, strict=True):
            result[row] = _build(encoding, values)
    return tuple(instruction for instruction in result if instruction is not None)


def _build(encoding: Format, values: Sequence[int]) -> Instruction:
    fields = [slot.field for slot in encoding.values]
    named: dict[str, Any] = {f.name: v if f.enum is None else f.enum(v) for f, v in zip(fields, values, strict=True)}
    return encoding.cls(**named)


# --- micro-ops -----------------------------------------------------------------------------------

_UOP_VALUES = attrgetter(*UOP_COLUMNS)


def encode_uops(config: Sizes, uops: Sequence[MicroOp]) -> Words:
    """The words of micro-ops, `np.uint8[n, uop_entry_bytes]`; IsaError if a value does not fit."""
    slots = uop_layout(config)
    lanes = np.zeros((len(uops), config.uop_entry_bytes // 8), np.uint64)
    if len(uops):
        values = _table([_UOP_VALUES(uop) for uop in uops], slots, _uop_limits(config), "micro-op {}".format)
        for column, slot in enumerate(slots):
            _insert(lanes, slot, values[:, column])
    return lanes.astype("<u8", copy=False).view(np.uint8)


def uop_columns(config: Sizes, table: Words) -> Values:
    """The fields of encoded micro-ops, `np.int64[n, 5]`, in the order of UOP_COLUMNS."""
    lanes = _lanes(table, config.uop_entry_bytes, "micro-ops")
    return np.stack([_extract(lanes, slot) for slot in uop_layout(config)], axis=1)


def check_uops(config: Sizes, table: Words) -> Values:
    """The fields of encoded micro-ops; IsaError names the first that sets an undefined bit."""
    lanes = _lanes(table, config.uop_entry_bytes, "micro-ops")
    used = np.zeros((1, lanes.shape[1]), np.uint64)
    for slot in uop_layout(config):
        _insert(used, slot, np.array([-1], np.int64))
    for row in np.flatnonzero((lanes & ~used).any(axis=1))[:1]:
        raise IsaError(f"micro-op {row}", f"bits that no field has must be 0, got {table[row].tobytes().hex()}")
    return uop_columns(config, table)


def decode_uops(config: Sizes, table: Words) -> tuple[MicroOp, ...]:
    """The micro-ops of encoded ones."""
    return tuple(MicroOp(*row) for row in check_uops(config, table).tolist())

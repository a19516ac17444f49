# SPDX-License-Identifier: Apache-2.0
"""The instruction set: hand-computed words, round trips at the limits, exact error messages."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from helpers.random_config import random_config
from helpers.random_instructions import random_columns, random_instructions, random_uops

from vdla.hardware.config import PRESETS, Config
from vdla.hardware.isa import (
    CLASSES,
    COL,
    COLUMNS,
    FORMATS,
    RULES,
    UOP_COLUMNS,
    Buffer,
    Emit,
    Gemm,
    IsaError,
    Load,
    MicroOp,
    Opcode,
    Operand,
    Source,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    check,
    check_uops,
    columns,
    decode,
    decode_uops,
    encode,
    encode_uops,
    instruction_bytes,
    instruction_columns,
    layout,
    opcode_of,
    unit_of,
    uop_columns,
    uop_layout,
    with_fields,
)

PYNQ = Config.preset("pynq_z1")
presets = pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)


def word(config, instruction):
    return int.from_bytes(encode(config, [instruction])[0].tobytes(), "little")


def test_a_load_encodes_to_a_hand_computed_word():
    load = Load(Buffer.SCL, sram=3, dram=5, x_size=2, push_next=1)
    # opcode 1, push_next at bit 6, buffer 2 at 7, sram 3 at 11, dram 5 at 23, z_size 1 at 55,
    # y_size 1 at 68, x_size 2 at 81
    assert word(PYNQ, load) == 0x40010_0080_0000_0280_1941


def test_a_micro_op_encodes_to_a_hand_computed_word():
    # acc 1 at 0 (11 bits), src 2 at 11 (11 bits), wgt 3 at 22 (14 bits), first at 36, last at 37
    encoded = encode_uops(PYNQ, [MicroOp(1, 2, 3, 1, 1)])
    assert encoded.tobytes() == (1 | 2 << 11 | 3 << 22 | 1 << 36 | 1 << 37).to_bytes(8, "little")


def test_a_negative_field_encodes_in_twos_complement():
    assert word(PYNQ, Vector(VectorOp.ADD, Operand.IMM, imm=-1)) >> 228 == 0xFFFF


def naive_encode(config, instruction):
    """Encodes one field at a time, in Python integers."""
    value = 0
    for slot in layout(config)[opcode_of(instruction)]:
        name = slot.field.name
        number = int(opcode_of(instruction)) if name == "opcode" else int(getattr(instruction, name))
        value |= (number % (1 << slot.width)) << slot.offset
    return value.to_bytes(instruction_bytes(config), "little")


@presets
def test_random_instructions_round_trip(config):
    instructions = random_instructions(config, np.random.default_rng(1), 400)
    words = encode(config, instructions)
    assert words.shape == (400, instruction_bytes(config))
    assert decode(config, words) == instructions
    assert [row.tobytes() for row in words] == [naive_encode(config, i) for i in instructions]
    assert {opcode_of(i) for i in instructions} == set(Opcode)


@presets
def test_columns_agree_with_instructions(config):
    instructions = random_instructions(config, np.random.default_rng(2), 200)
    table = columns(config, encode(config, instructions))
    assert np.array_equal(table, instruction_columns(config, instructions))
    for row, instruction in zip(table, instructions, strict=True):
        assert row[COL["opcode"]] == opcode_of(instruction)
        assert row[COL["unit"]] == unit_of(instruction)
        names = {field.name for field in fields(instruction)}
        assert all(row[COL[name]] == getattr(instruction, name) for name in names)
        assert not any(row[COL[name]] for name in COLUMNS if name not in names | {"opcode", "unit"})


RULED_OUT = {"opcode", "unit", "buffer", "uop_begin", "pop_prev", "pop_next", "push_prev", "push_next"}
"""Fields whose greatest value is not valid in every format, or is drawn otherwise."""


@presets
def test_every_field_reaches_its_limits(config):
    table = random_columns(config, np.random.default_rng(3), 4000)
    for opcode, slots in layout(config).items():
        rows = table[table[:, COL["opcode"]] == opcode]
        for slot in slots:
            high = max(slot.field.enum) if slot.field.enum is not None else slot.high
            if slot.field.name not in RULED_OUT:
                assert rows[:, COL[slot.field.name]].max() == high, (opcode, slot.field.name)


@presets
def test_micro_ops_round_trip_through_words(config):
    uops = random_uops(config, np.random.default_rng(4), 300)
    encoded = encode_uops(config, uops)
    assert encoded.shape == (300, config.uop_entry_bytes)
    assert decode_uops(config, encoded) == uops
    expected = [[getattr(uop, name) for name in UOP_COLUMNS] for uop in uops]
    assert uop_columns(config, encoded).tolist() == expected


@presets
def test_indices_reach_every_entry(config):
    widths = {slot.field.name: slot.high + 1 for slot in uop_layout(config)}
    assert widths["acc"] == config.acc_depth
    assert widths["src"] == max(config.acc_depth, config.inp_depth, config.inp_vectors)
    assert widths["wgt"] == max(config.wgt_depth, config.wgt_vectors)


def test_table_and_classes_name_the_same_fields():
    for opcode, cls in CLASSES.items():
        assert {f.name for f in fields(cls)} == {f.name for f in FORMATS[opcode]} - {"opcode"}


def test_empty_sequences_round_trip():
    assert encode(PYNQ, []).shape == (0, 32)
    assert decode(PYNQ, encode(PYNQ, [])) == ()
    assert encode_uops(PYNQ, []).shape == (0, 8)
    assert decode_uops(PYNQ, encode_uops(PYNQ, [])) == ()


def test_each_instruction_belongs_to_its_unit():
    assert [unit_of(Load(buffer)) for buffer in list(Buffer)[:5]] == [
        Unit.LOAD,
        Unit.LOAD,
        Unit.LOAD,
        Unit.COMPUTE,
        Unit.COMPUTE,
    ]
    assert unit_of(Store()) is Unit.STORE
    assert unit_of(Sync(Unit.STORE)) is Unit.STORE
    assert {unit_of(Gemm()), unit_of(Vector(VectorOp.MOV))} == {Unit.COMPUTE}


def test_with_fields_changes_fields_where_a_format_has_them():
    instructions = [Load(Buffer.INP, dram=1), Gemm(), Store(dram=2, sram=5)]
    words = encode(PYNQ, instructions)
    moved = with_fields(PYNQ, words, {"dram": np.array([7, 8, 9]), "sram": np.array([3, 4, 0])})
    assert decode(PYNQ, moved) == (Load(Buffer.INP, dram=7, sram=3), Gemm(), Store(dram=9))
    assert decode(PYNQ, words) == tuple(instructions)


REQUANT = Gemm(emit=Emit.REQUANT, clip_lo=-128, clip_hi=127)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Gemm(acc=2048), "(GEMM): acc must be an integer from 0 to 2047, got 2048"),
        (Gemm(acc=-1), "(GEMM): acc must be an integer from 0 to 2047, got -1"),
        (Gemm(acc=1 << 70), "(GEMM): acc must be an integer from 0 to 2047, got 1180591620717411303424"),
        (Gemm(acc=1.5), "(GEMM): acc must be an integer from 0 to 2047, got 1.5"),
        (Gemm(acc="x"), "(GEMM): acc must be an integer from 0 to 2047, got 'x'"),
        (Store(dram=1 << 32), "(STORE): dram must be an integer from 0 to 4294967295, got 4294967296"),
        (Load(9), "(LOAD): buffer must be one of INP, WGT, SCL, UOP, ACC, OUT, got 9"),
        (Vector(12), "(VECTOR): op must be one of ADD, SUB, MUL, MIN, MAX, SHL, SHR, CLIP, MOV, MAC, got 12"),
        (Gemm(emit=3), "(GEMM): emit must be one of NONE, REQUANT, RAW, got 3"),
        (Load(Buffer.OUT), "(LOAD): buffer must be one of INP, WGT, SCL, UOP, ACC, got OUT"),
        (Load(Buffer.INP, pop_prev=1), "(LOAD): pop_prev must be 0 in the load unit, got 1"),
        (Sync(Unit.LOAD, push_prev=1), "(SYNC): push_prev must be 0 in the load unit, got 1"),
        (Store(pop_next=1), "(STORE): pop_next must be 0 in the store unit, got 1"),
        (Sync(Unit.STORE, push_next=1), "(SYNC): push_next must be 0 in the store unit, got 1"),
        (Load(Buffer.INP, widen=1), "(LOAD): widen must be 0 unless buffer is ACC, got 1"),
        (Load(Buffer.WGT, x_after=2), "(LOAD): x_after must be 0 unless buffer is INP or ACC, got 2"),
        (Load(Buffer.INP, pad_value=3), "(LOAD): pad_value must be 0 unless there is padding, got 3"),
        (
            Load(Buffer.INP, x_after=1, pad_value=200),
            "(LOAD): pad_value must fit an element of the input buffer, got 200",
        ),
        (Load(Buffer.INP, z_size=0), "(LOAD): z_size must be at least 1, got 0"),
        (Load(Buffer.INP, y_size=0), "(LOAD): y_size must be at least 1 with its padding, got 0"),
        (Load(Buffer.INP, x_size=0), "(LOAD): x_size must be at least 1 with its padding, got 0"),
        (Load(Buffer.INP, y_size=0, y_before=1, dram=4), "(LOAD): dram must be 0 unless there is data, got 4"),
        (Store(x_size=0), "(STORE): x_size must be at least 1, got 0"),
        (Gemm(uop_begin=1), "(GEMM): uop_end must be greater than uop_begin, got 1"),
        (Gemm(loop1=0), "(GEMM): loop1 must be at least 1, got 0"),
        (Gemm(scl=1), "(GEMM): scl must be 0 unless emit is REQUANT, got 1"),
        (Gemm(emit=Emit.RAW, clip_hi=1), "(GEMM): clip_hi must be 0 unless emit is REQUANT, got 1"),
        (Gemm(out=1), "(GEMM): out must be 0 unless emit is REQUANT or RAW, got 1"),
        (replace(REQUANT, clip_lo=5, clip_hi=4), "(GEMM): clip_lo must be at most clip_hi, got 5"),
        (
            Vector(VectorOp.ADD, Operand.IMM, Source.INP),
            "(VECTOR): source must be ACC unless src is read, got INP",
        ),
        (Vector(VectorOp.MUL, Operand.WGT, src=1), "(VECTOR): src must be 0 unless operand is SRC or op is MAC, got 1"),
        (Vector(VectorOp.MUL, wgt1=1), "(VECTOR): wgt1 must be 0 unless operand is WGT, got 1"),
        (Vector(VectorOp.MUL, imm=1), "(VECTOR): imm must be 0 unless operand is IMM, got 1"),
    ],
)
def test_invalid_fields_are_refused(instruction, message):
    with pytest.raises(IsaError) as error:
        encode(PYNQ, [Gemm(), Store(), instruction, Gemm(loop0=0)])
    assert str(error.value) == f"instruction 2 {message}"


def test_objects_that_are_no_instructions_are_refused():
    with pytest.raises(IsaError) as error:
        encode(PYNQ, [Gemm(), MicroOp()])
    assert str(error.value) == "instruction 1: type must be one of Load, Store, Gemm, Vector, Sync, got MicroOp"


def test_every_rule_can_be_broken():
    table = random_columns(PYNQ, np.random.default_rng(5), 3000)
    for rule in RULES:
        part = table[np.isin(table[:, COL["opcode"]], rule.opcodes)]
        broken = [_break(part, rule, value) for value in (0, 1, 3, 200)]
        assert any(broken), (rule.field, rule.words)


def _break(part, rule, value):
    changed = part.copy()
    changed[:, COL[rule.field]] = 5 if rule.field == "buffer" else value
    return not rule.holds(lambda name: changed[:, COL[name]], PYNQ).all()


def patched(position, value, instruction=None):
    words = encode(PYNQ, [Gemm(), instruction or Gemm()])
    words[1, position] = value
    return words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            patched(0, 0),
            "instruction 1: opcode must be one of 1 (LOAD), 2 (STORE), 3 (GEMM), 4 (VECTOR), 5 (SYNC), got 0",
        ),
        (patched(31, 0x80), "instruction 1 (GEMM): bit 255 must be 0, got 1"),
        (patched(1, 3, Sync(Unit.LOAD)), "instruction 1 (SYNC): bit 9 must be 0, got 1"),
    ],
)
def test_words_with_reserved_bits_or_opcodes_are_refused(words, message):
    with pytest.raises(IsaError) as error:
        check(PYNQ, words)
    assert str(error.value) == message


def test_an_undefined_enum_value_in_a_word_is_refused():
    with pytest.raises(IsaError) as error:
        check(PYNQ, patched(1, 1, Sync(Unit.COMPUTE)))
    assert str(error.value) == "instruction 1 (SYNC): unit must be one of LOAD, COMPUTE, STORE, got 3"


def test_arrays_of_a_wrong_type_or_shape_are_refused():
    with pytest.raises(IsaError, match=r"^instructions: array must be uint8\[n, 32\], got uint8\[2, 31\]$"):
        columns(PYNQ, np.zeros((2, 31), np.uint8))
    with pytest.raises(IsaError, match=r"^micro-ops: array must be uint8\[n, 8\], got int64\[2, 8\]$"):
        uop_columns(PYNQ, np.zeros((2, 8), np.int64))


def test_invalid_micro_ops_are_refused():
    with pytest.raises(IsaError, match=r"^micro-op 1: wgt must be an integer from 0 to 16383, got 16384$"):
        encode_uops(PYNQ, [MicroOp(), MicroOp(wgt=16384)])
    table = encode_uops(PYNQ, [MicroOp(), MicroOp()])
    table[1, 7] = 1
    with pytest.raises(IsaError, match=r"^micro-op 1: bits that no field has must be 0, got 0{14}01$"):
        check_uops(PYNQ, table)


def test_unknown_opcodes_have_no_unit():
    assert columns(PYNQ, np.zeros((1, 32), np.uint8))[0, COL["unit"]] == -1


@presets
def test_words_with_a_flipped_bit_are_refused_or_round_trip(config):
    rng = np.random.default_rng(6)
    words = encode(config, random_instructions(config, rng, 50))
    for word in words:
        flipped = word[np.newaxis].copy()
        flipped[0, rng.integers(len(word))] ^= 1 << rng.integers(8)
        try:
            instructions = decode(config, flipped)
        except IsaError:
            continue
        assert np.array_equal(encode(config, instructions), flipped)


@pytest.mark.parametrize("seed", range(20))
def test_random_configurations_round_trip(seed):
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    instructions, uops = random_instructions(config, rng, 40), random_uops(config, rng, 20)
    assert decode(config, encode(config, instructions)) == instructions
    assert decode_uops(config, encode_uops(config, uops)) == uops
    assert [row.tobytes() for row in encode(config, instructions)] == [naive_encode(config, i) for i in instructions]

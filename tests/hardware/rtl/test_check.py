# SPDX-License-Identifier: Apache-2.0
"""vdla_check against the encoder: both accept the same words.

Words are valid ones, simple ones with one field changed, valid ones with one bit flipped, fields
drawn regardless of the rules, and random bits.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from helpers.random_instructions import random_columns
from helpers.rtl.tested_rtl import PLUSARGS
from helpers.staged_datapaths import leaky
from helpers.verilated_program import program

import vdla
from vdla.hardware.config import PRESETS
from vdla.hardware.isa import (
    COL,
    COLUMNS,
    Buffer,
    Emit,
    Gemm,
    IsaError,
    Load,
    Opcode,
    Operand,
    StagedEmit,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    check,
    columns,
    instruction_bytes,
    instruction_columns,
    layout,
    pack,
)

pytestmark = pytest.mark.rtl

FULL = replace(PRESETS["pynq_z1"], name="full", wgt_kib=128, acc_kib=256, scl_kib=32, out_kib=64)
STAGED = vdla.extend(replace(PRESETS["tiny"], name="staged"), leaky(1))
CONFIGS = {name: PRESETS[name] for name in ("tiny", "zcu104", "int4")} | {"full": FULL, "staged": STAGED}

# One byte a word: 0 if invalid, else 1 + the unit.
MAIN = """
#include <cstdint>
#include <cstdio>
#include <cstring>

int main(int count, char **arguments) {
  Verilated::commandArgs(count, arguments);
  Vvdla_check model;
  uint8_t word[sizeof(model.word_i)];
  while (fread(word, sizeof word, 1, stdin) == 1) {
    memcpy(&model.word_i, word, sizeof word);
    model.eval();
    putchar(model.valid_o ? 1 + model.unit_o : 0);
  }
}
"""


def judge(config, words):
    """The verdicts of the module: 0 if invalid, else 1 + the unit."""
    binary = program("vdla_check", config, MAIN)
    done = subprocess.run([binary, *PLUSARGS], input=words.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.uint8)


def expected(config, words):
    """The verdicts of the encoder, word by word."""
    units = columns(config, words)[:, COL["unit"]] + 1
    for row in range(len(words)):
        try:
            check(config, words[row : row + 1])
        except IsaError:
            units[row] = 0
    return units


# --- words ----------------------------------------------------------------------------------------


def any_bits(slot, rng):
    """A random value of a field: extreme, small, or any."""
    return rng.choice([0, 1, slot.low, slot.high, rng.integers(slot.low, slot.high + 1)])


def valid(config, rng, count=150):
    return pack(config, random_columns(config, rng, count))


def plain(config):
    """A plain instruction for each combination of interdependent fields, as columns."""
    loads = [Load(buffer) for buffer in Buffer if buffer is not Buffer.OUT]
    fills = [
        Load(buffer, y_size=rows, x_size=columns, y_before=1, x_after=1)
        for buffer in (Buffer.INP, Buffer.ACC)
        for rows, columns in ((0, 0), (0, 1), (1, 0))
    ]
    gemms = [Gemm(emit=emit) for emit in (Emit if config.stage is None else StagedEmit)]
    operands = [(op, operand) for op in (VectorOp.ADD, VectorOp.MAC) for operand in Operand]
    vectors = [Vector(op, operand, emit=emit) for op, operand in operands for emit in (Emit.NONE, Emit.REQUANT)]
    syncs = [Sync(unit) for unit in Unit]
    return instruction_columns(config, [*loads, *fills, Store(), *gemms, *vectors, *syncs])


def every_field(config, rng):
    """Every field of every plain instruction at its extremes."""
    rows = []
    for row in plain(config):
        for slot in layout(config)[Opcode(row[COL["opcode"]])][1:]:
            for value in {0, 1, slot.low, slot.high}:
                rows.append(row.copy())
                rows[-1][COL[slot.field.name]] = value
    return pack(config, np.array(rows))


def every_bit(config, rng):
    """Every bit flipped in a word of each format."""
    table = random_columns(config, rng, 60)
    first = [np.flatnonzero(table[:, COL["opcode"]] == opcode)[0] for opcode in Opcode]
    width = instruction_bytes(config)
    bits = np.arange(8 * width)
    flips = np.zeros((len(bits), width), np.uint8)
    flips[bits, bits // 8] = 1 << (bits % 8)
    return np.concatenate([flips ^ pack(config, table[row : row + 1]) for row in first])


def unruly(config, rng, count=300):
    """Words with few non-zero fields, drawn regardless of the rules."""
    table = np.zeros((count, len(COLUMNS)), np.int64)
    for row in table:
        opcode = rng.choice(np.array(list(Opcode)))
        for slot in layout(config)[opcode][1:]:
            row[COL[slot.field.name]] = any_bits(slot, rng) if rng.random() < 0.4 else int(rng.random() < 0.5)
        row[COL["opcode"]] = opcode
    return pack(config, table)


def random_bits(config, rng, count=100):
    return rng.integers(0, 256, (count, instruction_bytes(config)), np.uint8)


KINDS = (valid, every_field, every_bit, unruly, random_bits)


@pytest.mark.sampled
@pytest.mark.parametrize("words_of", KINDS, ids=[kind.__name__ for kind in KINDS])
@pytest.mark.parametrize("name", CONFIGS)
def test_rtl_and_encoder_accept_the_same_words(name, words_of):
    config = CONFIGS[name]
    words = words_of(config, np.random.default_rng(7))
    got, want = judge(config, words), expected(config, words)
    wrong = np.flatnonzero(got != want)
    assert not len(wrong), f"word {words[wrong[0]].tobytes().hex()}: RTL says {got[wrong[0]]}, encoder {want[wrong[0]]}"
    assert len(got) == len(words) and (words_of is random_bits or want.any())
    assert words_of is valid or not want.all()


def test_a_configuration_fills_its_word():
    # A format without unused bits has no reserved field in the package.
    assert any(slots[-1].offset + slots[-1].width == 8 * instruction_bytes(FULL) for slots in layout(FULL).values())

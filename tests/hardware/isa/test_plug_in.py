# SPDX-License-Identifier: Apache-2.0
"""Instruction sets of machines with plug-ins; a plain machine's stays what it was."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.extended_programs import random_extended
from helpers.extensions import lut, mix, sad
from helpers.stateful import depthwise, table

import vdla
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.isa_page import render as isa_page
from vdla.hardware.generate.svgen import render
from vdla.hardware.isa import (
    COL,
    COLUMNS,
    Formula,
    FormulaError,
    Gemm,
    IsaError,
    PlugInField,
    check,
    columns,
    decode,
    encode,
    instruction_bytes,
    isa_of,
    pack,
    with_fields,
)
from vdla.hardware.isa.instruction_set import instruction_class

PLAIN = Config.preset("tiny")
TINY = vdla.extend(PLAIN, lut, sad, mix)
LUT, SAD, MIX = (isa_of(TINY).format_named(name).cls for name in ("lut", "sad", "mix"))


def machine_of(count):
    """A machine of so many plug-ins."""
    sums = vdla.extend(PLAIN, sad).extensions[0]
    return replace(PLAIN, extensions=tuple(replace(sums, name=f"sad_{number}") for number in range(count)))


def test_columns_of_plug_ins_follow_those_of_the_plain_machine():
    assert isa_of(PLAIN).columns == COLUMNS
    assert isa_of(TINY).columns == (*COLUMNS, "extension", "lut.shift", "mix.by")
    assert [isa_of(TINY).col[name] for name in COLUMNS] == list(COL.values())


def test_a_word_has_its_fields_where_the_table_says():
    """By hand: opcode 6, pop_prev at bit 3, number 1 at 7, init at 11, loops at 30, acc at 48."""
    word = int.from_bytes(encode(TINY, [SAD(pop_prev=1, init=1, loop0=2, acc=5)])[0].tobytes(), "little")
    assert word == 6 | 1 << 3 | 1 << 7 | 1 << 11 | 1 << 22 | 2 << 30 | 1 << 39 | 5 << 48


@pytest.mark.parametrize("count", [3, 16, 17, 64])
def test_random_instructions_survive_encoding_and_decoding(count):
    config = machine_of(count)
    table, _ = random_extended(config, np.random.default_rng(1), 50)
    words = pack(config, table)
    assert (check(config, words) == table).all()
    assert (encode(config, decode(config, words)) == words).all()


@pytest.mark.parametrize(("count", "bits"), [(1, 4), (16, 4), (17, 5), (32, 5), (33, 6), (64, 6)])
def test_the_number_of_a_plug_in_has_four_bits_unless_the_machine_has_more_than_16(count, bits):
    """By hand: opcode 6, the number at bit 7, init behind it."""
    config = machine_of(count)
    last = isa_of(config).format_named(config.extensions[-1].name).cls
    word = encode(config, [last(init=1)])
    assert int.from_bytes(word[0].tobytes(), "little") & (1 << 8 + bits) - 1 == 6 | count - 1 << 7 | 1 << 7 + bits
    more = with_fields(config, word, {"extension": np.array([(1 << bits) - 1])})
    if count < 1 << bits:
        with pytest.raises(IsaError, match=rf"^instruction 0: extension must be one of .*, got {(1 << bits) - 1}$"):
            check(config, more)
    else:
        assert (more == word).all()


def test_instructions_stay_those_of_their_machine_however_many_plug_ins_come():
    for number in range(300):
        instruction_class(replace(TINY.extensions[1], name=f"other_{number}"))
    isa_of.cache_clear()
    assert decode(TINY, encode(TINY, [SAD(loop0=2)])) == (SAD(loop0=2),)


def test_words_of_plain_instructions_are_the_same_on_both_machines():
    word = encode(PLAIN, [Gemm(loop0=3, acc0=1)])
    assert (encode(TINY, [Gemm(loop0=3, acc0=1)]) == word).all()
    assert (columns(TINY, word)[:, : len(COLUMNS)] == columns(PLAIN, word)).all()
    assert instruction_bytes(TINY) == instruction_bytes(PLAIN)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (LUT(shift=32), "instruction 0 (LUT): shift must be an integer from 0 to 31, got 32"),
        (LUT(src=1), "instruction 0 (LUT): src must be 0 in lut, got 1"),
        (LUT(init=1), "instruction 0 (LUT): init must be 0 in lut, got 1"),
        (MIX(by=-129), "instruction 0 (MIX): by must be an integer from -128 to 127, got -129"),
        (SAD(loop0=0), "instruction 0 (SAD): loop0 must be at least 1, got 0"),
        (SAD(out=1), "instruction 0 (SAD): out must be 0 unless emit is REQUANT or RAW, got 1"),
        (SAD(push_prev=2), "instruction 0 (SAD): push_prev must be an integer from 0 to 1, got 2"),
    ],
)
def test_broken_rules_of_plug_ins_are_named(instruction, message):
    with pytest.raises(IsaError) as error:
        encode(TINY, [instruction])
    assert str(error.value) == message


def test_a_cost_that_fields_make_impossible_is_a_broken_rule():
    def declare(config):
        return replace(lut(config), interval="shift", latency=0)

    config = vdla.extend(PLAIN, declare)
    with pytest.raises(IsaError) as error:
        encode(config, [isa_of(config).format_named("lut").cls(shift=0)])
    assert str(error.value) == "instruction 0 (LUT): shift must keep the interval of lut, shift, at least 1, got 0"


def test_unknown_numbers_and_plain_machines_refuse_words_of_plug_ins():
    word = encode(TINY, [SAD()])
    with pytest.raises(IsaError) as error:
        check(PLAIN, word)
    choices = "1 (LOAD), 2 (STORE), 3 (GEMM), 4 (VECTOR), 5 (SYNC)"
    assert str(error.value) == f"instruction 0: opcode must be one of {choices}, got 6"
    with pytest.raises(IsaError) as error:
        check(vdla.extend(PLAIN, lut), word)
    assert str(error.value) == "instruction 0: extension must be one of 0 (lut), got 1"
    word[0, 0] = 7
    with pytest.raises(IsaError) as error:
        check(TINY, word)
    assert str(error.value) == f"instruction 0: opcode must be one of {choices}, 6 (an extension), got 7"


def test_instructions_of_other_machines_are_no_instructions_of_this_one():
    with pytest.raises(IsaError) as error:
        encode(PLAIN, [SAD()])
    assert str(error.value) == ("instruction 0: type must be one of Load, Store, Gemm, Vector, Sync, got Sad")


# --- configurations ------------------------------------------------------------------------------


def test_the_fingerprint_covers_what_an_extension_computes_and_costs():
    def slower(config):
        return replace(lut(config), latency=3)

    def described(config):
        return replace(lut(config), doc="Another sentence.")

    one, two, three = (vdla.extend(PLAIN, declare) for declare in (lut, slower, described))
    assert len({PLAIN.fingerprint, one.fingerprint, two.fingerprint}) == 3
    assert three.fingerprint == one.fingerprint


def test_a_configuration_survives_json_and_pickling():
    assert Config.from_dict(TINY.to_dict()) == TINY
    assert pickle.loads(pickle.dumps(TINY)) == TINY
    assert "extensions" not in PLAIN.to_dict()


def test_plug_ins_that_are_not_loaded_are_refused_by_name():
    def other(config):
        return replace(lut(config), name="other")

    vdla.load_extension(other)
    label = "unheard_of#0123456789ab"
    with pytest.raises(ConfigError) as error:
        Config.from_dict({"extensions": [label]})
    found = "config: extension unheard_of#0123456789ab must be loaded, with vdla.load_extension or --extension FILE; "
    assert str(error.value).startswith(f"{found}loaded: other")
    with pytest.raises(ConfigError, match=r"extension other must have digest 0123456789ab, got [0-9a-f]{12} from "):
        Config.from_dict({"extensions": ["other#0123456789ab"]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"block_out": 8},
            "config tiny: extension lut must be declared for block_out=8, got 4; extend the final configuration",
        ),
        ({"extensions": TINY.extensions * 2}, "config tiny: names of extensions must differ, got lut twice"),
        (
            {"extensions": ["lut"]},
            "config tiny: extensions must be a tuple of plug-ins as vdla.extend makes them, got ['lut']",
        ),
        ({"extensions": TINY.extensions * 22}, "config tiny: extensions must be at most 64, got 66"),
    ],
)
def test_plug_ins_that_do_not_fit_a_configuration_are_refused(change, message):
    with pytest.raises(ConfigError) as error:
        replace(TINY, **change)
    assert str(error.value) == message


def test_a_format_that_would_widen_every_instruction_needs_to_be_allowed():
    def wide(config, allowed=False):
        fields = (*lut(config).fields, PlugInField("key", 31, "A key."))
        return replace(lut(config), fields=fields, latency="min(key, 2)", wide=allowed)

    pynq = Config.preset("pynq_z1")
    with pytest.raises(vdla.Error, match=r"field key must end within 256 bits, got 261; shorten it, or allow 512 bits"):
        vdla.extend(pynq, wide)
    assert instruction_bytes(vdla.extend(pynq, lambda config: wide(config, allowed=True))) == 64


def test_a_machine_without_datapaths_has_no_rtl():
    with pytest.raises(ConfigError) as error:
        render(TINY)
    assert str(error.value) == "rtl: extensions must have a datapath, got lut, sad, mix without one"


def test_the_reference_page_describes_the_instructions():
    page = isa_page(TINY)
    assert "## LUT\n\nReplaces every element of an accumulator entry by an element of a table." in page
    assert "| `shift` | 165:161 | 5 | unsigned | Bits that are dropped from a sum. |" in page
    assert "- `init` must be 0 in lut." in page


def test_the_reference_page_describes_state_and_stage():
    page = isa_page(vdla.extend(PLAIN, table, depthwise))
    assert "It writes the row at `acc` of state `table.table`, 64 of int8[4]." in page
    assert "It reads all rows of state `dw.taps`, 9 of int8[4]." in page
    assert "It reads and writes the only row of state `dw.window`, 1 of int8[3, 2, 1, 4]." in page
    assert "## Stage TABLE\n\nReplaces every result by an element of the table.\nResults with `emit` STAGE are" in page
    assert "- `scl` must be 0 unless emit is REQUANT or STAGE." in page
    assert "| 0 NONE, 1 REQUANT, 2 RAW, 3 STAGE |" in page


# --- formulas ------------------------------------------------------------------------------------


def test_formulas_count_on_numbers_and_columns():
    formula = Formula("max(1, a * 2 - b % 3, (b + 7) // 4)")
    assert formula.names == ("a", "b")
    assert formula.value({"a": 5, "b": 2}.get) == 8
    assert formula.value({"a": np.array([0, 5]), "b": np.array([9, 0])}.get).tolist() == [4, 10]


@pytest.mark.parametrize(
    "text", ["", "a.b", "a[0]", "__import__('os')", "a ** 2", "1.5", "True", "max(a)", "a if a else 1"]
)
def test_texts_that_are_no_formulas_are_refused(text):
    with pytest.raises(FormulaError) as error:
        Formula(text)
    assert str(error.value) == f"must be a formula of integers, fields, + - * // %, min and max, got {text!r}"


@pytest.mark.parametrize("text", ["a // b", "1 % 0", "a // (0 - 1)"])
def test_formulas_divide_by_positive_integers_only(text):
    with pytest.raises(FormulaError) as error:
        Formula(text)
    assert str(error.value) == f"must divide by positive integers only, got {text!r}"

# SPDX-License-Identifier: Apache-2.0
"""The datapath of a declaration: where its text comes from, and what it leaves unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.extensions import lut, sad

from vdla.compiler.extensions import ExtensionError
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_header import stub
from vdla.hardware.isa import PlugInUnit

TINY = Config.preset("tiny")


def text_of(declare):
    return stub(TINY, PlugInUnit((declare(TINY).plug_in(TINY),)))


TEXT = text_of(sad)


def datapath_of(given, declare=sad):
    return replace(declare(TINY), datapath=given).plug_in(TINY).datapath


def test_a_datapath_is_the_text_or_the_file_beside_the_declaration(tmp_path):
    assert datapath_of(None) is None
    assert datapath_of(TEXT).text == TEXT
    (tmp_path / "sad.sv").write_text(TEXT)
    found = datapath_of(tmp_path / "sad.sv")
    assert (found.text, found.place) == (TEXT, str(tmp_path / "sad.sv"))


def test_the_result_of_a_sum_is_added_and_any_other_replaces_the_entry():
    assert datapath_of(TEXT).reducer == "sum"
    assert datapath_of(text_of(lut), lut).reducer == ""


def test_a_plug_in_is_the_same_instruction_with_and_without_a_datapath():
    plain, built = (replace(sad(TINY), datapath=given).plug_in(TINY) for given in (None, TEXT))
    assert plain == built
    assert plain.digest == built.digest


def test_a_file_that_is_missing_is_refused():
    with pytest.raises(ExtensionError) as failure:
        datapath_of("none.sv")
    rule = "datapath must be SystemVerilog text, or a readable file that ends in .sv"
    assert str(failure.value).endswith(f"extension sad: {rule}, got none.sv (FileNotFoundError)")

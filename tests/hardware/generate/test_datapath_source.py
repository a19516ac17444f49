# SPDX-License-Identifier: Apache-2.0
"""What slang sees of a datapath when it is loaded: the line, the rule, its words, the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.staged_datapaths import leaky

import vdla
from vdla.compiler.extensions import ExtensionError
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.generate.datapath_source import read_source
from vdla.verification.generated_tests.datapath_samples import distance

pytest.importorskip("pyslang")

TINY = Config.preset("tiny")
TEXT = leaky(1)(TINY).datapath
assert isinstance(TEXT, str)
OUTPUT = "assign result_o = stages[1];"
NO_SYSTEMVERILOG = "datapath must be SystemVerilog, got"
LATCH = "datapath must have no latch, got"
SECOND = "each bit must have one driver, got"
ON_EVERY_PATH = "; assign it on every path, or waive it with // verilator lint_off LATCH"
IN_ONE_PLACE = "; assign it in one place, or waive it with // verilator lint_off MULTIDRIVEN"


def loaded(folder, text):
    (folder / "leaky.sv").write_text(text)
    return vdla.extend(TINY, lambda config: replace(leaky(1)(config), datapath=folder / "leaky.sv"))


@pytest.mark.parametrize(
    ("line", "rule", "said"),
    [
        ("assign result_o = ;", NO_SYSTEMVERILOG, "(expected expression)"),
        ("always_comb begin result_o = stages[1];", NO_SYSTEMVERILOG, "(expected 'end')"),
        ("assign result_o = stages[1] + wrong;", NO_SYSTEMVERILOG, "(use of undeclared identifier 'wrong')"),
        (
            "assign result_o = stages[1] + BlockOt;",
            NO_SYSTEMVERILOG,
            "(use of undeclared identifier 'BlockOt'; did you mean 'BlockOut'?)",
        ),
        ("adder u_adder (.a(clk_i));", NO_SYSTEMVERILOG, "(unknown module 'adder')"),
        (
            "always_comb if (x_i[0][0][0]) result_o = stages[1];",
            LATCH,
            f"(latch inferred for 'result_o' because it is not assigned on all control paths){ON_EVERY_PATH}",
        ),
        (
            "assign result_o = stages[1]; assign result_o[0][0] = '0;",
            SECOND,
            f"(cannot have multiple continuous assignments to variable 'result_o[0][0]'){IN_ONE_PLACE}",
        ),
        (
            "assign result_o = stages[1]; always_comb result_o[0][0] = '0;",
            SECOND,
            "(cannot mix continuous and procedural assignments to variable 'result_o[0][0]')" + IN_ONE_PLACE,
        ),
    ],
    ids=["expression", "end", "name", "size", "module", "latch", "assigns", "mixed"],
)
def test_a_fault_is_refused_where_the_datapath_is_loaded(tmp_path, line, rule, said):
    with pytest.raises(ExtensionError) as failure:
        loaded(tmp_path, TEXT.replace(OUTPUT, line))
    assert str(failure.value) == f"{tmp_path / 'leaky.sv'}:22: extension leaky: {rule} `{line}` {said}"


def test_an_error_of_the_language_comes_before_the_ports(tmp_path):
    text = TEXT.replace("input  logic valid_i,", "input  logic valid_i;", 1)
    with pytest.raises(ExtensionError, match=r":8: extension leaky: datapath must be SystemVerilog, got `input "):
        loaded(tmp_path, text)


def test_a_second_process_is_a_second_driver(tmp_path):
    line = "always_ff @(posedge clk_i) result_o <= stages[0];"
    with pytest.raises(ExtensionError) as failure:
        loaded(tmp_path, TEXT.replace(OUTPUT, f"{line}\n  {line}"))
    said = "(variable 'result_o' driven by always_ff procedure cannot be written to by any other process)"
    assert str(failure.value).endswith(f"leaky.sv:23: extension leaky: {SECOND} `{line}` {said}{IN_ONE_PLACE}")


def test_lanes_that_write_their_elements_of_any_row_are_accepted(tmp_path):
    rows = "logic [OutBits-1:0] rows[4][BlockOut]; for (genvar o = 0; o < BlockOut; o++) begin : gen_lane "
    rows += "always_ff @(posedge clk_i) rows[x_i[0][o][1:0]][o] <= x_i[0][o]; end"
    assert loaded(tmp_path, TEXT.replace(OUTPUT, f"{OUTPUT} {rows}")).stage.name == "leaky"
    whole = rows.replace("[x_i[0][o][1:0]][o] <=", " <= rows; //")
    with pytest.raises(ExtensionError, match=r"each bit must have one driver, got .* 'rows' driven by"):
        loaded(tmp_path, TEXT.replace(OUTPUT, f"{OUTPUT} {whole}\n end"))


def test_a_module_of_the_machine_is_known(tmp_path):
    part = "vdla_delay #(.Bits($bits(x_i))) u_delay (.clk_i, .data_i(x_i), .data_o(result_o));"
    assert loaded(tmp_path, TEXT.replace(OUTPUT, part)).stage.name == "leaky"
    with pytest.raises(ExtensionError, match=r"got `vdla_delay .* \(port 'datum_i' does not exist in 'vdla_delay'"):
        loaded(tmp_path, TEXT.replace(OUTPUT, part.replace(".data_i", ".datum_i")))


@pytest.mark.parametrize("waiver", ["// verilator lint_off LATCH\n", "/* verilator lint_off LATCH */"])
def test_a_waived_fault_is_accepted_up_to_the_end_of_the_waiver(tmp_path, waiver):
    line = "always_comb if (x_i[0][0][0]) result_o = stages[1];"
    assert loaded(tmp_path, TEXT.replace(OUTPUT, f"{waiver}{line}")).stage.name == "leaky"
    ended = waiver.replace("off", "on") if waiver.startswith("//") else "// verilator lint_on LATCH\n"
    with pytest.raises(ExtensionError, match="no latch"):
        loaded(tmp_path, TEXT.replace(OUTPUT, f"{waiver}\n{ended}{line}"))


def test_a_long_line_is_cut(tmp_path):
    with pytest.raises(ExtensionError) as failure:
        loaded(tmp_path, TEXT.replace(OUTPUT, f"assign result_o = {'wrong + ' * 20}1;"))
    assert f"`{('assign result_o = ' + 'wrong + ' * 20)[:69]}...`" in str(failure.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_sound_datapath_is_accepted_on_every_preset(preset):
    config = PRESETS[preset]
    assert vdla.extend(config, distance(2), leaky(1)).stage.name == "leaky"


def test_without_slang_nothing_is_said(monkeypatch):
    monkeypatch.setattr("vdla.hardware.generate.datapath_source.find_spec", lambda name: None)
    assert read_source("module ext_x (; endmodule", "ext_x", "") == read_source("", "ext_x", "")

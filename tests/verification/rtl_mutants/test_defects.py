# SPDX-License-Identifier: Apache-2.0
"""The defects of small pieces of SystemVerilog; the text with many of them by their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyslang")

from vdla.hardware.config import Config
from vdla.hardware.generate.rtl_files import rtl_files
from vdla.verification.rtl_mutants.campaign import all_defects, sample
from vdla.verification.rtl_mutants.defects import Defect, defects
from vdla.verification.rtl_mutants.design import DesignError, read_design
from vdla.verification.rtl_mutants.machines import mutated_machines
from vdla.verification.rtl_mutants.model import guarded, mutated
from vdla.verification.rtl_mutants.rules import KINDS

TINY = Config.preset("tiny")
MODULE = """\
module vdla (
  input  logic              clk_i,
  input  logic              rst_ni,
  input  logic              a_i,
  input  logic              b_i,
  input  logic        [7:0] x_i,
  input  logic signed [3:0] s_i,
  output logic        [7:0] y_o
);
  localparam int unsigned Size = 1 + 2;
  logic [7:0] q;
  {code}
endmodule
"""


def found(folder: Path, code: str) -> list[Defect]:
    (folder / "vdla.sv").write_text(MODULE.replace("{code}", code))
    (file,) = read_design(TINY, folder)
    return defects(file)


@pytest.mark.parametrize(
    ("code", "kind", "changes"),
    [
        ("assign y_o = x_i - q;", "operator", {"x_i - q": "(x_i) + (q)"}),
        ("assign y_o = x_i - q;", "swap", {"x_i - q": "(q) - (x_i)"}),
        ("assign y_o = x_i - q;", "term", {"x_i - q": "(x_i)"}),
        ("assign y_o[0] = a_i && b_i;", "term", {"a_i && b_i": "1'b1 && (b_i)"}),
        ("assign y_o[0] = x_i == q;", "comparison", {"x_i == q": "(x_i) == ((q) + 1'b1)"}),
        ("assign y_o[0] = x_i < q;", "operator", {"x_i < q": "(x_i) <= (q)"}),
        ("assign y_o = x_i + 8'd255;", "constant", {"8'd255": "8'd0"}),
        ("assign y_o = a_i ? x_i : '0;", "constant", {"'0": "'1"}),
        ("assign y_o = a_i ? x_i : q;", "swap", {"a_i ? x_i : q": "(a_i) ? (q) : (x_i)"}),
        ("assign y_o = {4'd0, x_i[7:4]};", "width", {"x_i[7:4]": "x_i[7:(4) + 1]"}),
        ("assign y_o = 8'(s_i);", "sign", {"8'(s_i)": "$signed(8'($unsigned(s_i)))"}),
        ("assign y_o[0] = !a_i;", "negation", {"!a_i": "1'b0 || (a_i)"}),
        ("always_ff @(posedge clk_i) if (!rst_ni) q <= '0; else q <= x_i;", "reset", {"!rst_ni": "1'b0"}),
        ("always_ff @(posedge clk_i) if (a_i) q <= x_i;", "enable", {"a_i": "1'b1"}),
        ("always_ff @(posedge clk_i) if (a_i) q <= x_i;", "assignment", {"q <= x_i;": ";"}),
        ("always_comb case (a_i) 1'b1: y_o = q; default: y_o = x_i; endcase", "case", {"y_o = q;": "y_o = x_i;"}),
    ],
)
def test_a_rule_changes_one_thing(tmp_path: Path, code: str, kind: str, changes: dict[str, str]) -> None:
    mine = {defect.before: defect.after for defect in found(tmp_path, code) if defect.kind == kind}
    assert changes.items() <= mine.items()


@pytest.mark.parametrize(
    "code",
    [
        "logic [3:1] constant_range;",
        "localparam int unsigned Other = Size + 1;",
        "logic unused; assign unused = x_i + q;",
        "for (genvar k = 0; k < Size + 1; k++) begin : gen_empty logic one; end",
        "if (Size == 4) begin : gen_never assign y_o = x_i + q; end",
        "function automatic int next(int n); return n + 1; endfunction localparam int N = next(Size);",
    ],
)
def test_constants_and_code_that_is_not_elaborated_have_no_defects(tmp_path: Path, code: str) -> None:
    assert found(tmp_path, code) == []


def test_every_kind_and_nearly_every_module_has_defects() -> None:
    every = all_defects(mutated_machines())
    assert {defect.kind for defect in every} == set(KINDS)
    assert len({defect.key for defect in every}) == len(every) > 2000
    without = {path.stem for path in rtl_files()} - {defect.module for defect in every}
    assert without == {"vdla_types_pkg", "vdla_regs_pkg", "vdla_ext_pkg", "vdla_gemm_core"}  # constants, wires


def test_a_defect_keeps_its_key_where_lines_move(tmp_path: Path) -> None:
    code = "assign y_o = x_i - q;"
    before, after = found(tmp_path, code), found(tmp_path, f"// A comment.\n\n  {code}")
    assert [defect.key for defect in before] == [defect.key for defect in after]
    assert {defect.line for defect in before}.isdisjoint(defect.line for defect in after)


def test_the_guarded_text_has_every_defect_behind_its_number(tmp_path: Path) -> None:
    every = found(tmp_path, "assign y_o = x_i - (q + 1'b1);")
    text = (tmp_path / "vdla.sv").read_text()
    inner = next(defect for defect in every if defect.after == "(q) - (1'b1)")
    outer = next(defect for defect in every if defect.after == "(x_i) + ((q + 1'b1))")
    wanted = "(vdla_mutant_pkg::active == 2 ? ((q) - (1'b1)) : (q + 1'b1))"
    both = f"(vdla_mutant_pkg::active == 1 ? ((x_i) + ((q + 1'b1))) : (x_i - ({wanted})))"
    assert f"assign y_o = {both};" in guarded(text, {1: outer, 2: inner})
    assert "assign y_o = x_i - (((q) - (1'b1)));" in mutated(text, inner)


def test_a_dropped_statement_is_guarded_as_a_block(tmp_path: Path) -> None:
    every = found(tmp_path, "always_ff @(posedge clk_i) if (a_i) q <= x_i; else q <= '0;")
    drop = next(defect for defect in every if defect.before == "q <= x_i;")
    text = guarded((tmp_path / "vdla.sv").read_text(), {7: drop})
    assert "if (a_i) begin if (vdla_mutant_pkg::active == 7) ; else q <= x_i; end else q <= '0;" in text


def test_an_error_of_the_language_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="undeclared identifier 'nothing'"):
        found(tmp_path, "assign y_o = nothing;")


def test_a_sample_has_every_module_and_repeats_by_its_seed() -> None:
    every = all_defects(mutated_machines())
    chosen = sample(every, 3, 100)
    assert chosen == sample(every, 3, 100) != sample(every, 4, 100)
    assert len({defect.key for defect in chosen}) == 100
    assert {defect.module for defect in chosen} == {defect.module for defect in every}


def test_assertions_have_no_defects(tmp_path: Path) -> None:
    check = "Sum_A: assert property (@(posedge clk_i) x_i + q != 8'd3);"
    assert found(tmp_path, f"`ifndef SYNTHESIS\n  {check}\n`endif") == []

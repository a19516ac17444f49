# SPDX-License-Identifier: Apache-2.0
"""Assembly text: a golden program, round trips, errors that point at line and column."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.random_instructions import unordered_program
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.hardware.asm import AsmError, assemble, disassemble, instruction_text
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.isa import Buffer, Gemm, Load, MicroOp, Sync, Unit, decode, decode_uops
from vdla.hardware.program import Program, ProgramError

TEXT = """\
.program "demo"  # a comment
.config preset=tiny
.config dram.read_latency=12
.tensor x role=input dtype=int8 shape=4x4 layout=NC nbytes=16
.uop first acc=1
.uop last wgt=0x2
.source "for i in range(4):"
load inp dram=x+0x1 x_size=2 signal=compute @0
load uop dram=uops x_size=2
gemm uop_end=2 init=1 wait=load
sync store
"""


def same(a, b):
    return a.to_bytes() == b.to_bytes() and a.hash == b.hash


def test_hand_written_text_assembles():
    program = assemble(TEXT)
    assert program.name == "demo"
    assert program.config.dram.read_latency == 12
    assert decode(program.config, program.words) == (
        Load(Buffer.INP, dram=1, x_size=2, push_next=1),
        Load(Buffer.UOP, x_size=2),
        Gemm(uop_end=2, init=1, pop_prev=1),
        Sync(Unit.STORE),
    )
    assert program.tensor_of.tolist() == [0, 1, -1, -1]
    assert program.source_of.tolist() == [0, -1, -1, -1]
    table = np.frombuffer(program.tensor("uops").data, np.uint8).reshape(2, -1)
    assert decode_uops(program.config, table) == (MicroOp(acc=1, first=1), MicroOp(wgt=2, last=1))


def test_the_disassembly_equals_the_recorded_text(golden):
    golden("demo.s", disassemble(assemble(TEXT)))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(PRESETS.values())), st.integers(0, 1 << 32))
def test_programs_round_trip_through_text(config, seed):
    program = unordered_program(config, seed)
    text = disassemble(program)
    assert same(assemble(text), program)
    assert disassemble(assemble(text)) == text
    assert same(assemble(disassemble(program, numbered=True)), program)


def test_invalid_words_round_trip_as_hex():
    program = unordered_program(Config.preset("pynq_z1"), 3)
    words = program.words.copy()
    words[4] = 0xFF
    words[5] = 0
    none = np.full(len(words), -1, np.int32)
    broken = Program(
        config=program.config,
        name="broken",
        words=words,
        tensors=program.tensors,
        tensor_of=none,
        source_lines=program.source_lines,
        source_of=none,
    )
    text = disassemble(broken)
    assert f"\n.word {'ff' * 32}\n.word {'00' * 32}\n" in text
    assert same(assemble(text), broken)


def test_an_instruction_prints_its_fields_that_are_not_default():
    assert instruction_text(Load(Buffer.ACC, dram=16, widen=1, pop_next=1, push_prev=1)) == (
        "load acc widen=1 dram=0x10 wait=store signal=load"
    )
    assert instruction_text(Sync(Unit.COMPUTE, 1, 1)) == "sync compute wait=load,store"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "lod inp",
            "line 3, column 1: instruction or directive must be one of load, store, gemm, vector, sync, .program, "
            ".config, .tensor, .data, .uop, .source, .word, got lod",
        ),
        ("load", "line 3, column 1: load must be followed by buffer, got nothing"),
        ("load foo", "line 3, column 6: buffer must be one of inp, wgt, scl, uop, acc, out, got foo"),
        (
            "  gemm  loop3=1",
            "line 3, column 9: field of gemm must be one of init, emit, uop_begin, uop_end, loop0, loop1, acc, src, "
            "wgt, out, scl, acc0, acc1, src0, src1, wgt0, wgt1, scl0, scl1, zero_point, clip_lo, clip_hi, wait, "
            "signal, got loop3",
        ),
        ("gemm loop0=x", "line 3, column 6: loop0 must be an integer, got x"),
        ("gemm loop0=", "line 3, column 6: loop0 must be an integer, got nothing"),
        ("gemm loop0", "line 3, column 6: loop0 must be an integer, got nothing"),
        ("gemm loop0=1 loop0=2", "line 3, column 14: loop0 must be given once, got loop0=2"),
        ("gemm loop0=0", "line 3, column 1: loop0 must be at least 1, got 0"),
        ("gemm acc=99999", "line 3, column 1: acc must be an integer from 0 to 63, got 99999"),
        ("sync load wait=store", "line 3, column 11: wait of load must be one of compute, got store"),
        ("sync store signal=", "line 3, column 12: signal of store must be one of compute, got nothing"),
        ("sync store @1", "line 3, column 1: source line must be one of the 0 given by .source, got 1"),
        ("sync store @x", "line 3, column 12: source line must be an integer, got x"),
        ("store dram=y", "line 3, column 1: dram must name one of x, got y"),
        ("store dram=x+q", "line 3, column 7: dram must be an integer, got q"),
        ('.source "abc', 'line 3, column 9: a string must end with ", got "'),
        (".source a b", 'line 3, column 1: .source must be written as .source "TEXT", got 2 words after it'),
        ('.source "\\q"', 'line 3, column 9: "\\q" must be a JSON string, got "\\q"'),
        (".uop foo=1", "line 3, column 6: field of a micro-op must be one of acc, src, wgt, first, last, got foo"),
        (".uop\n.uop acc=64", "line 4, column 1: acc must be an integer from 0 to 63, got 64"),
        (".data x 0", "line 3, column 9: data must be pairs of hex digits, got 0"),
        (".data y 00", "line 3, column 7: .data must name one of x, got y"),
        (".data x 00", "line 2, column 9: tensor x: data must be none for role input, got 1 bytes"),
        (".tensor", "line 3, column 1: .tensor must be followed by a name, got nothing"),
        (
            ".tensor z",
            "line 3, column 9: role of z must be one of input, weight, constant, output, scratch, resident, part, "
            "got nothing",
        ),
        (
            ".tensor z role=input",
            "line 3, column 9: dtype of z must be one of int2, int4, int8, int32, int64, uint8, uop, got nothing",
        ),
        (
            ".tensor z role=input dtype=uint8 shape=4",
            "line 3, column 9: tensor z: dtype must be one of int2, int4, int8, int32, int64, got 'uint8'",
        ),
        (
            ".tensor z role=input dtype=float32 shape=4",
            "line 3, column 9: tensor z: dtype must be one of int2, int4, int8, int32, int64, got 'float32'",
        ),
        (
            ".tensor z role=input dtype=int8 shape=4x0",
            "line 3, column 9: tensor z: shape must be of integers from 1, got (4, 0)",
        ),
        (
            ".tensor z role=input dtype=int8 shape=32x400000000 nbytes=4",
            "line 3, column 9: tensor z: nbytes must be 12800000000 for int8[32, 400000000], got 4",
        ),
        (".tensor x role=input dtype=int8", "line 3, column 9: names of tensors must differ, got x twice"),
        (
            ".tensor z size=4",
            "line 3, column 11: key of .tensor must be one of role, dtype, shape, layout, nbytes, whole, got size",
        ),
        (
            ".config preset=x",
            f"line 3, column 9: config: preset must be one of {', '.join(PRESETS)}, got x",
        ),
        (".config batch=3", "line 3, column 1: config tiny: batch must be a power of two from 1 to 64, got 3"),
        (".config batch=b", "line 3, column 9: batch must be an integer, got b"),
        (".config clock_mhz=b", "line 3, column 9: clock_mhz must be a number, got b"),
        (".word 00", "line 3, column 7: .word must have 32 bytes, got 1"),
        (".config", "line 3, column 1: .config must be followed by preset=NAME or fields, got nothing"),
        (".word", "line 3, column 1: .word must be followed by hex digits, got nothing"),
    ],
)
def test_errors_name_line_column_and_rule(line, message):
    with pytest.raises(AsmError) as error:
        assemble(f".config preset=tiny\n.tensor x role=input dtype=int8 shape=4\n{line}\n")
    assert str(error.value) == message


def test_a_tensor_reference_needs_a_tensor_directive():
    with pytest.raises(AsmError) as error:
        assemble(".config preset=tiny\nload inp dram=x")
    assert str(error.value) == "line 2, column 1: dram must name a tensor declared by .tensor, got x"


def test_text_without_a_configuration_is_refused():
    with pytest.raises(AsmError) as error:
        assemble("sync load\n")
    assert str(error.value) == (
        "assemble: text must name its machine by .config, got none (for example .config preset=pynq_z1)"
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", ".config preset=tiny\n"])
def test_text_without_an_instruction_is_refused(text):
    with pytest.raises(AsmError) as error:
        assemble(text)
    assert str(error.value) == "assemble: text must have an instruction, got none"


def test_bytes_of_a_tensor_follow_from_its_dtype_and_shape():
    program = assemble(".config preset=tiny\n.tensor x role=input dtype=int4 shape=3x6\nsync load\n")
    assert program.tensor("x").nbytes == 9


def test_each_instruction_has_its_file_and_line():
    program = assemble(TEXT.replace(".source", "# no source").replace(" @0", ""), "demo.s")
    assert [program.source_lines[index] for index in program.source_of] == [
        "demo.s:8: load inp dram=x+0x1 x_size=2 signal=compute",
        "demo.s:9: load uop dram=uops x_size=2",
        "demo.s:10: gemm uop_end=2 init=1 wait=load",
        "demo.s:11: sync store",
    ]
    assert same(assemble(disassemble(program)), program)


def test_explicit_source_lines_replace_those_of_the_text():
    assert same(assemble(TEXT, "demo.s"), assemble(TEXT))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_broken_text_gets_one_clear_error(data):
    position = data.draw(st.integers(0, len(TEXT)))
    length = data.draw(st.integers(0, 3))
    noise = data.draw(st.text('=@#"x0. \n+,-é', max_size=3))
    try:
        assemble(TEXT[:position] + noise + TEXT[position + length :])
    except AsmError as error:
        assert not isinstance(error.__cause__, ProgramError)

# SPDX-License-Identifier: Apache-2.0
"""Program files on the command line: assemble, disassemble, verify, run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.resident_programs import APPEND

from vdla.benchmarks import layers
from vdla.benchmarks.harness import BenchmarkResult
from vdla.cli import main
from vdla.commands import BAD_INPUT, FINDING, OK, bench_command
from vdla.commands import named_operators as templates
from vdla.commands.arrays import random_array, with_random
from vdla.hardware.asm import disassemble
from vdla.hardware.program import Program, ProgramTensor, from_bytes, to_bytes
from vdla.hardware.program.tensor import ELEMENT_BITS
from vdla.simulator.simulate import simulate
from vdla.support.progress import Progress

Capture = pytest.CaptureFixture[str]

TEXT = """\
.config name=tiny block_in=4 block_out=4 axi_bits=32
.config inp_kib=1 wgt_kib=1 scl_kib=1 uop_kib=1 acc_kib=1 out_kib=1
.tensor x role=input dtype=int8 shape=4x4 nbytes=16
load inp dram=x+0x1 x_size=2 signal=compute
sync compute wait=load
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.s"
    path.write_text(TEXT)
    return path


def complaint(capsys: Capture, *arguments: object) -> str:
    """The one-line error of the command line about bad input."""
    assert main([str(argument) for argument in arguments]) == BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("vdla: ").removesuffix("\n")


# --- asm and disasm -------------------------------------------------------------------------------


def test_asm_writes_beside_the_text_and_disasm_gives_it_back(text: Path, capsys: Capture) -> None:
    assert main(["asm", str(text)]) == OK
    program = Program.load(text.with_suffix(".vdla"))
    assert capsys.readouterr().out == f"{text.with_suffix('.vdla')}: 2 instructions, hash {program.hash}\n"
    assert main(["disasm", str(text.with_suffix(".vdla"))]) == OK
    assert capsys.readouterr().out == disassemble(program)


def test_disasm_writes_a_file_that_assembles_to_the_same_bytes(text: Path, tmp_path: Path) -> None:
    first, again, second = tmp_path / "first.vdla", tmp_path / "again.s", tmp_path / "second.vdla"
    assert main(["asm", str(text), "-o", str(first)]) == OK
    assert main(["disasm", str(first), "-o", str(again)]) == OK
    assert main(["asm", str(again), "-o", str(second)]) == OK
    assert first.read_bytes() == second.read_bytes()


def test_the_text_of_a_compiled_program_assembles_to_the_same_bytes(compiled: Path, tmp_path: Path) -> None:
    text, again = tmp_path / "conv.s", tmp_path / "again.vdla"
    assert main(["disasm", str(compiled), "-o", str(text)]) == OK
    assert main(["asm", str(text), "-o", str(again)]) == OK
    assert again.read_bytes() == compiled.read_bytes()


def test_asm_names_file_and_line_and_writes_nothing(text: Path, capsys: Capture) -> None:
    text.write_text(TEXT.replace("sync compute", "sink compute"))
    message = complaint(capsys, "asm", text)
    assert message.startswith(f"{text}: line 5, column 1: ")
    assert list(text.parent.iterdir()) == [text]


def test_asm_refuses_a_file_that_does_not_end_in_s(capsys: Capture) -> None:
    assert complaint(capsys, "asm", "c2.vdla") == "asm: name of the text must end in .s, got c2.vdla"


def test_a_text_must_be_utf8(text: Path, capsys: Capture) -> None:
    text.write_bytes(b"\xff\xfe")
    assert complaint(capsys, "asm", text) == f"{text}: content must be UTF-8 text, got byte 0xff"


@pytest.mark.parametrize("command", ["disasm", "verify", "run"])
def test_a_missing_file_is_named(command: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "absent.vdla"
    assert complaint(capsys, command, path).startswith(f"{path}: no such file")


def test_a_missing_network_is_named_whatever_is_asked_of_it(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "absent.vdla"
    assert complaint(capsys, "run", path, "--trust", "0" * 64).startswith(f"{path}: no such file")


def test_a_program_beyond_memory_is_refused_before_allocation(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "huge.s"
    path.write_text(".config preset=tiny\n.tensor x role=input dtype=int8 shape=32x400000000\nsync compute\n")
    message = complaint(capsys, "run", path, "--random-inputs", "0")
    assert message.startswith("run: the program must fit the 1073741824 bytes of the device's DRAM, got 1280000")


@pytest.mark.parametrize("command", ["disasm", "verify", "run"])
def test_a_damaged_file_is_refused(command: str, text: Path, capsys: Capture) -> None:
    main(["asm", str(text)])
    path = text.with_suffix(".vdla")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert complaint(capsys, command, path).startswith(f"{path}: checksum must be ")


# --- compile, verify, run -------------------------------------------------------------------------

SHAPE = ("height=5", "width=6", "in_channels=6", "out_channels=8", "kernel=3", "pads=1")
SMALL = ("--preset", "tiny", "--shape", *SHAPE)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small convolution for the machine tiny."""
    path = tmp_path_factory.mktemp("programs") / "conv.vdla"
    assert main(["compile", "conv2d", *SMALL, "-o", str(path)]) == OK
    return path


def test_compile_writes_the_program_and_the_schedule(tmp_path: Path, capsys: Capture) -> None:
    program, schedule = tmp_path / "conv.vdla", tmp_path / "conv.txt"
    assert main(["compile", "conv2d", *SMALL, "-o", str(program), "--schedule", str(schedule)]) == OK
    loaded = Program.load(program)
    assert capsys.readouterr().out.startswith(
        f"{program}: conv2d for tiny, {len(loaded)} instructions, hash {loaded.hash}\ntiles: "
    )
    assert "vthread(2)" in schedule.read_text()


def test_compile_lists_its_operators(capsys: Capture) -> None:
    assert main(["compile", "--list"]) == OK
    text = capsys.readouterr().out
    assert "conv2d\n  height=N width=N kernel=N in_channels=N out_channels=N\n  [batch=1] [strides=1] " in text
    assert "pool2d\n  height=N width=N kernel=N channels=N kind=max|average\n" in text
    assert "such as kernel=1x3" in text
    assert max(map(len, text.splitlines())) < 80
    assert "layers\n  C1 C2 " in text


@pytest.mark.parametrize("name", templates.templates())
def test_every_operator_and_word_of_the_list_is_accepted(name: str, tmp_path: Path, capsys: Capture) -> None:
    required, optional = templates.described(templates.templates()[name])
    choices = [option.strip("[]").split("=") for option in (*required, *optional) if "|" in option]
    base = [option.replace("=N", "=3") for option in required if "|" not in option]
    kinds = [option.split("|")[0] for option in required if "|" in option]
    for key, words in choices:
        for word in words.split("|"):
            others = [kind for kind in kinds if not kind.startswith(f"{key}=")]
            settings = [*base, *others, f"{key}={word}"]
            path = str(tmp_path / "p.vdla")
            status = main(["compile", name, "--preset", "tiny", "-o", path, "--shape", *settings])
            if key == "table" and word == "yes":  # no preset has the stage
                assert (status, "the machine must have a stage" in capsys.readouterr().err) == (BAD_INPUT, True)
            else:
                assert status == OK


def test_compile_says_when_fewer_threads_run(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", "conv2d", *SMALL, "--threads", "99", "-o", str(tmp_path / "p.vdla")]) == OK
    said = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"virtual threads: \d instead of 99; the tiles or the buffers allow no more", said)
    assert main(["compile", "conv2d", *SMALL, "--threads", "1", "-o", str(tmp_path / "p.vdla")]) == OK
    assert "virtual threads: " not in capsys.readouterr().out


def test_compile_takes_a_pair_where_rows_and_columns_differ(tmp_path: Path) -> None:
    path = tmp_path / "conv.vdla"
    options = [word if word != "kernel=3" else "kernel=3x1" for word in SMALL]
    assert main(["compile", "conv2d", *options, "-o", str(path)]) == OK
    assert Program.load(path).tensor("weight").shape[2:4] == (3, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("frob",), "compile: the first word must be a MODEL.onnx, or one of "),
        ((), "compile: the first word must be a model (vdla compile MODEL.onnx "),
        (("conv2d", "--shape", "height"), "--shape: setting must look like KEY=VALUE, got 'height'"),
        (("conv2d", "--shape", "height=x"), "compile conv2d: height must be an integer, got 'x'"),
        (("conv2d", "--shape", "kernel=3x"), "compile conv2d: kernel must be integers joined by x, got '3x'"),
        (("conv2d", "--shape", "heigth=3"), "compile conv2d: key must be one of batch, height, width, "),
        (("conv2d", "--shape", "raw=1"), "compile conv2d: raw must be yes or no, got '1'"),
        (("pool2d", "--shape", "height=4"), "compile pool2d: shape must give width, kernel, channels, kind, got none "),
        (("C2", "--shape", "height=3"), "compile C2: --shape must be left out for a named layer, got height=3"),
        (("conv2d", *SMALL, "strides=0"), "conv2d: strides must be one or two integers >= 1, got 0"),
    ],
)
def test_bad_arguments_of_compile_are_refused_in_one_line(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint(capsys, "compile", *words).startswith(message)
    assert list(tmp_path.iterdir()) == []


def test_verify_accepts_and_refuses(compiled: Path, text: Path, capsys: Capture) -> None:
    assert main(["verify", str(compiled)]) == OK
    assert capsys.readouterr().out == f"program conv2d: verified, {len(Program.load(compiled))} instructions\n"
    text.write_text(TEXT.replace("wait=load", "wait=store"))
    assert main(["verify", str(compiled), str(text)]) == FINDING
    assert "deadlock: " in capsys.readouterr().out


def test_verify_for_another_machine_is_a_finding(compiled: Path, capsys: Capture) -> None:
    assert main(["verify", str(compiled), "--for", "pynq_z1"]) == FINDING
    assert "configuration: program was compiled for block_in=4" in capsys.readouterr().out


def run_json(capsys: Capture, *arguments: object) -> dict[str, Any]:
    assert main(["run", *map(str, arguments), "--json"]) == OK
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_run_writes_the_outputs_of_the_simulator(compiled: Path, tmp_path: Path, capsys: Capture) -> None:
    program = Program.load(compiled)
    arrays = with_random(program, {}, 3)
    inputs = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        inputs.append(f"{name}={tmp_path / name}.npy")
    document = run_json(capsys, compiled, "--input", *inputs, "--output", tmp_path / "out")
    expected = simulate(program, arrays)
    assert np.array_equal(np.load(tmp_path / "out" / "output.npy"), expected.outputs["output"])
    assert document["total_cycles"] == expected.statistics.total_cycles
    assert document["written"] == [str(tmp_path / "out" / "output.npy")]
    again = run_json(capsys, compiled, "--random-inputs", 3)
    assert again["outputs"] == document["outputs"]
    assert run_json(capsys, compiled, "--random-inputs", 4)["outputs"] != document["outputs"]


def test_run_under_another_memory_needs_no_data(compiled: Path, capsys: Capture) -> None:
    fast = run_json(capsys, compiled, "--timing-only")
    slow = run_json(capsys, compiled, "--timing-only", "--dram", "read_latency=500", "beat_cycles=2")
    assert fast["program_hash"] == slow["program_hash"]
    assert slow["total_cycles"] > fast["total_cycles"]
    for unit in slow["counters"].values():
        assert sum(unit.values()) == slow["total_cycles"]


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A program that stores a row in a resident tensor, then reads all of it."""
    path = tmp_path / "append.s"
    path.write_text(APPEND)
    return path


@pytest.mark.parametrize("row", range(8))
def test_run_stores_a_part_at_its_offset(row: int, parts: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 4), 7, np.int8))
    words = ["--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path, "--offset", f"row={16 * row}"]
    assert main(["run", *map(str, [parts, *words])]) == OK
    expected = np.zeros((8, 4), np.int32)
    expected[row] = 7
    np.testing.assert_array_equal(np.load(tmp_path / "total.npy"), expected)
    capsys.readouterr()
    assert run_json(capsys, parts, "--timing-only", "--offset", f"row={16 * row}")["total_cycles"] > 0


@pytest.mark.parametrize("mode", [["--timing-only"], ["--random-inputs", "0"]])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["row=33"], "program append: offset of row in sums must be a multiple of 4 from 0 to 112, got 33"),
        (["rwo=4"], "program append: offsets must be of row, got rwo (did you mean row?)"),
        (["row=x"], "--offset: row must be an integer, got 'x'"),
        (["row"], "--offset: setting must look like KEY=VALUE, got 'row'"),
        (["row=16", "row=32"], "--offset: row must be given once, got it twice"),
    ],
)
def test_run_refuses_offsets_outside(
    mode: list[str], words: list[str], message: str, parts: Path, capsys: Capture
) -> None:
    assert complaint(capsys, "run", parts, *mode, "--offset", *words) == message


def test_run_writes_a_log_for_konata(compiled: Path, tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "run.kanata"
    assert main(["run", str(compiled), "--timing-only", "--konata", str(log)]) == OK
    assert log.read_text(encoding="utf-8").startswith("Kanata\t0004\nC=\t0\n")
    assert f"wrote {log}" in capsys.readouterr().out


def test_run_writes_trace_and_table(compiled: Path, tmp_path: Path, capsys: Capture) -> None:
    trace, table = tmp_path / "trace.json", tmp_path / "table.txt"
    assert main(["run", str(compiled), "--timing-only", "--trace", str(trace), "--table", str(table)]) == OK
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(slices) >= len(Program.load(compiled)) == len(table.read_text().splitlines()) - 1
    assert f"wrote {trace}\nwrote {table}" in capsys.readouterr().out


def test_run_shows_figures_stalls_and_lines(compiled: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["run", str(compiled), "--random-inputs", "0", "--lines", "3"]) == OK
    shown = capsys.readouterr().out
    for words in ("utilisation", "roofline", "cycles of each unit (%)", "token load>compute", "outputs", "block "):
        assert words in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "run: every input must have an array, got none for data (int8 "),
        (("--input", "data"), "--input: setting must look like KEY=VALUE, got 'data'"),
        (("--input", "data=absent.npy"), "absent.npy: no such file"),
        (("--random-inputs", "0", "--device", "board"), "device: name must be one of sim, rtl, pynq, got board"),
        (
            ("--timing-only", "--input", "data=x.npy"),
            "run: --input must be left out with --timing-only, got data=x.npy",
        ),
        (("--timing-only", "--random-inputs", "0"), "run: --random-inputs must be left out with --timing-only, got 0"),
        (("--timing-only", "--dram", "latency=3"), "--dram: key must be one of read_latency, "),
        (("--timing-only", "--dram", "read_latency=0"), "config dram: read_latency must be an integer from 1 "),
        (("--timing-only", "--trace", "absent/t.json"), "absent/t.json: no such folder absent"),
    ],
)
def test_bad_arguments_of_run_are_refused_in_one_line(
    words: tuple[str, ...], message: str, compiled: Path, capsys: Capture
) -> None:
    assert complaint(capsys, "run", compiled, *words).startswith(message)


def test_run_refuses_a_file_that_is_no_array(compiled: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.npy"
    path.write_text("not an array")
    message = complaint(capsys, "run", compiled, "--input", f"data={path}", "--random-inputs", "0")
    assert message == f"{path}: file must be an array in .npy format, got one that begins with b'not an'"
    np.save(path, np.zeros(100, np.int8))
    path.write_bytes(path.read_bytes()[:-1])
    message = complaint(capsys, "run", compiled, "--input", f"data={path}", "--random-inputs", "0")
    assert message.startswith(f"{path}: content must be an array in .npy format, got ")


def test_run_refuses_an_array_of_the_wrong_shape(compiled: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.int8))
    message = complaint(capsys, "run", compiled, "--input", f"data={tmp_path}/x.npy", "--random-inputs", "0")
    assert message.startswith("tensor data: shape must be ")


# --- the others -----------------------------------------------------------------------------------


def test_isa_prints_the_page_or_the_package(tmp_path: Path, capsys: Capture) -> None:
    assert main(["isa", "--preset", "int4"]) == OK
    assert "GEMM" in capsys.readouterr().out
    path = tmp_path / "vdla_pkg.sv"
    assert main(["isa", "--sv", "-o", str(path)]) == OK
    assert "package vdla_pkg;" in path.read_text()


def test_a_configuration_is_read_from_a_file(tmp_path: Path, capsys: Capture) -> None:
    assert main(["config", "tiny", "--json"]) == OK
    path = tmp_path / "machine.json"
    path.write_text(capsys.readouterr().out)
    assert main(["isa", "--config", str(path)]) == OK
    assert capsys.readouterr().out
    path.write_text(path.read_text().replace('"block_in": 4', '"block_in": 8'))
    assert complaint(capsys, "isa", "--config", path).startswith(f"{path}: fingerprint must be ")
    path.write_text("{")
    assert complaint(capsys, "isa", "--config", path).startswith(f"{path}: content must be JSON, got ")


def test_doctor_finds_this_installation_healthy(capsys: Capture) -> None:
    assert main(["doctor"]) == OK
    shown = capsys.readouterr().out
    assert shown.count("exact, ") == 4
    assert "numba" in shown


def test_bench_lists_benchmarks_and_refuses_unknown_ones(capsys: Capture) -> None:
    assert main(["bench", "--list"]) == OK
    listed = capsys.readouterr().out
    assert all(f"{name} " in listed for name in ("layers", "simulator", "compile", "mutants", "equality", "rtl"))
    names = ", ".join(bench_command._descriptions())
    assert complaint(capsys, "bench", "nope") == f"bench: name must be one of {names}, got nope"


def test_bench_writes_nothing_but_the_result(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(progress: Progress, seed: int) -> BenchmarkResult:
        progress("one", 0, 1)
        return BenchmarkResult("layers", {"all_exact": 0}, [{"layer": "C2", "cycles": 12345}], {"seed": seed})

    monkeypatch.setattr(layers, "run", measured)
    assert main(["bench", "layers", "--json", "-", "--seed", "9"]) == FINDING
    document = json.loads(capsys.readouterr().out)
    assert (document["figures"], document["receipt"]) == ({"all_exact": 0}, {"seed": 9})
    assert main(["bench", "layers"]) == FINDING
    assert "12,345" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(4,), (3, 8)])
@pytest.mark.parametrize("dtype", ELEMENT_BITS)
def test_random_inputs_exist_for_every_dtype_of_a_tensor(dtype: str, shape: tuple[int, ...]) -> None:
    bits = int(np.prod(shape)) * ELEMENT_BITS[dtype]
    tensor = ProgramTensor(name="x", role="input", shape=shape, dtype=dtype, layout="", nbytes=bits // 8)
    array = np.asarray(random_array(tensor, 0))
    assert np.array_equal(from_bytes(tensor, to_bytes(tensor, array)), array)

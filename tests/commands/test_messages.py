# SPDX-License-Identifier: Apache-2.0
"""The exact text of further errors of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.cli import main
from vdla.commands import BAD_INPUT, CommandError, run_tables
from vdla.compiler.operators.workloads import workloads
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.diagnosis.layers import layer_operator
from vdla.simulator.timing.timing import time_program

FILES: Mapping[str, str] = {
    "list.json": "[1, 2]",
    "field.json": '{"block_in": 3}',
    "unknown.json": '{"block_inn": 16}',
    "line.json": '{"batch": 1,\n "block_in" 4}',
    "empty.vdla": "",
    "empty.npy": "",
    "relu.s": ".config preset=tiny\n.tensor x role=input dtype=int8 shape=4\nsync compute\n",
    "wrong.s": ".config preset=tiny\nsink compute\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: FILES, a folder and an array."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "x.npy", np.zeros(4, np.int8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


LAYER_NAMES = ", ".join(workloads())
CONFIG_FIELDS = ", ".join(sorted(field.name for field in fields(Config)))
CASES: list[tuple[str, str]] = [
    ("isa --config list.json", "list.json: content must be a table of fields, got [1, 2]"),
    ("isa --config field.json", "field.json: config custom: block_in must be a power of two from 1 to 256, got 3"),
    (
        "isa --config unknown.json",
        f"unknown.json: config: field must be one of {CONFIG_FIELDS}, got block_inn (did you mean block_in?)",
    ),
    (
        "isa --config line.json",
        "line.json: content must be JSON, got an error in line 2: Expecting ':' delimiter",
    ),
    ("isa --config absent.json", "absent.json: no such file (did you mean list.json?)"),
    ("isa -o absent/isa.md", "absent/isa.md: no such folder absent"),
    ("isa -o folder", "folder: Is a directory"),
    (
        "isa --datapath --datapath-test tests",
        "isa: argument --datapath-test: not allowed with argument --datapath (see vdla isa --help)",
    ),
    ("demo --layer D1", "demo: layer must be a convolution, C1 to C12, got D1 (depthwise_conv2d)"),
    ("demo --html folder", "demo: --html must be a file, got the folder folder"),
    ("bench", "bench: name must be one of {benchmarks}, got nothing"),
    ("bench layers --long", "bench layers: --long must be for a benchmark with a long form, got layers"),
    ("bench network --preset tiny", "bench network: --preset must be for a benchmark of any machine, got tiny"),
    ("bench layers C2 C3", "bench layers: subjects must be for a benchmark that takes some, got C2 C3"),
    ("bench layers --json folder", "bench: --json must be a file, got the folder folder"),
    ("compare sim sim x.vdla --assertions", "compare: --assertions must be left out without rtl, got sim and sim"),
    ("compile dense --shape rows=4", "compile dense: shape must give in_features, out_features, got none "),
    ("compile dense --shape =4", "--shape: setting must look like KEY=VALUE, got '=4'"),
    ("compile dense --shape raw=maybe", "compile dense: raw must be yes or no, got 'maybe'"),
    ("compile dense --threads 0", "compile: argument --threads: value must be an integer from 1, got '0' "),
    ("compile C2 --preset tiny --config list.json", "compile: argument --config: not allowed with argument --preset "),
    ("native C2 --target arm", "target: name must be one of host, "),
    ("run --input", "run: argument --input: expected at least one argument (see vdla run --help)"),
    ("asm wrong.s", "wrong.s: line 2, column 1: instruction or directive must be one of load, "),
    ("verify empty.vdla", "empty.vdla: file must be a program (vdla compile C6 -o c6.vdla), got an empty file"),
    ("run relu.s --input x=empty.npy", "empty.npy: file must be an array in .npy format, got an empty file"),
    ("verify field.json", "field.json: file must be a program (vdla compile C6 -o c6.vdla), got one that begins with "),
]


@pytest.mark.parametrize(("words", "message"), CASES, ids=[words for words, _ in CASES])
def test_bad_input_gives_its_exact_message(
    words: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    try:
        code = main(words.split())
    except SystemExit as stop:
        code = int(str(stop.code))
    captured = capsys.readouterr()
    benchmarks = (
        "area, board, chain, compile, coverage, cpu, equality, evaluate, features, fusion, fuzz, gpu, hostile, layers, "
        "map, memory, messages, mutants, network, network_cpu, onnx, placement, quantise, rtl, rtl_mutants, "
        "simulator, tflite, tune, zoo"
    )
    expected = f"vdla: {message.replace('{benchmarks}', benchmarks)}"
    assert (code, captured.out) == (BAD_INPUT, "")
    assert captured.err.startswith(expected)
    assert captured.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def program() -> Program:
    layer = replace(workloads()["C12"], in_channels=16, out_channels=16)
    return layer_operator(layer, Config.preset("pynq_z1"), 1).program


def test_an_input_given_twice_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program().save(folder / "p.vdla")
    assert main(["run", "p.vdla", "--input", "data=x.npy", "data=x.npy"]) == BAD_INPUT
    assert capsys.readouterr().err == "vdla: --input: data must be given once, got it twice\n"


def test_lines_need_the_waits_of_instructions() -> None:
    compiled = program()
    statistics: Any = replace(time_program(compiled), waits=None)
    with pytest.raises(CommandError) as failure:
        run_tables.lines(compiled, statistics, 3)
    assert (
        str(failure.value) == "--lines: the device must record the waits of instructions, got one that counts by unit"
    )

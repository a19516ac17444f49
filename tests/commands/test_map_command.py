# SPDX-License-Identifier: Apache-2.0
"""`vdla map`: operators by name, by shape, from a file; its table, its program, its messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vdla.cli import main
from vdla.compiler.operators.definitions import of_workload
from vdla.compiler.operators.workloads import workload
from vdla.hardware.program import Program

Capture = pytest.CaptureFixture[str]
SMALL = ["--shape", "rows=4", "in_features=8", "out_features=4", "raw=yes", "--preset", "tiny"]


def test_an_operator_by_shape_and_its_program(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "dense.vdla"
    assert main(["map", "dense", *SMALL, "-o", str(target), "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["mappings"]
    assert rows[0]["mapping"] == "gemm: b <- 1, o <- n, i <- k (inp = data, wgt = weight; 100% of the lanes used)"
    assert rows[0]["cycles"] > 0
    assert len(Program.load(target)) > 0


def test_a_function_of_a_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.py"
    body = "    return definitions.matrix_vector(rows=4, columns=8).output"
    path.write_text(f"from vdla import definitions\n\ndef mine():\n{body}\n")
    assert main(["map", f"{path}:mine", "--preset", "tiny"]) == 0
    assert "mine on tiny" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nope"], "map: operator must be one of attention_scores, attention_values, "),
        (["dense"], "map dense: shape must give rows, in_features, out_features, got none"),
        (["dense", "--shape", "rows=x"], "map dense: rows must be an integer, got 'x'"),
        (["C2", "--shape", "rows=1"], "map C2: --shape must be left out for a named layer, got rows=1"),
        (
            ["pooling", "--shape", "channels=4", "size=4", "kernel=2", "kind=min"],
            "pooling: kind must be max or average",
        ),
        (["none.py:f"], "none.py: file must exist, got none"),
        (["none.py"], "map: FILE.py must be followed by the name of a function, as none.py:NAME, got none.py"),
    ],
)
def test_bad_input_is_one_line(words: list[str], text: str, capsys: Capture) -> None:
    assert main(["map", *words]) == 2
    assert capsys.readouterr().err.startswith(f"vdla: {text}")


def test_intrinsics_that_compute_something_else_are_listed_with_all(capsys: Capture) -> None:
    words = ["pooling", "--shape", "kind=max", "channels=4", "size=4x4", "kernel=2"]
    assert main(["map", *words, "--preset", "tiny", "--all"]) == 0
    printed = capsys.readouterr().out
    assert "max_reduce_inp: b <- 1, o <- c" in printed
    assert "refused gemm, mac_inp_wgt, add_reduce_inp: the stage must accumulate by sum from 0, got max" in printed


@pytest.mark.parametrize("layer", ["D9", "CT1"])
def test_layers_of_every_kind_have_a_definition(layer: str) -> None:
    definition = of_workload(workload(layer))
    found = workload(layer)
    channels = found.in_channels if found.operator == "depthwise_conv2d" else found.out_channels
    assert definition.output.shape == (1, channels, found.out_height, found.out_width)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("1 / 0", "the file must run without errors, got ZeroDivisionError: division by zero"),
        ("def f(): return 3", "the function must return a tensor, got 3"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(source: str, text: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "my.py"
    path.write_text(source)
    assert main(["map", f"{path}:f"]) == 2
    assert capsys.readouterr().err == f"vdla: {path}:f: {text}\n"

# SPDX-License-Identifier: Apache-2.0
"""`vdla evaluate`: its tables, page and pictures; its messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.extension_files import again

import vdla
from vdla.cli import main
from vdla.runtime.tune.mapping import explore_mappings

Capture = pytest.CaptureFixture[str]

LAYERS = """

def layer():
    return vdla.definitions.dense(rows=6, in_features=8, out_features=8).output


def pooled():
    return vdla.definitions.pooling(batch=1, channels=4, size=(4, 4), kernel=2, kind="max").output


def pair():
    define = vdla.definitions.dense
    return tuple(define(rows=6, in_features=8, out_features=8) for _ in range(2))


def three():
    return 1, 2, 3
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: tmp_path / kind)
    path = tmp_path / "again.py"
    path.write_text(again() + LAYERS)
    monkeypatch.chdir(tmp_path)
    return str(path)


def test_tables_page_pictures_and_json(source: str, tmp_path: Path, capsys: Capture) -> None:
    files = {name: tmp_path / f"out.{name}" for name in ("html", "svg", "png", "json")}
    layers = [f"{source}:layer", f"{source}:pooled"]
    words = ["evaluate", source, "--layers", *layers, "--preset", "tiny", "--workers", "1"]
    written = ["--html", str(files["html"]), "--picture", str(files["svg"]), "--json", str(files["json"])]
    assert main([*words, *written]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("again on tiny")
    assert "applies to 1 of 2 layers, and takes fewer cycles on 0" in printed
    assert "pooled: not used: the stage must accumulate by sum from 0, got max" in printed
    page, drawn = files["html"].read_text(), files["svg"].read_text()
    assert "<script" not in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert drawn in page and drawn.count("<circle") == 5  # both layers before, one after, and all
    found = json.loads(files["json"].read_text())["layers"]
    assert [layer["layer"] for layer in found] == ["layer", "pooled"]
    assert main([*words, "--picture", str(files["png"]), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"] == found
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_a_function_may_give_the_baseline_too(source: str, capsys: Capture) -> None:
    words = ["evaluate", source, "--layers", f"{source}:pair", "--preset", "tiny", "--workers", "1"]
    assert main(words) == 0
    assert "pair: another formulation before, whose results differ by up to 0\n" in capsys.readouterr().out


def test_a_program_of_an_extension_is_compared(source: str, tmp_path: Path, capsys: Capture) -> None:
    machine = vdla.extend(vdla.Config.preset("tiny"), source)
    layer = vdla.definitions.dense(rows=6, in_features=8, out_features=8).output
    report = explore_mappings(layer, machine)
    again = next(operator for operator in report.operators if str(operator.mapping).startswith("again"))
    again.program.save(tmp_path / "again.vdla")
    assert main(["compare", "sim", "sim", str(tmp_path / "again.vdla"), "--extension", source]) == 0
    assert capsys.readouterr().out.startswith("equal: ")


@pytest.mark.slow
def test_a_network_is_compiled_without_and_with_the_extension(source: str, capsys: Capture) -> None:
    words = ["evaluate", source, "--model", "digits", "--compiled"]
    assert main(words) == 0
    found = capsys.readouterr().out
    assert "again runs 1 operators, and 0 move from the CPU to pynq_z1" in found
    assert "not used: it must take less time than without, " in found
    assert main([*words, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["before"]["cycles"] > document["after"]["cycles"] > 0 and document["extensions"] == ["again"]


def test_an_extension_that_applies_nowhere_is_a_finding(source: str, capsys: Capture) -> None:
    words = ["evaluate", source, "--layers", f"{source}:pooled", "--preset", "tiny", "--workers", "1"]
    assert main(words) == 1
    assert "applies to 0 of 1 layers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--layers", "again.py:three"], "again.py:three: the function must return a tensor, a definition, or two of "),
        (["--accuracy"], "evaluate: --accuracy must have --model, got layers\n"),
        (["--calibration", "x.npy"], "evaluate: --calibration must be left out without --accuracy or --compiled, "),
        (["--compiled"], "evaluate: --compiled must have --model, got none\n"),
        (["--compiled", "--model", "digits", "--trials", "2"], "evaluate: --trials must be left out with --compiled, "),
        (
            ["--compiled", "--model", "digits", "--html", "x.html"],
            "evaluate: --html must be left out with --compiled, ",
        ),
        (["--layers", "C99"], "workload: name must be one of C1, C2, "),
        (["--layers", "C3-C1"], "evaluate: a range of layers must be as C1-C12, D1-D9 or CT1-CT3, got C3-C1\n"),
        (["--layers", "mine.py"], "evaluate: FILE.py must be followed by the name of a function, as mine.py:NAME, "),
        (["--model", "resnet19"], "evaluate: --model must be one of resnet18, resnet50, "),
        (["--model", "none.onnx"], "none.onnx: no such file\n"),
        (["--picture", "x.gif"], "evaluate: --picture must end in .svg or .png, got x.gif\n"),
        (["--html", "nowhere/x.html"], "evaluate: folder of --html must exist, got nowhere\n"),
        (["--trials", "-1"], "evaluate: argument --trials: value must be an integer from 0, got '-1'"),
    ],
)
def test_bad_input_is_one_line(words: list[str], text: str, source: str, capsys: Capture) -> None:
    try:
        code = main(["evaluate", source, "--preset", "tiny", *words])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 2
    assert capsys.readouterr().err.startswith(f"vdla: {text}")


def test_a_missing_file_is_refused(capsys: Capture) -> None:
    assert main(["evaluate", "none.py", "--layers", "C5"]) == 2
    assert capsys.readouterr().err == "vdla: extension: none.py: no such file\n"


def test_energy_is_a_table_that_says_estimated(source: str, capsys: Capture) -> None:
    words = ["evaluate", source, "--layers", f"{source}:layer", "--preset", "tiny", "--workers", "1"]
    assert main([*words, "--energy", "45nm"]) == 0
    printed = capsys.readouterr().out
    assert "energy by 45nm, estimated" in printed and "ISSCC 2014" in printed
    assert "layers that both machines run, before: " in printed
    assert main([*words, "--energy", "45nm", "--json"]) == 0
    energy = json.loads(capsys.readouterr().out)["energy"]
    assert energy["coefficients"] == "45nm" and energy["layers"][0]["before"]["estimated_pj"] > 0
    assert main([*words, "--json"]) == 0
    assert "energy" not in json.loads(capsys.readouterr().out)

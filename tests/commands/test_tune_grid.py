# SPDX-License-Identifier: Apache-2.0
"""`vdla tune --target opencl`: tables of tiles, the log, exact messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.inline_workers import inline_workers

from vdla.cli import main

FUNCTION = """
from vdla import te
def double():
    x = te.placeholder((64, 64), "float32", "x")
    return te.create_function([x], [te.compute((64, 64), lambda i, j: x[i, j] * 2.0, "y")], "double")
def tensor():
    return te.placeholder((4,), "float32", "x")
"""
WORDS = ["tune", "mine.py:double", "--target", "opencl", "--costs", "modelled", "--search", "exhaustive"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FUNCTION)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials run in this process."""
    monkeypatch.setattr("vdla.runtime.tune.grid_runs.one_process", inline_workers)


@pytest.mark.usefixtures("inline")
def test_the_best_tiles_are_shown_beside_the_default_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 0
    text = capsys.readouterr().out
    assert text.startswith("y of double on model: 18 of 18 points\n")
    assert "default" in text and "modelled cycles" in text and "threads" in text
    use = "tuning.jsonl: every trial; vdla.compile(..., 'opencl', tuned='tuning.jsonl') uses the best\n"
    assert text.endswith(use)
    assert main([*WORDS, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["reused"], found["unit"], found["block"]) == (18, "cycles", "y")
    assert found["cost"] <= found["default_cost"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "2"], "tune: --workers must be left out with --target opencl, got 2"),
        (["--threads", "2"], "tune: --threads must be left out with --target opencl, got 2"),
        (["--dtype", "int8"], "tune mine.py:double: --dtype must be left out for a function, got int8"),
        (["--shape", "a=1"], "tune mine.py:double: --shape must be left out for a function, got a=1"),
    ],
)
def test_options_of_other_targets_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, *words]) == 2
    assert capsys.readouterr().err.strip().endswith(message)


def test_what_is_no_function_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "mine.py:tensor", "--target", "opencl"]) == 2
    rule = "mine.py:tensor: the function must return that of te.create_function with --target opencl, got Tensor"
    assert capsys.readouterr().err.strip().endswith(rule)
    assert main(["tune", "C5", "--costs", "modelled"]) == 2
    rule = "tune: --target must be opencl or cuda with --costs modelled, got none"
    assert capsys.readouterr().err.strip().endswith(rule)
    assert main(["tune", "C5", "--target", "host", "--dtype", "int8"]) == 2
    rule = "tune: --target must be opencl or cuda with --dtype int8, got host"
    assert capsys.readouterr().err.strip().endswith(rule)


@pytest.mark.usefixtures("inline")
def test_tiles_of_tensor_cores_are_tuned_without_a_gpu_and_written_for_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["dense", "--shape", "rows=64", "in_features=64", "out_features=64", "--dtype", "float16"]
    search = ["--costs", "modelled", "--search", "estimate", "--trials", "3", "--log", "half.jsonl"]
    assert main(["tune", *words, "--target", "cuda", *search, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["block"], found["point"] == found["default"]) == ("y_sum", False)
    for option in ([], ["--tuned", "half.jsonl"]):
        assert main(["native", *words, "--target", "sm_80", "-o", f"of{len(option)}", *option]) == 0
    default, tuned = (Path(folder, "dense.ptx").read_text() for folder in ("of0", "of2"))
    assert "mma.sync" in default and "mma.sync" in tuned and default != tuned
    capsys.readouterr()
    assert main(["native", *words, "--target", "sm_75", "--tuned", "half.jsonl"]) == 2
    rule = "native: half.jsonl must have modelled tiles of the operator for sm_75, got none"
    assert capsys.readouterr().err.strip().endswith(rule)

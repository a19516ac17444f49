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

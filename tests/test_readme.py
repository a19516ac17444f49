# SPDX-License-Identifier: Apache-2.0
"""README and documents: code runs and prints the output shown; links exist."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers.documents import check_page, fences, plain_commands

from vdla.cli import main, parsers
from vdla.commands import load
from vdla.networks.digits_images import training_digits
from vdla.networks.registry import NETWORKS

ROOT = Path(__file__).resolve().parent.parent
SLOW = {"area", "bench"}  # take too long here and have their own tests
LINES = 130
STATUS = 15  # lines in which the status stands
FIRST_STEPS = ROOT / "docs" / "first-steps.md"


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_what_its_code_prints(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check_page(ROOT / "README.md", tmp_path, request.config.getoption("--update-golden"))


def test_first_steps_show_what_their_code_prints(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check_page(FIRST_STEPS, tmp_path, request.config.getoption("--update-golden"))


def test_the_readme_is_short_and_begins_with_the_status() -> None:
    lines = readme().splitlines()
    assert len(lines) <= LINES
    first = "\n".join(lines[:STATUS])
    assert "| status | ran on | never ran on |" in first
    for words in ("a real board; Vivado", "any GPU", "an Arm processor"):
        assert words in first


def test_the_readme_says_what_each_extra_brings() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = re.search(r"^\[project.optional-dependencies\]\n(.*?)^\[", project, re.DOTALL | re.MULTILINE)
    assert declared is not None
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", readme(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(re.findall(r"^(\w+) = \[", declared[1], re.MULTILINE))


def test_first_steps_show_what_the_demo_prints(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = FIRST_STEPS.read_text(encoding="utf-8")
    said = next(text for language, text in fences(page) if language == "text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo"]) == 0
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    if request.config.getoption("--update-golden"):
        FIRST_STEPS.write_text(page.replace(said, shown), encoding="utf-8")
    else:
        assert _steady(shown) == _steady(said)


def _steady(text: str) -> str:
    """The output without what depends on the machine: the CPU's name, measured times, spaces."""
    text = re.sub(r"cpu \(\S+\)", "cpu (host)", text)
    text = re.sub(r"CPU steps: .*", "CPU steps", text)
    text = re.sub(r"[\d,.]+ frames per second, .*", "frames per second", text)
    return re.sub(r" +", " ", text)


def test_the_readmes_commands_work_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader has a model and some of its inputs, and is in the repository."""
    (tmp_path / "model.onnx").write_bytes(NETWORKS["digits"].build().SerializeToString())
    np.save(tmp_path / "images.npy", training_digits().images[:16])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    chosen = [words for words in plain_commands() if words[0] not in SLOW]
    assert len(chosen) >= 8
    for words in chosen:
        assert main(words) == 0, words


def test_the_commands_of_first_steps_work_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = [words for words in plain_commands(FIRST_STEPS) if words[0] not in SLOW]
    assert len(chosen) >= 8
    for words in chosen:
        assert main(words) == 0, words


def test_the_readmes_commands_for_a_board_are_commands() -> None:
    """They run on virtual boards in the tests of those; here their options exist."""
    (block,) = (text for language, text in fences(readme()) if language == "sh")
    lines = re.findall(r"^(?:\w+=\S+ )?vdla (.*?)(?: &)?$", block, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        command, *words = shlex.split(line)
        _, by_name = parsers({command: load(command)})
        by_name[command].parse_args(words)


def test_the_index_names_every_document() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "index.md" and f"({page})" not in index] == []


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def imported(source: str) -> set[str]:
    """The modules that a source file imports; `from a import b` gives a."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {ast.unparse(node).split()[1] for node in nodes}


def test_examples_need_only_the_public_interface() -> None:
    code = "\n".join(text for language, text in fences(readme()) if language == "python")
    assert imported(code) == {"numpy", "vdla"}
    for path in EXAMPLES:
        assert {name for name in imported(path.read_text()) if name.startswith("vdla.")} == set()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out

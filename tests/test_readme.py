"""README and documents: code runs and prints the output shown; links exist."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from pathlib import Path

import pytest
from helpers.documents import fences, printed

from vdla.cli import main

ROOT = Path(__file__).resolve().parent.parent
SLOW = {"bench", "area"}  # commands that take too long here and have their own tests


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_what_its_code_prints(tmp_path: Path) -> None:
    assert printed(readme(), tmp_path) == readme()


def test_the_readme_shows_what_the_demo_prints(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = next(text for language, text in fences(readme()) if language == "text")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo"]) == 0
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
    if request.config.getoption("--update-golden"):
        path = ROOT / "README.md"
        path.write_text(readme().replace(said, shown), encoding="utf-8")
    else:
        assert _steady(shown) == _steady(said)


def _steady(text: str) -> str:
    """The output without what depends on the machine: the CPU's name, measured times, spaces."""
    text = re.sub(r"cpu \(\S+\)", "cpu (host)", text)
    text = re.sub(r"CPU steps: .*", "CPU steps", text)
    text = re.sub(r"[\d,.]+ frames per second, .*", "frames per second", text)
    return re.sub(r" +", " ", text)


def commands() -> list[str]:
    """The `vdla` commands in the README's plain blocks, without their comments."""
    blocks = [text for language, text in fences(readme()) if language == ""]
    lines = [line for text in blocks for line in text.splitlines() if line.startswith("vdla ")]
    return [re.split(r" {3,}", line)[0] for line in lines]


def test_the_readmes_commands_work_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = [line for line in commands() if not SLOW & set(line.split())]
    assert len(chosen) >= 5
    for line in chosen:
        arguments = shlex.split(line.split("|")[0])[1:]
        assert main(arguments) == 0, line


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

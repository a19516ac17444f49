# SPDX-License-Identifier: Apache-2.0
"""Where there is neither Numba nor LLVM, as in a browser, tries have the same grades."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.plain_process import run_plain
from helpers.puzzle_tries import solution, wrong_tries

import vdla
from vdla.puzzles import NAMES

SCRIPT = """
import json
from pathlib import Path

import vdla

tries = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
print(json.dumps([str(vdla.puzzle(name).check(text)) for name, text in tries]))
"""


@pytest.mark.slow
def test_solutions_starts_and_wrong_tries_have_the_same_grades(tmp_path: Path) -> None:
    names = [name for name in NAMES if vdla.puzzle(name).suffix != ".sv"]  # Verilator runs those
    tries = [(name, text) for name in names for text in (solution(name), vdla.puzzle(name).start)]
    tries += [(name, next(wrong_tries(name)).text()) for name in names]
    (tmp_path / "tries.json").write_text(json.dumps(tries), encoding="utf-8")
    grades = json.loads(run_plain(SCRIPT, tmp_path / "tries.json"))
    assert grades == [str(vdla.puzzle(name).check(text)) for name, text in tries]
    assert sum("solved in" in grade for grade in grades) == len(names)

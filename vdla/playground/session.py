# SPDX-License-Identifier: Apache-2.0
"""What the page asks of Python, in the browser: the grade of a try, its cycles, a program's output.

Requests and answers are JSON. This module and what it imports need NumPy and Python only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from vdla.hardware.isa import UNITS
from vdla.puzzles import puzzle
from vdla.puzzles.attempt import Attempt, run
from vdla.simulator.simulate import simulate
from vdla.simulator.stats import RunStats
from vdla.support.errors import Error
from vdla.support.text_table import text_table

Answer = dict[str, object]
_ABSENT = "ModuleNotFoundError: "
_REMEDY = "; a browser has Python's library, NumPy and VDLA only: install VDLA to run this"


def answer(request: str, reply: str) -> None:
    """Write the answer to the request in a file to another file: `text`, and `solved` and `cycles`
    of a grade.
    """
    asked = json.loads(Path(request).read_text(encoding="utf-8"))
    Path(reply).write_text(json.dumps(_ANSWERS[asked["kind"]](asked)), encoding="utf-8")


def _check(asked: Mapping[str, str]) -> Answer:
    """The grade of a try, as `vdla puzzle` prints it."""
    grade = puzzle(asked["name"]).check(asked["text"])
    return {"text": str(grade), "solved": grade.solved, "cycles": grade.cycles}


def _cycles(asked: Mapping[str, str]) -> Answer:
    """The cycles of a try that may run, whatever it computes."""
    one = puzzle(asked["name"])
    try:
        program = one.build(Attempt.of(asked["text"], f"try{one.suffix}"), one)
        stats = simulate(program, mode="timing").statistics
    except Error as error:
        return {"text": f"{one.name}: no cycles: {error}"}
    assert stats is not None, "timing was asked for"
    return {"text": f"{one.name}: {stats.total_cycles} cycles (limit {one.limit})\n\n{_spent(stats)}"}


def _spent(stats: RunStats) -> str:
    """What the units do in these cycles; what none does is left out."""
    counters = {unit: stats.counters[unit] for unit in UNITS}
    kinds = [kind for kind in next(iter(counters.values())) if any(count[kind] for count in counters.values())]
    rows = ((kind, *(str(counters[unit][kind]) for unit in UNITS)) for kind in kinds)
    return str(text_table("", ("cycles", *UNITS), rows))


def _run(asked: Mapping[str, str]) -> Answer:
    """The error of a program, if it has one; what it prints goes to the standard output."""
    attempt = Attempt(asked["name"], asked["text"])
    code = {"__name__": "__main__", "__file__": attempt.file}
    try:
        run(attempt, lambda: exec(compile(asked["text"], attempt.file, "exec"), code))
    except Error as error:
        return {"text": f"{error}{_REMEDY if _ABSENT in str(error) else ''}"}
    return {"text": ""}


_ANSWERS: dict[str, Callable[[Mapping[str, str]], Answer]] = {"check": _check, "cycles": _cycles, "run": _run}

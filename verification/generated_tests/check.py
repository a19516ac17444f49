# SPDX-License-Identifier: Apache-2.0
"""The generated tests of a machine's extensions: random programs, judged view by view.

The expectations come from the declarations alone. Of a program, the first view that disagrees is
named; those behind it are not asked, since they build on it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.verification.generated_tests.steps import declared_instructions
from vdla.verification.generated_tests.views import VIEWS, TestedProgram, View
from vdla.verification.programs.device_pair import Comparator
from vdla.verification.programs.random_programs import random_verified_program

COUNTS = (40, 30, 60, 24)
"""Instructions of the programs, cyclically."""
LONGEST = 12
"""Iterations of an instruction, which are interpreted one by one."""

Breaking = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The view that contradicts a declaration, and how; `seed` replays the program."""

    view: View
    text: str
    seed: int
    machine: str

    def __str__(self) -> str:
        return f"{self.view.value}: {self.text} (seed {self.seed} on {self.machine})"


class GeneratedTests:
    """The tests of a machine, whose extensions must be loaded.

    `built` is the machine that is judged, by default `config`; `planted` makes what is broken in
    its views while they are asked. `compare` runs a program on simulator and RTL.
    """

    def __init__(
        self,
        config: Config,
        built: Config | None = None,
        planted: Breaking = nullcontext,
        compare: Comparator | None = None,
    ) -> None:
        self.config = config
        self.built = built or config
        self.planted = planted
        self.compare = compare
        self.declared = declared_instructions(config)

    @property
    def views(self) -> list[str]:
        """The views that are asked, in order."""
        return [view.value for view in VIEWS if self.compare is not None or view is not View.RTL]

    def program(self, seed: int) -> Program:
        """The program of a seed."""
        return _program(self.config, seed)

    def case(self, seed: int) -> TestedProgram:
        """The program of a seed, for the views to judge."""
        program = self.program(seed)
        return TestedProgram(program, replace(program, config=self.built), self.declared, seed, self.compare)

    def check(self, seed: int) -> Disagreement | None:
        """The first disagreement on the program of a seed; None if all views agree."""
        case = self.case(seed)
        with self.planted():
            for view, ask in VIEWS.items():
                text = answer(ask, case)
                if text is not None:
                    return Disagreement(view, text, seed, self.config.name)
        return None


@lru_cache(maxsize=256)
def _program(config: Config, seed: int) -> Program:
    """Many machines are judged on the programs of one, which take longer to draw than to judge."""
    return random_verified_program(config, seed, COUNTS[seed % len(COUNTS)], longest=LONGEST)


def answer(ask: Callable[[TestedProgram], str | None], case: TestedProgram) -> str | None:
    """What a view says; one that is broken may fail to answer, which is a disagreement too."""
    try:
        return ask(case)
    except Exception as error:  # of a view that is broken
        return f"a valid program must be handled, got {type(error).__name__}: {error}"

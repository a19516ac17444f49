# SPDX-License-Identifier: Apache-2.0
"""What finds a defect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.verification.rtl_mutants.defects import Defect


class Killer(Enum):
    """What finds a defect; NOTHING is a survivor."""

    EQUALITY = "equality"
    CONTROL = "control port"
    STOPS = "stops"
    ASSERTION = "assertion"
    PROTOCOL = "protocol"
    HANG = "hang"
    CRASH = "crash"
    LINT = "lint"
    BENCH = "bench"
    EQUIVALENT = "equivalent"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A defect and what finds it, with the words of the finding."""

    defect: Defect
    killer: Killer
    detail: str = ""

    def __str__(self) -> str:
        summary = self.detail.splitlines()[0][:120] if self.detail else ""
        return f"{self.defect}: {self.killer.value}{': ' if summary else ''}{summary}"

"""What the self-test found of one thing: it works, it does not and why, or it is not there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CheckState(Enum):
    """Whether something works."""

    OK = "ok"
    FAILED = "failed"
    ABSENT = "-"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A line of the report; `detail` says what is wrong, or what was seen."""

    name: str
    verdict: CheckState
    detail: str = ""
    cycles: int | None = None

    @property
    def failed(self) -> bool:
        """Whether it does not work."""
        return self.verdict is CheckState.FAILED

# SPDX-License-Identifier: Apache-2.0
"""The verdict on a program: findings that refuse it, and warnings.

`str(verdict)` is the text for people; every number in it is also a field of a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vdla.support.errors import Error
from vdla.support.html_repr import shown_by

WIDTH = 96
"""Characters of a schedule line in the text; the finding has the whole line."""


class VerifyError(Error, ValueError):
    """An unsafe program; `verdict` has the findings."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


class Kind(str, Enum):
    """The property that a finding violates."""

    CONFIGURATION = "configuration"
    ENCODING = "encoding"
    BOUNDS = "bounds"
    UNINITIALISED = "uninitialised"
    DEADLOCK = "deadlock"
    RACE = "race"
    UNBALANCED = "unbalanced"


@dataclass(frozen=True, slots=True)
class Range:
    """Entries of a buffer, or beats of a tensor, from `first` to `last`, possibly with gaps."""

    space: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.space}[{self.first}]" if self.first == self.last else f"{self.space}[{self.first}..{self.last}]"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation or a warning: its message, and what it is about."""

    kind: Kind
    message: str
    instructions: tuple[int, ...] = ()
    units: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ()
    schedule: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = (f"  schedule: {_shortened(line)}" for line in self.schedule)
        return "\n".join([f"{self.kind.value}: {self.message}", *lines])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of a program; only the first of each kind are kept, `more` counts the rest."""

    program: str
    instructions: int
    findings: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether the program is safe on every machine of its fingerprint."""
        return not self.findings

    def kinds(self) -> frozenset[Kind]:
        """The kinds of the findings."""
        return frozenset(finding.kind for finding in self.findings)

    def raise_if_bad(self) -> None:
        """VerifyError with all findings unless `ok`."""
        if not self.ok:
            raise VerifyError(self)

    _repr_html_ = shown_by("verdicts", "verdict_html")

    def __str__(self) -> str:
        lines = [self._headline()]
        lines += [_indented(str(finding)) for finding in self.findings]
        lines += [f"  and {_count(self.more, 'finding')} more"] if self.more else []
        lines += [_indented(f"warning: {warning.message}") for warning in self.warnings]
        return "\n".join(lines)

    def _headline(self) -> str:
        size = _count(self.instructions, "instruction")
        if self.ok:
            return f"program {self.program}: verified, {size}"
        return f"program {self.program}: refused, {_count(len(self.findings) + self.more, 'finding')} in {size}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _shortened(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..."


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))

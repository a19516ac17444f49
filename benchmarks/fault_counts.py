# SPDX-License-Identifier: Apache-2.0
"""Counts of planted faults by kind and verdict: what certificates and random runs say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vdla.benchmarks.harness import Row


def verdict(holds: bool, agrees: Iterator[bool]) -> str:
    """The verdict on a fault: whether it is certified, and whether random runs agree, in order."""
    if holds:
        return "equal" if all(agrees) else "accepted"
    if not next(agrees):
        return "refused"
    return "hidden always" if all(agrees) else "hidden"


class FaultCounts:
    """The verdicts on faults by kind; kinds are listed although none was planted."""

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}

    def add(self, kind: str, verdict: str) -> None:
        """Count a verdict."""
        self._counts.setdefault(kind, Counter())[verdict] += 1

    def rows(self) -> list[Row]:
        """The figures of each kind."""
        return [{"kind": kind, **_figures(count)} for kind, count in self._counts.items()]

    def total(self) -> Row:
        """The figures of all kinds."""
        return _figures(sum(self._counts.values(), Counter()))

    @property
    def kinds(self) -> int:
        """How many kinds were planted."""
        return sum(row["planted"] > 0 for row in self.rows())


def _figures(counts: Counter[str]) -> Row:
    planted = sum(counts.values()) - counts["equal"]
    hidden = counts["hidden"] + counts["hidden always"]
    names = {"accepted": counts["accepted"], "hidden": hidden, "hidden_always": counts["hidden always"]}
    return {"planted": planted, **names, "without_effect": counts["equal"]}

"""Paired timing: runs of two functions alternate, so that load on the machine affects both.

Times are CPU seconds of one run in all threads of this process, the median of several rounds. On
one thread that is wall-clock time without the share of other processes. A round repeats short
functions until they can be timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log

Work = Callable[[], object]

ROUNDS = 9
_ROUND_S = 0.004  # the least duration of a round


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Median CPU seconds of one run of each."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Their time over ours; above 1 if we are faster."""
        return self.theirs / self.ours


def paired_times(ours: Work, theirs: Work, rounds: int = ROUNDS) -> PairedTimes:
    """The times of both in alternating rounds, after a warm-up."""
    repeats = [_repeats(work) for work in (ours, theirs)]
    rows = [[_seconds(work, n) for work, n in zip((ours, theirs), repeats, strict=True)] for _ in range(rounds)]
    return PairedTimes(*(statistics.median(column) for column in zip(*rows, strict=True)))


def _repeats(work: Work) -> int:
    """The runs of a round."""
    work()
    return max(1, int(_ROUND_S / _seconds(work, 1)))


def _seconds(work: Work, repeats: int) -> float:
    """The mean CPU time of a run."""
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def geomean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))

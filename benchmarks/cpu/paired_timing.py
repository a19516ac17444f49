"""Two pieces of work timed side by side: their runs alternate, so that whatever else the machine does meets both.

Times are seconds that the processor spent on one run, in all threads of this process, the median of several rounds: on
one thread that is the time on the wall, but for what other processes take of it. A round repeats short work until it
can be timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import exp, log

Work = Callable[[], object]

ROUNDS = 9
ROUND_S = 0.004  # at least so long is each work repeated in a round


@dataclass(frozen=True, slots=True)
class Times:
    """Median seconds of one run of each."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Their time over ours: above 1 we are faster."""
        return self.theirs / self.ours


def contest(ours: Work, theirs: Work, rounds: int = ROUNDS) -> Times:
    """The times of both, in turns, after a run of each that is not timed."""
    repeats = [repeats_of(work) for work in (ours, theirs)]
    rows = [[seconds(work, n) for work, n in zip((ours, theirs), repeats, strict=True)] for _ in range(rounds)]
    return Times(*(statistics.median(column) for column in zip(*rows, strict=True)))


def repeats_of(work: Work) -> int:
    """How often work is repeated in a round."""
    work()
    return max(1, int(ROUND_S / seconds(work, 1)))


def seconds(work: Work, repeats: int) -> float:
    """The mean time of a run."""
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def geomean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))

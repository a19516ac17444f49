# SPDX-License-Identifier: Apache-2.0
"""What a source of hostile files is, and how one of its cases runs."""

from __future__ import annotations

import resource
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vdla.support.errors import Error

TIMEOUT_S = 20
MEMORY_BYTES = 4 << 30

Case = Callable[[int], str]  # from a seed to what came of the file, in a word; errors are refusals


@dataclass(frozen=True, slots=True)
class HostileSource:
    """Files of one format. `case` reads the mutated file of a seed; `count` cases are run.

    `prepare` runs before the first case of a process, whose time it does not take.
    """

    name: str
    case: Case
    count: int
    prepare: Callable[[], object] = bool


@dataclass
class HostileOutcome:
    """Some cases of a source: how often each word, and the faults by seed."""

    cases: int = 0
    words: Counter[str] = field(default_factory=Counter)
    faults: dict[int, str] = field(default_factory=dict)

    def add(self, other: HostileOutcome) -> None:
        """Add the results of other cases."""
        self.cases += other.cases
        self.words += other.words
        self.faults |= other.faults


def run_case(case: Case, seed: int) -> HostileOutcome:
    """One case; whatever is raised besides an error of the toolkit is a fault."""
    try:
        word = case(seed)
    except Error:
        word = "refused"
    except Exception as error:
        return HostileOutcome(1, faults={seed: f"{type(error).__name__}: {error}"})
    return HostileOutcome(1, Counter({word: 1}))


def run_guarded(source: HostileSource, seeds: Sequence[int]) -> HostileOutcome:
    """Cases in this process, which dies if one of them takes too long; its memory is bounded."""
    source.prepare()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, most))
    total = HostileOutcome()
    for seed in seeds:
        signal.alarm(TIMEOUT_S)
        total.add(run_case(source.case, seed))
    signal.alarm(0)
    return total


def died(seed: int) -> HostileOutcome:
    """The outcome of a case that killed its process."""
    return HostileOutcome(1, faults={seed: f"the process must survive the case for {TIMEOUT_S} s, got its death"})

# SPDX-License-Identifier: Apache-2.0
"""What all benchmarks share: the result, its receipt, sections, and timing in turns.

A benchmark is a module of this package with `run(progress, seed=0) -> BenchmarkResult`; the
first line of its docstring is its description in `vdla bench --list`. Its receipt names everything
the figures depend on but the speed of the machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import multiprocessing
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import date
from importlib.util import find_spec
from math import exp, log
from typing import Any, TypeVar

from vdla.compiler.target import host
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.errors import Error
from vdla.support.processor import cpu_model
from vdla.support.suggest import did_you_mean
from vdla.support.version import version_text

Row = dict[str, Any]
Figures = dict[str, float]


class LibraryError(Error, RuntimeError):
    """A library that a benchmark needs is missing."""


class SubjectError(Error, ValueError):
    """A subject of a benchmark that does not exist."""


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """`figures`: name -> number; `rows`: one a layer or program; `receipt`: how to run it again."""

    name: str
    figures: Mapping[str, float]
    rows: Sequence[Mapping[str, Any]]
    receipt: Mapping[str, Any]

    def json(self) -> str:
        """The result as indented JSON text with a final newline."""
        document = {
            "benchmark": self.name,
            "figures": dict(self.figures),
            "rows": [dict(row) for row in self.rows],
            "receipt": dict(self.receipt),
        }
        return json.dumps(document, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a benchmark: its figures and rows, and what the receipt has besides."""

    figures: Mapping[str, float]
    rows: Sequence[Mapping[str, Any]] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def joined(sections: Iterable[Section]) -> Section:
    """All sections as one, in order."""
    figures: Figures = {}
    details: Row = {}
    rows: list[Mapping[str, Any]] = []
    for section in sections:
        figures |= section.figures
        rows += section.rows
        details |= section.details
    return Section(figures, rows, details)


def subjects_of(where: str, what: str, names: Iterable[str], known: Iterable[str]) -> list[str]:
    """The subjects `names`, each once, or all that are known.

    Raises:
        SubjectError: a name is unknown.
    """
    for name in names:
        if name not in known:
            got = f"{name}{did_you_mean(name, known)}"
            raise SubjectError(f"bench {where}: {what} must be one of {', '.join(known)}, got {got}")
    return list(dict.fromkeys(names)) or list(known)


def total(rows: Iterable[Mapping[str, Any]], column: str) -> Any:  # noqa: ANN401  a number
    """The sum of a column."""
    return sum(row[column] for row in rows)


# --- receipts -------------------------------------------------------------------------------------


def receipt(config: Config, programs: Iterable[Program], seed: int, command: str, libraries: Iterable[str] = ()) -> Row:
    """Configuration, program hashes, versions, machine, date, seed and command."""
    hashes = {program.name: program.hash for program in programs}
    machine = {"config": config.name, "config_fingerprint": config.fingerprint, "programs": hashes}
    return machine | host_receipt(seed, command, libraries)


def host_receipt(seed: int, command: str, libraries: Iterable[str] = (), **details: object) -> Row:
    """The receipt of what runs on this machine: versions, machine, date, seed and command."""
    today = date.today().isoformat()
    cpu = f"{cpu_model()} ({host().cpu})"
    made = {"versions": versions(*libraries), "cpu": cpu, "date": today}
    return {**made, **details, "seed": seed, "command": command}


def versions(*libraries: str) -> dict[str, str]:
    """The versions of vdla, of Python and of the libraries that the figures depend on."""
    installed = {name: _installed_version(name) for name in ("numpy", "numba", *libraries)}
    return {"vdla": version_text(), "python": platform.python_version(), **installed}


def _installed_version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def require_libraries(where: str, names: Iterable[str], extra: str = "dev") -> None:
    """LibraryError unless all modules are installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        text = f'{", ".join(missing)} must be installed, got none (pip install "vdla[{extra}]")'
        raise LibraryError(f"bench {where}: {text}")


# --- work in processes ----------------------------------------------------------------------------

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def finished(work: Callable[[Task], Outcome], tasks: Iterable[Task], workers: int) -> Iterator[Outcome]:
    """The outcomes of tasks as they complete in `workers` processes; 0 runs them in this one."""
    if not workers:
        yield from map(work, tasks)
        return
    context = multiprocessing.get_context("spawn")  # a fork would inherit the threads of compiled code
    with ProcessPoolExecutor(workers, context) as pool:
        for done in as_completed([pool.submit(work, task) for task in tasks]):
            yield done.result()


# --- timing in turns ------------------------------------------------------------------------------
# Runs of several functions alternate, so that load on the machine affects all. Times are CPU
# seconds of one run in all threads of this process, the median of several rounds. On one thread
# that is wall-clock time without the share of other processes. A round repeats short functions
# until they can be timed.

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
    return PairedTimes(*times_in_turns((ours, theirs), rounds))


def times_in_turns(works: Sequence[Work], rounds: int, round_s: float = _ROUND_S, warm: bool = False) -> list[float]:
    """The times of all in alternating rounds, after a warm-up.

    `warm` runs each once more before it is timed, which brings its data into the caches.
    """
    repeats = [_repeats(work, round_s, warm) for work in works]
    rows = [[_seconds(work, n, warm) for work, n in zip(works, repeats, strict=True)] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def _repeats(work: Work, round_s: float, warm: bool) -> int:
    """The runs of a round."""
    work()
    return max(1, int(round_s / _seconds(work, 1, warm)))


def _seconds(work: Work, repeats: int, warm: bool) -> float:
    """The mean CPU time of a run."""
    if warm:
        work()
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def geomean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))

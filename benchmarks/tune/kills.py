# SPDX-License-Identifier: Apache-2.0
"""Tuning runs that are killed at random moments and resumed: nothing is lost, nothing repeated.

A trial is lost if the run had it on disk and the log has it no more, and repeated if a later run
measures it again. Those that were being measured at a kill are neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from vdla.benchmarks.harness import Section
from vdla.benchmarks.tune.section import SectionRequest
from vdla.compiler.templates import conv2d
from vdla.compiler.tune import Point, TuningTask, VdlaTask, template_task
from vdla.compiler.tune.searches import new_search
from vdla.hardware.config import Config
from vdla.runtime.tune.log import PointFeatures, TaskRun, TuningLog, read_logs
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.tune import tune
from vdla.runtime.tune.workers import LocalWorkers
from vdla.support.progress import ReportStep

KILLS = 20
KILL_STEPS = KILLS + 1
_TRIALS = 120
_MOST_S = 0.25  # from the first worker's start to the kill
_START_S = 60.0
_START = (
    "import sys; sys.path[:] = {path!r}; from vdla.benchmarks.tune.kills import run_until_killed; "
    "run_until_killed({log!r}, {journal!r}, {trials}, {seed})"
)


def measure_kills(request: SectionRequest) -> Section:
    """`kills` runs killed at random moments; trials `lost` and `repeated`, which must be 0."""
    figures = kills(KILLS, _TRIALS, request.seed, request.report)
    return Section(figures, [{"run": "killed and resumed", "trials": _TRIALS, **figures}])


def kills(count: int, trials: int, seed: int, report: ReportStep = lambda what: None) -> dict[str, int]:
    """Figures of a run of `trials` that is killed `count` times: `kills`, `lost`, `repeated`.

    The finished run must have no trial left to do.
    """
    rng, killed, repeated, acknowledged = np.random.default_rng(seed), 0, 0, Counter[str]()
    with TemporaryDirectory() as folder:
        log, journal = Path(folder, "log.jsonl"), Path(folder, "journal")
        for number in range(count + 1):
            report("runs killed")
            before = set(_logged(log))
            delay_s = float(rng.uniform(0, _MOST_S)) if number < count else None
            killed += _run(log, journal, trials, seed, delay_s)
            lines = [line.partition(" ") for line in _whole_lines(journal)]
            begun = [point for word, _, point in lines if word == "begin"]
            acknowledged.update(point for word, _, point in lines if word == "logged")
            repeated += sum(point in before for point in begun)
            journal.unlink(missing_ok=True)
        counts = Counter(_logged(log))
    return {
        "kills": killed,
        "lost": len(set(acknowledged) - set(counts)),
        "repeated": repeated + sum(number - 1 for number in counts.values()),
        "left": trials - len(counts),
    }


def _run(log: Path, journal: Path, trials: int, seed: int, delay_s: float | None) -> int:
    """Run, and kill `delay_s` after the first worker is ready; whether it was killed."""
    text = _START.format(path=sys.path, log=str(log), journal=str(journal), trials=trials, seed=seed)
    process = subprocess.Popen([sys.executable, "-c", text])
    if delay_s is None:
        process.wait()
        return 0
    late = time.monotonic() + _START_S
    while not journal.exists() and process.poll() is None and time.monotonic() < late:
        time.sleep(0.002)
    time.sleep(delay_s)
    process.kill()
    return int(process.wait() < 0)


def _whole_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _logged(log: Path) -> list[str]:
    """The points in the log."""
    entries = read_logs(log).of_key(killed_task().key) if log.exists() else []
    return [spelling(entry.trial.point) for entry in entries]


# --- the run that is killed -----------------------------------------------------------------------
# A tuning run that is to be killed: it keeps a journal of the trials begun and logged.
#
# The journal outlives it: `run` when workers are ready, `begin POINT` before a point is measured,
# `logged POINT` when its trial is on disk. Each is written at once.


_SEARCH = "random"


def killed_task() -> VdlaTask:
    """A convolution whose trials take milliseconds."""
    shape = {"height": 6, "width": 6, "in_channels": 8, "out_channels": 8, "kernel": 3, "pads": 1}
    return template_task(conv2d, Config.preset("tiny"), batch=1, **shape)


def note(journal: Path, *words: str) -> None:
    """Append a line with one write."""
    handle = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(handle, (" ".join(words) + "\n").encode())
    os.close(handle)


def spelling(point: Point) -> str:
    """A point as text, in one way."""
    return json.dumps(dict(point), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class JournalMeasurer:
    """The simulator, with a journal."""

    journal: Path
    unit: str = "cycles"
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """Nothing; the worker can begin."""
        note(self.journal, "run")
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cycles."""
        note(self.journal, "begin", spelling(point))
        return SimMeasurer().measure(task, point)


class JournalLog(TuningLog):
    """A log that notes each trial once it is on disk."""

    def __init__(self, path: Path, journal: Path) -> None:
        super().__init__(path)
        self._journal = journal

    def append(self, run: TaskRun, trial: Trial, features: PointFeatures | None = None) -> None:
        """As `TuningLog`."""
        super().append(run, trial, features)
        note(self._journal, "logged", spelling(trial.point))


def run_until_killed(log: str, journal: str, trials: int, seed: int) -> None:
    """The run."""
    task = killed_task()
    run = TaskRun(task.key, task.name, task.config.name, task.space.name, _SEARCH, seed)
    workers = LocalWorkers(JournalMeasurer(Path(journal)), 2)
    try:
        with JournalLog(Path(log), Path(journal)) as opened:
            tune(task, new_search(_SEARCH, task, seed), run, workers, trials=trials, log=opened)
    finally:
        workers.close()
